"""Words that the rules know by heart: what people are, do, eat, suffer from and enjoy.

Almost anything can follow "I'm a ..." and "I have ...". What may become a fact there is on a list.
"""

from __future__ import annotations

from recollect.enrich.names import proper, words

OCCUPATIONS = words(
    """
    account executive, account manager, accountant, activist, actor, actress, actuary, acupuncturist, administrator,
    adviser, advisor, agronomist, aid worker, air traffic controller, ambulance driver, anaesthetist, analyst,
    anesthesiologist, animator, anthropologist, antiquarian, appraiser, apprentice, arborist, archaeologist,
    architect, archivist, artist, assembly line worker, assistant, associate, astronaut, astronomer, astrophysicist,
    athlete, attorney, au pair, auctioneer, auditor, author, babysitter, bailiff, baker, bank teller, banker, barback,
    barber, barista, barrister, bartender, bassist, beautician, beekeeper, bike courier, biochemist, bioinformatician,
    biologist, biostatistician, blacksmith, blogger, bookbinder, bookkeeper, bookmaker, bookseller, border guard,
    botanist, bouncer, brewer, bricklayer, broadcaster, broker, builder, bus driver, business analyst, business owner,
    businessman, businesswoman, busker, butcher, butler, cab driver, cabin crew, cabinetmaker, campaigner,
    cardiologist, care worker, career coach, caregiver, carer, caretaker, carpenter, cartographer, case worker,
    caseworker, cashier, caterer, cellist, ceo, cfo, chairman, chaplain, charity worker, chauffeur, cheesemonger,
    chef, chemical engineer, chemist, childminder, chimney sweep, chiropractor, chocolatier, choir director,
    choreographer, cinematographer, cio, ciso, civil engineer, civil servant, claims adjuster, cleaner, clergyman,
    clerk, climatologist, closed captioner, co-founder, coach, coast guard, cobbler, coder, cofounder, collector,
    colorist, columnist, comedian, community manager, community worker, composer, concierge, conductor, confectioner,
    conservator, consultant, content creator, contractor, controller, coo, cook, coordinator, copy editor, copywriter,
    correspondent, costume designer, councillor, counsellor, counselor, courier, court stenographer, crane operator,
    critic, croupier, cryptographer, cto, curator, customer support agent, customs officer, dairy farmer, dance
    teacher, dancer, data analyst, data scientist, dba, deacon, dealer, deckhand, decorator, delivery driver, dental
    assistant, dental hygienist, dental nurse, dentist, dermatologist, designer, detective, dev, developer, devops,
    dietician, dietitian, diplomat, director, disc jockey, dishwasher, dispatcher, distiller, district nurse, diver,
    dj, doctor, doorman, doula, dramaturge, draughtsman, dressmaker, driver, driving instructor, drummer, ecologist,
    economist, editor, educator, electrician, electronics technician, embalmer, endocrinologist, engineer, engraver,
    entomologist, entrepreneur, epidemiologist, estate agent, esthetician, estimator, ethical hacker, ethicist,
    evangelist, event planner, executive, executive assistant, factory worker, farmer, farmhand, farrier, fashion
    designer, film director, filmmaker, financier, firefighter, fireman, fisherman, fishmonger, fitter, flight
    attendant, flight instructor, florist, food critic, football coach, foreman, forester, forklift driver, founder,
    freelancer, freshman, fruit picker, fundraiser, gaffer, game designer, game developer, gamekeeper, games designer,
    garbage collector, gardener, gastroenterologist, genealogist, geneticist, geographer, geologist, geophysicist,
    ghostwriter, glassblower, glazier, goldsmith, gp, grad student, graphic designer, gravedigger, greengrocer,
    grocer, groundskeeper, guard, guitarist, gynecologist, hairdresser, handyman, head chef, headhunter, headteacher,
    health visitor, historian, home carer, homemaker, hospice nurse, house cleaner, househusband, housekeeper,
    housewife, hr manager, hydrologist, illustrator, imam, immunologist, influencer, inspector, instructor, insurance
    agent, interior designer, intern, interpreter, inventor, investigator, investor, it manager, janitor, jeweler,
    jeweller, jockey, joiner, journalist, judge, lab assistant, lab technician, laborer, labourer, land surveyor,
    landlord, landscape architect, landscaper, lawyer, lead, lecturer, letter carrier, level designer, lexicographer,
    librarian, life coach, lifeguard, line cook, linguist, loan officer, lobbyist, locksmith, logistician, lorry
    driver, luthier, lyricist, machinist, magician, magistrate, maid, mail carrier, makeup artist, manager, marine,
    marine biologist, marketer, marketing, mason, massage therapist, masseuse, mathematician, mayor, mechanic,
    mechanical engineer, meteorologist, microbiologist, midwife, milliner, miner, missionary, mixologist, model, monk,
    mortician, museum curator, music producer, musician, mycologist, nail technician, nanny, network engineer,
    neurologist, neuroscientist, news anchor, notary, novelist, nuclear engineer, nun, nurse, nurse practitioner,
    nutritionist, obstetrician, occupational therapist, oceanographer, officer, oncologist, opera singer, operator,
    ophthalmologist, optician, optometrist, ornithologist, orthodontist, osteopath, painter, paleontologist,
    paraeducator, paralegal, paramedic, park ranger, partner at a law firm, pastor, pastry chef, pathologist,
    pawnbroker, pediatrician, penetration tester, percussionist, performer, personal trainer, pest controller,
    pharmacist, pharmacologist, philosopher, phlebotomist, photographer, photojournalist, physical therapist,
    physician, physician assistant, physicist, physiotherapist, pianist, piano tuner, pilates instructor, pilot,
    planner, plasterer, playwright, plumber, podcaster, podiatrist, poet, police officer, policeman, policewoman,
    politician, pollster, porter, postdoc, postgrad, postman, postwoman, potter, presenter, priest, principal,
    printer, prison officer, probation officer, process engineer, producer, product manager, product owner,
    professional athlete, professor, programmer, project manager, proofreader, prosecutor, psychiatrist, psychologist,
    psychotherapist, publicist, publisher, puppeteer, qa engineer, quant, quantity surveyor, rabbi, radiographer,
    radiologist, rancher, ranger, real estate agent, realtor, receptionist, recruiter, referee, refuse collector,
    registrar, reporter, representative, researcher, resident, restaurant owner, restaurateur, retailer, rideshare
    driver, roadie, roboticist, roofer, saddler, sailor, sales rep, salesman, salesperson, saleswoman, scaffolder,
    scientist, screenwriter, scrum master, sculptor, sea captain, seamstress, secret shopper, secretary, security
    analyst, security guard, seismologist, server, set designer, shepherd, sheriff, ship captain, shoemaker, shop
    owner, shopkeeper, sign language interpreter, sign writer, silversmith, simultaneous interpreter, singer, site
    manager, ski instructor, small business owner, social worker, sociologist, soldier, solicitor, sommelier,
    songwriter, sophomore, sound engineer, sous chef, specialist, speech therapist, speechwriter, sre, stagehand,
    statistician, stay at home dad, stay at home mom, stay at home mum, stay at home parent, stay-at-home dad,
    stay-at-home mom, stay-at-home mum, stay-at-home parent, steelworker, stenographer, stevedore, stockbroker,
    storyboard artist, strategist, streamer, street sweeper, structural engineer, student, stuntman, stuntwoman,
    stylist, sub-editor, superintendent, supervisor, support worker, surgeon, surveyor, swe, swimming instructor,
    sysadmin, tailor, tattoo artist, tax advisor, taxi driver, teacher, teacher's aide, teaching assistant, team lead,
    team leader, tech lead, technician, technologist, teller, test engineer, tester, theologian, therapist, tiler,
    tour guide, town planner, toxicologist, trader, train driver, trainee, trainer, tram driver, transcriptionist,
    translator, travel agent, travel writer, tree surgeon, truck driver, trucker, tutor, typist, undergrad,
    undergraduate, undertaker, underwriter, union rep, upholsterer, urban designer, urban planner, urologist, usher,
    ux researcher, valet, van driver, vet, vet tech, veteran, veterinarian, veterinary nurse, vicar, videographer,
    vintner, violinist, virologist, voice actor, volcanologist, vp, waiter, waitress, warehouse worker, watchmaker,
    weaver, web developer, webmaster, wedding planner, welder, window cleaner, winemaker, wood worker, woodworker,
    writer, yoga instructor, yoga teacher, youth worker, youtuber, zookeeper, zoologist
    """
)
"""What may end "I'm a ...". Words that just as often describe a mood or a taste are left out."""

NOT_AN_OCCUPATION_BEFORE = words(
    """
    terrible, great, good, bad, better, best, worse, worst, decent, amazing, awful, horrible, excellent, lousy, big,
    huge, total, complete, real, true, amateur, hobbyist, hobby, wannabe, aspiring, would-be, future, fake, pretend,
    secret, armchair, frustrated, budding, failed, born, natural, mediocre, poor, pretty, fast, slow, quick, model,
    perfect, potential, prospective, returning, loyal, happy, control, picky, careful, visual, first-time, casual,
    keen, avid, enthusiastic, passionate, lifelong, occasional, weekend, self-taught, home, backseat, nervous, safe,
    new driver, backup, virtual, personal, ai, tough, harsh, own, another, different, typical, such, bit, kind,
    sort, lot, heavy, light, fellow, fellow human, bedroom, closet, dream, bathroom, soul, people, team, night,
    morning, designated
    """
)
FORMER = words(
    """
    former, ex, ex-, one-time, onetime, previous
    """
)

INDUSTRIES = proper(
    """
    finance, banking, fintech, healthcare, health care=healthcare, medicine, tech, IT, software, software
    development, education, marketing, advertising, PR, public relations, HR, human resources, insurance, retail,
    hospitality, tourism, construction, real estate, manufacturing, logistics, agriculture, farming, energy, oil and
    gas, renewable energy, automotive, aerospace, aviation, pharma, pharmaceuticals, biotech, law, legal,
    government, public sector, the public sector=public sector, nonprofit, the nonprofit sector=nonprofit, media,
    journalism, publishing, entertainment, film, gaming, game development, fashion, sales, consulting, accounting,
    telecom, telecommunications, cybersecurity, security, data science, machine learning, AI, e-commerce, ecommerce,
    food service, catering, transportation, shipping, academia, research, architecture, design, mining, mental
    health, social work, childcare, politics, customer service, customer support, supply chain, biotechnology, cyber
    security
    """
)

HOBBIES = words(
    """
    hiking, climbing, bouldering, rock climbing, running, jogging, trail running, cycling, biking, mountain biking,
    swimming, wild swimming, open water swimming, sourdough, surfing, sailing, kayaking, canoeing, rowing, skiing,
    snowboarding, ice skating, skating, skateboarding, yoga, pilates, weightlifting, powerlifting, lifting,
    crossfit, boxing, kickboxing, martial arts, karate, judo, jiu jitsu, bjj, fencing, archery, dancing, salsa
    dancing, salsa, ballet, tango, painting, drawing, sketching, watercolor, watercolour, calligraphy, photography,
    pottery, ceramics, sculpting, knitting, crochet, crocheting, sewing, embroidery, quilting, woodworking,
    carpentry, gardening, cooking, baking, brewing, homebrewing, reading, writing, journaling, poetry, blogging,
    singing, chess, board games, video games, gaming, card games, poker, puzzles, crosswords, sudoku, d&d, dungeons
    and dragons, warhammer, model trains, lego, origami, astronomy, stargazing, birdwatching, birding, fishing, fly
    fishing, hunting, camping, backpacking, traveling, travelling, scuba diving, diving, snorkeling, horse riding,
    horseback riding, geocaching, metal detecting, stamp collecting, coin collecting, collecting stamps, collecting
    coins, collecting vinyl, vinyl collecting, beekeeping, volunteering, meditation, meditating, genealogy, coding,
    3d printing, robotics, electronics, drones, anime, manga, cosplay, theater, theatre, improv, stand-up comedy,
    magic tricks, juggling, soccer, football, basketball, volleyball, tennis, table tennis, ping pong, badminton,
    squash, pickleball, golf, cricket, rugby, hockey, ice hockey, field hockey, baseball, softball, lacrosse,
    handball, bowling, darts, pool, billiards, snooker, frisbee, ultimate frisbee, triathlon, triathlons, marathons,
    gymnastics, parkour, paragliding, skydiving, foraging, hot yoga, cross-stitch, scrapbooking, bird watching, home
    brewing, salsa dance, trivia, true crime, creative writing, roller skating, paddleboarding, paddle boarding,
    wakeboarding, windsurfing, kitesurfing, water polo, spinning
    """
)
INTERESTS = words(
    """
    jazz, classical music, music, live music, history, military history, philosophy, psychology, politics, sci-fi,
    science fiction, fantasy, fantasy novels, historical fiction, vinyl, vinyl records, fashion, makeup, skincare,
    cars, classic cars, crypto, investing, fitness, wine, whisky, specialty coffee, interior design, architecture,
    formula 1, f1, k-pop, kpop, horror movies, indie games, techno, hip hop, heavy metal, opera, museums, modern
    art, houseplants, mechanical keyboards, home automation, self-improvement, minimalism, languages, linguistics,
    mythology, space, personal finance, podcasts
    """
)
"""What people are into without doing it."""

GAMES = words(
    """
    tennis, table tennis, ping pong, badminton, squash, pickleball, golf, cricket, rugby, hockey, ice hockey,
    baseball, softball, lacrosse, handball, volleyball, basketball, soccer, football, chess, poker, go, darts,
    snooker, pool, billiards, board games, video games, d&d, dungeons and dragons, ultimate frisbee, water polo,
    field hockey, bridge, magic the gathering, minecraft, league of legends, elden ring, valorant, fortnite, overwatch,
    apex legends, counter-strike, call of duty, rocket league, roblox, stardew valley, baldur's gate, dota, hearthstone,
    world of warcraft, mario kart, animal crossing, warhammer, padel, bass, guitar, piano,
    violin, cello, drums, flute, saxophone, trumpet, ukulele, clarinet, banjo, harp, viola, bass guitar, electric
    guitar, acoustic guitar, keyboard, accordion, trombone, harmonica, mandolin, oboe, double bass, the piano, synth
    """
)
DIETS = proper(
    """
    vegetarian, vegan, pescatarian, pescetarian=pescatarian, flexitarian, keto, ketogenic=keto, paleo, halal, kosher,
    gluten-free, gluten free=gluten-free, dairy-free, dairy free=dairy-free, lactose-free, lactose free=lactose-free,
    plant-based, plant based=plant-based, low-carb, low carb=low-carb, carnivore, raw vegan, whole30, mediterranean,
    nut-free, low-sodium, low sodium=low-sodium, low FODMAP, low fodmap=low FODMAP, sugar-free, veggie=vegetarian,
    lacto-vegetarian, ovo-vegetarian, omnivore, pure veg=vegetarian, pure vegetarian=vegetarian, veg=vegetarian, a
    vegetarian=vegetarian, a vegan=vegan, a pescatarian=pescatarian
    """
)
NOT_EATEN = words(
    """
    meat, red meat, pork, beef, chicken, fish, seafood, shellfish, dairy, gluten, eggs, sugar, carbs, nuts, peanuts,
    animal products, wheat, bread, cheese, onions, garlic, mushrooms, soy, lamb, processed food, junk food, grapefruit,
    tomatoes, eggplant, aubergine, spicy food, raw fish, fried food, citrus, bananas, strawberries, bacon, liver, veal,
    tofu
    """
)

NOT_ALLERGENS = words(
    """
    mornings, morning, mondays, monday, work, working, exercise, bullshit, bs, stupidity, people, drama, math,
    maths, commitment, life, cleaning, chores, housework, failure, nonsense, idiots, stupid people, fun, losing,
    poverty, being broke, school, homework, responsibility, small talk, meetings, feelings, emotions, everything,
    anything, nothing, something, you, it, that, this, them, him, her, everyone, adulting, mediocrity, negativity,
    waking up, lies, hard work, change, what, which, either, both, some, a lot, lots, most, many things, my ex, my
    job, taxes
    """
)
CONDITIONS = proper(
    """
    diabetes, type 1 diabetes, type 2 diabetes, prediabetes, asthma, ADHD, ADD, autism, epilepsy, anxiety,
    hashimoto's, hashimotos=Hashimoto's,
    depression, GAD, OCD, PTSD, bipolar disorder, bipolar, schizophrenia, BPD, dyslexia, dyspraxia, migraines,
    chronic migraines, arthritis, rheumatoid arthritis, osteoarthritis, osteoporosis, fibromyalgia, lupus, MS,
    multiple sclerosis, Crohn's, Crohn's disease, ulcerative colitis, IBS, IBD, celiac, celiac disease, coeliac
    disease, GERD, acid reflux, high blood pressure, hypertension, low blood pressure, high cholesterol, heart
    disease, afib, atrial fibrillation, hypothyroidism, hyperthyroidism, Hashimoto's, PCOS, endometriosis, eczema,
    psoriasis, rosacea, acne, vitiligo, sleep apnea, insomnia, narcolepsy, tinnitus, glaucoma, cancer, breast
    cancer, leukemia, COPD, cystic fibrosis, sickle cell, hemophilia, anemia, kidney disease, hepatitis, HIV, long
    covid, chronic fatigue syndrome, ME/CFS, POTS, Parkinson's, scoliosis, sciatica, herniated disc, plantar
    fasciitis, carpal tunnel, gout, vertigo, color blindness, chronic pain, chronic back pain, hay fever, sinusitis,
    Tourette's, cerebral palsy, Ehlers-Danlos, heart condition, thyroid condition, panic disorder, social anxiety,
    anxiety disorder, generalized anxiety disorder, generalised anxiety disorder, seasonal affective disorder,
    insulin resistance, Alzheimer's,
    dementia, ankylosing spondylitis, diverticulitis, angina, arrhythmia, Graves' disease, Raynaud's, Sjogren's,
    Meniere's, macular degeneration, hemochromatosis, myasthenia gravis, muscular dystrophy, spina bifida, postpartum
    depression, agoraphobia, dyscalculia, restless legs syndrome, emphysema, hypoglycemia, lymphoma, melanoma,
    neuropathy, trigeminal neuralgia, cluster headaches, PMDD, fatty liver, iron deficiency anemia, hearing loss,
    lymphedema, sarcoidosis, gastroparesis, hypermobility, kidney stones, gallstones, motion sickness, seasickness,
    seasick=motion sickness, carsick=motion sickness,
    travel sickness, varicose veins, shingles, coeliac, shin splints, tendonitis, tendinitis, bursitis, cataracts,
    heart failure, pacemaker, polymyalgia, lactose intolerance
    """
)
MEDICATIONS = proper(
    """
    warfarin, apixaban, rivaroxaban, eliquis=Eliquis, xarelto=Xarelto, clopidogrel, blood thinners, blood thinner=blood
    thinners, metformin, insulin, ozempic=Ozempic, wegovy=Wegovy, mounjaro=Mounjaro, semaglutide, tirzepatide,
    gliclazide, sitagliptin, empagliflozin, jardiance=Jardiance, statins, statin=statins, atorvastatin, simvastatin,
    rosuvastatin, pravastatin, lipitor=Lipitor, crestor=Crestor, lisinopril, ramipril, enalapril, perindopril, losartan,
    valsartan, candesartan, telmisartan, amlodipine, nifedipine, bisoprolol, metoprolol, propranolol, atenolol,
    carvedilol, beta blockers, beta blocker=beta blockers, furosemide, spironolactone, hydrochlorothiazide, indapamide,
    digoxin, amiodarone, levothyroxine, thyroxine, synthroid=Synthroid, euthyrox=Euthyrox, carbimazole, prednisone,
    prednisolone, hydrocortisone, methotrexate, hydroxychloroquine, humira=Humira, adalimumab, azathioprine,
    sulfasalazine, mesalazine, omeprazole, lansoprazole, pantoprazole, esomeprazole, sertraline, zoloft=Zoloft,
    fluoxetine, prozac=Prozac, citalopram, escitalopram, lexapro=Lexapro, paroxetine, venlafaxine, duloxetine,
    mirtazapine, bupropion, wellbutrin=Wellbutrin, amitriptyline, trazodone, SSRIs, SSRI=SSRIs, antidepressants,
    lithium, lamotrigine, quetiapine, olanzapine, aripiprazole, risperidone, valproate, levetiracetam, keppra=Keppra,
    carbamazepine, topiramate, gabapentin, pregabalin, adderall=Adderall, ritalin=Ritalin, concerta=Concerta,
    vyvanse=Vyvanse, elvanse=Elvanse, methylphenidate, lisdexamfetamine, atomoxetine, strattera=Strattera,
    allopurinol, colchicine, finasteride, tamsulosin, tamoxifen, letrozole, anastrozole, montelukast, salbutamol,
    symbicort=Symbicort, isotretinoin, accutane=Accutane, roaccutane=Roaccutane, testosterone, estradiol, HRT, birth
    control, tacrolimus, ciclosporin, mycophenolate, levodopa, donepezil, tecfidera=Tecfidera,
    ocrevus=Ocrevus, gilenya=Gilenya, tysabri=Tysabri, aubagio=Aubagio, baclofen, vitamin d=vitamin D, vitamin
    b12=vitamin B12, folic acid, iron tablets, calcium supplements, creatine, magnesium supplements, fish oil,
    dapagliflozin,
    edoxaban, ticagrelor, ezetimibe, nebivolol, doxazosin, hydroxyzine, vortioxetine, mesalamine, budesonide,
    fluticasone, tiotropium, sumatriptan, rizatriptan, erenumab, dupilumab, secukinumab, oxcarbazepine, clozapine,
    naltrexone, methadone, buprenorphine, mercaptopurine, anagliptin, liraglutide, dulaglutide, pioglitazone
    """
)
"""What people take regularly, and what others should know to be careful. What many take now and then is not here."""
ADJECTIVE_CONDITIONS = {
    "diabetic": "diabetes",
    "type 1 diabetic": "type 1 diabetes",
    "type 2 diabetic": "type 2 diabetes",
    "t1 diabetic": "type 1 diabetes",
    "t2 diabetic": "type 2 diabetes",
    "epileptic": "epilepsy",
    "asthmatic": "asthma",
    "autistic": "autism",
    "dyslexic": "dyslexia",
    "celiac": "celiac disease",
    "coeliac": "celiac disease",
    "bipolar": "bipolar disorder",
    "color blind": "color blindness",
    "colour blind": "color blindness",
    "colorblind": "color blindness",
    "anemic": "anemia",
    "deaf": "deafness",
    "hard of hearing": "hearing loss",
    "visually impaired": "visual impairment",
    "neurodivergent": "neurodivergence",
}

NATIONALITIES = proper(
    """
    Afghan, Albanian, Algerian, American, Angolan, Argentinian, Armenian, Australian, Austrian, Azerbaijani,
    Bahamian, Bangladeshi, Basque, Belarusian, Belgian, Bolivian, Bosnian, Brazilian, British, Bulgarian,
    Burmese, Cambodian, Cameroonian, Canadian, Catalan, Chilean, Chinese, Colombian, Congolese, Costa Rican,
    Croatian, Cuban, Cypriot, Czech, Danish, Dominican, Dutch, Ecuadorian, Egyptian, Emirati, English, Estonian,
    Ethiopian, Fijian, Filipino, Finnish, French, Georgian, German, Ghanaian, Greek, Guatemalan, Guyanese,
    Haitian, Hawaiian, Honduran, Hungarian, Icelandic, Indian, Indonesian, Iranian, Iraqi, Irish, Israeli,
    Italian, Jamaican, Japanese, Jordanian, Kazakh, Kenyan, Korean, Kurdish, Kuwaiti, Kyrgyz, Laotian, Latvian,
    Lebanese, Libyan, Lithuanian, Macedonian, Malaysian, Maltese, Māori, Mexican, Moldovan, Mongolian, Moroccan,
    Mozambican, Namibian, Nepali, Nicaraguan, Nigerian, Norwegian, Omani, Pakistani, Palestinian, Panamanian,
    Paraguayan, Peruvian, Polish, Portuguese, Puerto Rican, Qatari, Romanian, Russian, Rwandan, Salvadoran,
    Samoan, Saudi, Scottish, Senegalese, Serbian, Singaporean, Slovak, Slovenian, Somali, South African,
    Spanish, Sri Lankan, Sudanese, Swedish, Swiss, Syrian, Taiwanese, Tajik, Tanzanian, Thai, Tibetan, Tongan,
    Trinidadian, Tunisian, Turkish, Turkmen, Ugandan, Ukrainian, Uruguayan, Uzbek, Venezuelan, Vietnamese,
    Welsh, Yemeni, Zambian, Zimbabwean
    """
)

NOT_A_NAME = words(
    """
    hm, hmm, huh, wait, brb, thanks, thank, idk, nope, yep, yeah, yup, pass, skip, stop, wow, oh, ah, ugh, hey, bye,
    please, interesting, exactly, correct, whoa, nah, been, got, spelled, misspelled, groot, iron, spartacus,
    spiderman, spider-man, thor, hulk, neo, darth, sherlock, gollum, shrek, barbie, gen, mud, a, about, above,
    absolutely, actually, afraid, after, again, agnostic, all, allergic, almost, alone, already, also, always, am,
    an, and, angry, annoyed, another, anxious, any, anyone, anything, ashamed, asking, at, atheist, aware, away,
    awake, awesome, awful, back, bad, based, because, beginner, being, better, big, bipolar, bisexual, black,
    blessed, bored, both, brand, broke, busy, but, buying, by, calling, catholic, certain, christian, clear,
    clearly, close, cold, coming, completely, concerned, confident, confused, considering, cooking, cool, crazy,
    curious, currently, cute, dead, deaf, definitely, depressed, desperate, diabetic, disabled, disappointed,
    divorced, doing, done, doomed, down, driving, drunk, due, dying, each, easily, eating, either, else,
    embarrassed, engaged, enjoying, even, every, everyone, everything, excited, exhausted, experiencing, extremely,
    fairly, famous, fat, feeling, female, fine, finally, finding, first, fluent, for, free, fresh, from, frustrated,
    full, furious, gay, genuinely, getting, glad, going, gone, good, gonna, grateful, great, guilty, guessing, half,
    happy, hard, having, he, healthy, hearing, heartbroken, hello, help, here, her, him, his, hi, hoping, honest,
    honestly, honored, hopeful, hot, how, however, hungry, hurt, i, if, ill, impressed, in, indeed, innocent,
    inside, interested, into, introverted, is, it, its, jealous, jewish, just, keen, keeping, kidding, kind, kinda,
    late, later, lazy, learning, leaving, left, lesbian, less, like, likely, literally, living, lonely, looking,
    lost, lot, loving, lucky, mad, mainly, making, male, many, married, maybe, me, meeting, mine, missing, more,
    most, mostly, moving, muslim, my, myself, naked, native, near, nearly, nervous, never, new, nice, no, nobody,
    none, nonbinary, normal, not, nothing, now, obsessed, obviously, of, off, ok, okay, old, omg, on, one, only,
    open, or, other, our, ours, out, outside, over, overwhelmed, overweight, own, paid, part, particularly, perfect,
    perhaps, planning, playing, pleased, poor, positive, pregnant, pretty, probably, proud, pro, queer, quite,
    ready, reading, real, really, regarding, relieved, renting, retired, rich, right, running, sad, safe, same,
    satisfied, saving, saying, scared, seriously, she, short, shy, sick, simply, single, sitting, skeptical, sleepy,
    slightly, smart, so, sober, some, someone, something, soon, sorry, sort, sorta, speaking, starting, starving,
    still, straight, stressed, struggling, stuck, studying, stupid, such, super, supposed, sure, surprised, taking,
    talking, tall, team, telling, terrible, terrified, thankful, that, thats, the, their, them, then, there, these,
    they, thinking, this, those, thrilled, tired, to, today, together, tomorrow, too, torn, totally, trans,
    traveling, travelling, trying, turning, ugly, unable, unemployed, under, unsure, until, up, upset, used, using,
    usually, vegan, vegetarian, very, vip, visiting, waiting, walking, wanting, was, watching, we, weak, wearing,
    weird, well, what, whatever, when, where, which, white, who, why, with, without, wondering, working, worried,
    worse, worth, writing, wrong, yes, yet, you, young, your, yours, god, jesus, dad, mom, mum, batman, superman,
    santa, everywhere, lmao, lol, asap, fyi, eager, adhd, hsp, infj, intj, enfp, infp, entp, guest, admin, user,
    anonymous, human, legend, home, online, offline, republican, democrat, liberal, conservative, libertarian,
    buddhist, hindu, virgo, leo ascendant, gemini, libra, aries, taurus, scorpio, sagittarius, capricorn, aquarius,
    pisces, rip, ish, ishmael, old-school, type
    """
)
"""Small words, states and beliefs: what follows "I'm" and is not a name, even with a capital."""

ALLERGEN_WORDS = words(
    """
    nuts, peanuts, peanut, tree nuts, almonds, cashews, walnuts, hazelnuts, shellfish, shrimp, fish, seafood, milk,
    dairy, lactose, eggs, egg, wheat, gluten, soy, sesame, penicillin, amoxicillin, sulfa, aspirin, ibuprofen,
    latex, pollen, dust, dust mites, mold, cats, dogs, pet dander, bees, bee stings, wasps, strawberries, kiwi,
    mango, bananas, avocado, nickel, ragweed, grass, horses, iodine, codeine, mustard, celery, lupin, corn,
    tomatoes, chocolate
    """
)
ANSWERED_ALLERGENS = words(
    """
    nut, cashew, almond, walnut, hazelnut, pecan, pecans, pistachio, pistachios, macadamia, macadamias, prawns,
    prawn, crab, lobster, mussels, oysters, squid, scallops, clams, molluscs, crustaceans, shrimps, salmon, tuna,
    cod, soya, soybeans, oats, rye, barley, spelt, buckwheat, lentils, chickpeas, peas, beans, legumes, lupine,
    kiwis, mangoes, mangos, banana, strawberry, berries, raspberries, blueberries, apples, apple, pears, peaches,
    peach, cherries, plums, melon, watermelon, pineapple, papaya, figs, grapes, oranges, lemons, citrus, tomato,
    avocados, carrots, pepper, peppers, paprika, chilli, garlic, onion, onions, mushrooms, coconut, cocoa,
    caffeine, alcohol, wine, honey, yeast, casein, whey, cinnamon, ginger, msg, aspartame, histamine, fructose,
    sulphites, sulfites, sulfur, sulphur, sulfa drugs, cat, dog, horse, rabbits, hamsters, guinea pigs, birds, bee,
    wasp, insects, hornets, mosquitoes, birch, hazel, ragweed, trees, tree pollen, grasses, cobalt, gold, silver,
    metals, wool, down, feathers, rubber, parabens, formaldehyde, perfume, chlorine, bleach, sunlight, sun cream,
    morphine, opioids, nsaids, paracetamol, naproxen, diclofenac, contrast dye, anaesthetics, antibiotics,
    cephalosporins, insect stings, dust mite, moulds, mould, molds
    """
)
"""More that people answer to a question about allergies, where a word alone could be anything else."""
