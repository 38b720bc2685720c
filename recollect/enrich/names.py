"""Names that the rules know by heart: places, people, organisations and products.

They are closed lists, far from complete, and serve two purposes. A name that is written without its
capital is recognised and gets it back ("nyc" is New York City), and a name alone says what kind of
thing it names. A capitalised name in an unambiguous position ("I live in Tromsdalen") needs no list.
"""

from __future__ import annotations


def words(phrases: str) -> frozenset[str]:
    """Phrases separated by commas, over any number of lines."""
    return frozenset(" ".join(phrase.split()) for phrase in phrases.split(","))


def proper(names: str) -> dict[str, str]:
    """Names separated by commas, each keyed by its lower case. `nyc=New York City` gives another spelling."""
    known: dict[str, str] = {}
    for entry in sorted(words(names)):
        spelling, _, name = entry.partition("=")
        known[spelling.lower()] = name or spelling
    return known


COUNTRIES = proper(
    """
    Afghanistan, Albania, Algeria, Andorra, Angola, Argentina, Armenia, Australia, Austria, Azerbaijan, Bahamas,
    Bahrain, Bangladesh, Barbados, Belarus, Belgium, Belize, Benin, Bhutan, Bolivia, Bosnia, Botswana, Brazil,
    Brunei, Bulgaria, Burkina Faso, Burundi, Cambodia, Cameroon, Canada, Chile, China, Colombia, Congo, Costa Rica,
    Croatia, Cuba, Cyprus, Czech Republic, Czechia, Denmark, Dominican Republic, Ecuador, Egypt, El Salvador,
    England, Eritrea, Estonia, Ethiopia, Fiji, Finland, France, Gabon, Gambia, Germany, Ghana, Greece, Greenland,
    Guatemala, Guinea, Guyana, Haiti, Honduras, Hungary, Iceland, India, Indonesia, Iran, Iraq, Ireland, Israel,
    Italy, Ivory Coast, Jamaica, Japan, Kazakhstan, Kenya, Kosovo, Kuwait, Kyrgyzstan, Laos, Latvia, Lebanon,
    Lesotho, Liberia, Libya, Liechtenstein, Lithuania, Luxembourg, Madagascar, Malawi, Malaysia, Maldives, Mali,
    Malta, Mauritania, Mauritius, Mexico, Moldova, Monaco, Mongolia, Montenegro, Morocco, Mozambique, Myanmar,
    Namibia, Nepal, Netherlands, New Zealand, Nicaragua, Niger, Nigeria, North Korea, North Macedonia, Northern
    Ireland, Norway, Oman, Pakistan, Palestine, Panama, Papua New Guinea, Paraguay, Peru, Philippines, Poland,
    Portugal, Puerto Rico, Qatar, Romania, Russia, Rwanda, Saudi Arabia, Scotland, Senegal, Serbia, Sierra Leone,
    Slovakia, Slovenia, Somalia, South Africa, South Korea, Korea=South Korea, South Sudan, Spain, Sri Lanka, Sudan,
    Suriname, Sweden, Switzerland, Syria, Taiwan, Tajikistan, Tanzania, Thailand, Togo, Trinidad and Tobago,
    Tunisia, Turkey, Türkiye, Turkmenistan, Uganda, Ukraine, United Arab Emirates, UAE, United Kingdom, UK, United
    States, United States of America, USA, US, U.S.=US, U.K.=UK, America=US, the States=US, Uruguay, Uzbekistan,
    Venezuela, Vietnam, Wales, Yemen, Zambia, Zimbabwe
    """
)

REGIONS = proper(
    """
    Alabama, Alaska, Arizona, Arkansas, California, Colorado, Connecticut, Delaware, Florida, Hawaii, Idaho,
    Illinois, Indiana, Iowa, Kansas, Kentucky, Louisiana, Maine, Maryland, Massachusetts, Michigan, Minnesota,
    Mississippi, Missouri, Montana, Nebraska, Nevada, New Hampshire, New Jersey, New Mexico, New York State, North
    Carolina, North Dakota, Ohio, Oklahoma, Oregon, Pennsylvania, Rhode Island, South Carolina, South Dakota,
    Tennessee, Texas, Utah, Vermont, Virginia, Washington State, West Virginia, Wisconsin, Wyoming, SoCal, NorCal,
    Ontario, British Columbia, BC, Alberta, Manitoba, Saskatchewan, Nova Scotia, New Brunswick, Newfoundland, Yukon,
    Bavaria, Saxony, Tuscany, Sicily, Sardinia, Lombardy, Catalonia, Andalusia, Provence, Brittany, Normandy,
    Cornwall, Devon, Kent, Essex, Yorkshire, Surrey, Sussex, Kerala, Punjab, Gujarat, Goa, Tamil Nadu, Karnataka,
    Maharashtra, Rajasthan, Telangana, Queensland, New South Wales, Tasmania, Western Australia, South Australia,
    the Bay Area=Bay Area, Bay Area, Long Island, New England, the Midwest=Midwest, Silicon Valley, Bali, Crete,
    Hokkaido, Okinawa, Flanders, Wallonia, Tyrol, Siberia, Patagonia, Andhra Pradesh, West Bengal
    """
)
STATE_CODES = words(
    """
    AL, AK, AZ, AR, CA, CO, CT, DE, FL, GA, HI, ID, IL, IN, IA, KS, KY, LA, ME, MD, MA, MI, MN, MS, MO, MT, NE, NV,
    NH, NJ, NM, NY, NC, ND, OH, OK, OR, PA, RI, SC, SD, TN, TX, UT, VT, VA, WA, WV, WI, WY, DC, ON, QC, AB
    """
)
"""Only in capitals and after a city: `in`, `or` and `me` are words."""

CITIES = proper(
    """
    Aarhus, Aberdeen, Abu Dhabi, Abuja, Accra, Addis Ababa, Adelaide, Ahmedabad, Albuquerque, Aleppo, Alexandria,
    Algiers, Almaty, Amman, Amsterdam, Anchorage, Ankara, Ann Arbor, Antwerp, Asheville, Asuncion, Athens, Atlanta,
    Auckland, Austin, Bangalore, Bengaluru, Baghdad, Baku, Baltimore, Bamako, Bangkok, Barcelona, Basel, Baton
    Rouge, Beijing, Beirut, Belfast, Belgrade, Belo Horizonte, Bergen, Berkeley, Berlin, Bern, Birmingham, Boise,
    Bogota, Bogotá, Bologna, Bonn, Bordeaux, Boston, Boulder, Brasilia, Bratislava, Bremen, Brighton, Brisbane,
    Bristol, Brooklyn, Brussels, Bucharest, Budapest, Buenos Aires, Buffalo, Busan, Cairo, Calgary, Cali, Cambridge,
    Canberra, Cancun, Cape Town, Caracas, Cardiff, Casablanca, Charlotte, Charleston, Chandigarh, Chennai, Chiang
    Mai, Chicago, Christchurch, Cincinnati, Cleveland, Cologne, Colombo, Columbus, Copenhagen, Cordoba, Cork,
    Curitiba, Dakar, Dallas, Damascus, Dar es Salaam, Darwin, Dehradun, Delhi, Denver, Des Moines, Detroit, Dhaka,
    Doha, Dortmund, Dresden, Dubai, Dublin, Dubrovnik, Durban, Durham, Düsseldorf, Dusseldorf, Edinburgh, Edmonton,
    Eindhoven, El Paso, Essen, Eugene, Faro, Florence, Fort Worth, Frankfurt, Freiburg, Fresno, Galway, Gdansk,
    Geneva, Genoa, Ghent, Glasgow, Gothenburg, Granada, Graz, Grenoble, Groningen, Guadalajara, Guangzhou, Guatemala
    City, Guayaquil, Haifa, Halifax, Hamburg, Hanoi, Hanover, Harare, Hartford, Havana, Helsinki, Ho Chi Minh City,
    Saigon, Hobart, Hong Kong, Honolulu, Houston, Hyderabad, Indianapolis, Innsbruck, Islamabad, Istanbul, Izmir,
    Jacksonville, Jaipur, Jakarta, Jeddah, Jerusalem, Johannesburg, Kabul, Kampala, Kansas City, Karachi, Kathmandu,
    Khartoum, Kigali, Kingston, Kinshasa, Kobe, Kochi, Kolkata, Krakow, Kraków, Kuala Lumpur, KL=Kuala Lumpur, Kyiv,
    Kiev, Kyoto, Lagos, Lahore, Las Vegas, Vegas=Las Vegas, Lausanne, Leeds, Leicester, Leiden, Leipzig, Lille,
    Lima, Linz, Lisbon, Liverpool, Ljubljana, Lodz, London, Los Angeles, LA=Los Angeles, Louisville, Luanda,
    Lucknow, Lusaka, Lviv, Lyon, Madison, Madrid, Malaga, Málaga, Malmo, Malmö, Manchester, Manhattan, Manila,
    Mannheim, Maputo, Marrakech, Marseille, Medellin, Medellín, Melbourne, Memphis, Mexico City, Miami, Milan,
    Milwaukee, Minneapolis, Minsk, Monterrey, Montevideo, Montpellier, Montreal, Montréal, Moscow, Mumbai, Bombay,
    Munich, Muscat, Nagoya, Nairobi, Nantes, Naples, Nashville, New Delhi, New Orleans, New York, New York City,
    NYC=New York City, Newark, Newcastle, Nice, Nottingham, Nuremberg, Oakland, Odesa, Oklahoma City, Omaha,
    Orlando, Osaka, Oslo, Ottawa, Oxford, Palermo, Palo Alto, Panama City, Paris, Perth, Philadelphia,
    Philly=Philadelphia, Phnom Penh, Phoenix, Pittsburgh, Plymouth, Port Louis, Portland, Porto, Porto Alegre,
    Poznan, Prague, Pretoria, Pristina, Provo, Pune, Pyongyang, Quebec City, Quito, Rabat, Raleigh, Recife, Regina,
    Reno, Reykjavik, Richmond, Riga, Rio=Rio de Janeiro, Rio de Janeiro, Riyadh, Rochester, Rome, Rotterdam,
    Sacramento, Salt Lake City, Salvador, Salzburg, San Antonio, San Diego, San Francisco, SF=San Francisco, San
    Jose, San José, San Juan, San Salvador, Santa Barbara, Santa Cruz, Santa Monica, Santiago, Santo Domingo, Sao
    Paulo, São Paulo, Sapporo, Sarajevo, Savannah, Seattle, Seoul, Seville, Shanghai, Sheffield, Shenzhen,
    Singapore, Skopje, Sofia, Southampton, Split, Spokane, St. Louis, St Louis=St. Louis, St. Petersburg, Stavanger,
    Stockholm, Strasbourg, Stuttgart, Surat, Sydney, Syracuse, Tacoma, Taipei, Tallinn, Tampa, Tampere, Tartu,
    Tashkent, Tbilisi, Tehran, Tel Aviv, The Hague, Thessaloniki, Tijuana, Tirana, Tokyo, Toledo, Toronto, Toulouse,
    Tripoli, Tromso, Tromsø, Trondheim, Tucson, Tulsa, Tunis, Turin, Turku, Ulaanbaatar, Uppsala, Utrecht, Valencia,
    Valparaiso, Vancouver, Venice, Verona, Vienna, Vientiane, Vilnius, Warsaw, Washington DC, Washington D.C.,
    DC=Washington DC, Wellington, Winnipeg, Wroclaw, Wuhan, Yangon, Yerevan, York, Zagreb, Zanzibar, Zurich, Zürich,
    Brno, Cluj, Iasi, Varna, Bilbao, Aachen, Augsburg, Heidelberg, Karlsruhe, Kiel, Mainz, Münster, Potsdam, Bruges,
    Leuven, Delft, Arnhem, Tilburg, Bath, Exeter, Norwich, Swansea, Dundee, Inverness, Limerick, Nagpur, Indore,
    Bhopal, Noida, Gurgaon, Mysore, Coimbatore, Varanasi, Amritsar, Hangzhou, Chengdu, Nanjing, Xi'an, Tianjin,
    Incheon, Daegu, Fukuoka, Hiroshima, Yokohama, Sendai, Cebu, Davao, Surabaya, Bandung, Penang, Da Nang, Hue,
    Queens, The Bronx, Bronx, Staten Island, Long Beach, San Bernardino, Fort Collins, Colorado Springs, Grand
    Rapids, Chattanooga, Knoxville, Greensboro, Tallahassee, Gainesville, Fort Lauderdale, Virginia Beach, Norfolk,
    Providence, Worcester, Springfield, New Haven, Burlington, Bozeman, Missoula, Cheyenne, Fargo, Sioux Falls,
    Lincoln, Wichita, Little Rock, Jackson, Mobile, Corpus Christi, Lubbock, Amarillo, Plano, Arlington, Scottsdale,
    Tempe, Mesa, Flagstaff, Santa Fe, Hamilton, London Ontario, Victoria, Kelowna, Saskatoon, St. John's, Moncton,
    Geelong, Cairns, Gold Coast, Dunedin, Queenstown, Mombasa, Kumasi, Ibadan, Kano, Port Harcourt, Bulawayo,
    Windhoek, Gaborone, Alicante, Zaragoza, Palma, Tenerife, Las Palmas, Braga, Coimbra, Parma, Bari, Catania,
    Trieste, Padua, Pisa, Siena, Nicosia, Limassol, Valletta, Antalya, Bursa, Adana, Tabriz, Isfahan, Shiraz, Karaj,
    Basra, Erbil, Mecca, Medina, Peshawar, Rawalpindi, Faisalabad, Chittagong, Kandy, Pokhara, Novosibirsk, Kazan,
    Samara, Kharkiv, Dnipro, Plovdiv
    """
)

FIRST_NAMES = words(
    """
    aaliyah, aarav, aaron, abby, abdul, abdullah, abdulrahman, abebe, abigail, ada, adaeze, adam, adebayo, adelaide,
    adele, aditi, aditya, adrian, adriana, agata, agatha, agnes, agnieszka, agus, ahmed, aidan, aiko, airi, aisha,
    ajay, akash, akiko, akira, aksel, akua, alan, alana, albert, alberto, alejandra, alejandro, aleksander,
    aleksandra, alessandra, alessandro, alessia, alex, alexa, alexander, alexandra, alexis, alfie, alfonso, alfred,
    ali, alice, alicia, alicja, alina, aline, alisha, alison, aliyah, allison, alma, alonso, alyson, alyssa, ama,
    amadou, amanda, amandine, amara, amaya, amber, amelia, amelie, amina, aminata, amir, amit, amparo, amy, ana,
    anand, ananya, anastasia, anaïs, anders, andre, andrea, andreas, andres, andrew, andriy, andrzej, andré, andy,
    anetta, angela, angelica, angelo, angie, anh, anika, anil, anita, anjali, ankit, ann, anna, annabel, annabelle,
    anne, anneke, annie, annika, anouk, anthony, antoine, anton, antonella, antonia, antonio, anwar, anya, aoife,
    april, araceli, arash, aria, ariana, arjun, arlene, arnaud, arne, arnold, aroha, arthur, arturo, arun, arvid,
    asgeir, asher, ashley, asif, aster, astrid, asuka, aubrey, audrey, augusta, aurelie, aurora, austin, ava, axel,
    ayaan, ayaka, ayan, ayesha, ayo, ayu, aziz, babak, bambang, bao, barbara, barbora, barry, bart, bartek, bas,
    bastien, beata, beatrice, beatriz, becky, bella, ben, benito, benjamin, benoit, bente, beppe, bernadette, bernard,
    bernardo, bernice, bernie, bertha, bertrand, beth, bethany, bettina, betty, beverley, beverly, bianca, bikash,
    bilal, bilge, bill, billy, bingwen, binh, binta, birgit, bjorn, björn, blake, blanche, bob, bobby, bogdan, bohdan,
    boris, borislav, borja, brad, bradley, brandon, branka, brenda, brendan, brent, brett, brian, brianna, bridget,
    brigitte, britta, brittany, brock, brody, brooke, bruce, bruno, bryan, budi, caetano, caleb, callum, calvin,
    cameron, camila, camille, candace, cara, carl, carla, carlo, carlos, carly, carmen, carol, carolina, caroline,
    carolyn, carrie, carter, casey, casper, cassandra, catalina, caterina, catherine, cathy, cecile, cecilia, celeste,
    celia, celine, cesar, chad, chandra, chantal, charlene, charles, charlie, charlotte, chelsea, chen, cheryl,
    chiamaka, chiara, chidi, chihiro, chioma, chloe, chloé, chris, christian, christina, christine, christopher,
    chuck, ciara, cillian, cindy, claire, clara, clarissa, claude, claudia, claudio, clemence, clement, clementine,
    cleo, clint, clive, cody, colin, colleen, colton, concepcion, connor, constance, consuelo, cooper, corey, corinne,
    courtney, craig, cristina, cristobal, cuong, curtis, cynthia, cyril, da-eun, dagmar, dagny, daichi, daisy, dale,
    dalia, damian, damien, dan, dana, daniel, daniela, danielle, danny, danuta, daphne, dara, dario, darius, dariusz,
    darko, darnell, darren, darryl, darya, dave, david, davide, davor, dawn, dean, debbie, deborah, declan, deepa,
    deepak, deirdre, delia, delilah, della, delphine, denise, dennis, derek, deshawn, desmond, dev, devin, devon,
    dewi, diana, diane, didier, diego, dilip, dimitri, dina, dirk, divya, dmitri, dmitry, dolores, domenico, domingo,
    dominic, don, donald, donna, dora, doris, dorothy, doug, douglas, dragan, drew, duncan, dusan, dwayne, dwi,
    dwight, dylan, earl, ebony, ebru, ed, eddie, edgar, edith, edna, edoardo, eduardo, edward, edwin, efua, eiji,
    eileen, eirik, eka, ekaterina, ekene, elaine, eleanor, elena, elham, eli, elias, elif, elijah, elin, elisa,
    elisabetta, elise, eliska, elizabeth, ella, ellen, ellie, elliot, ellis, elodie, eloise, elsa, elsie, elspeth,
    emanuele, emeka, emeric, emi, emil, emilia, emiliano, emilija, emily, emma, emmanuel, emre, enrique, enzo, eoin,
    eric, erica, erik, erika, erin, erma, ernest, ernesto, eskil, esme, espen, esperanza, esra, esteban, estela,
    estelle, esther, ethan, ethel, etienne, ettore, eugene, eugenia, eun-ji, eunice, eva, evan, eve, evelyn, ewa,
    ezgi, ezra, fabian, fabien, fabio, fabrice, facundo, fang, farah, farhan, farid, fatima, fatou, fausto, fay, faye,
    federica, federico, felicia, felicity, felipe, felix, femke, feng, ferenc, ferhat, fern, fernanda, fernando,
    filippo, finn, fiona, fitri, flavia, flavio, fleur, flora, florence, florian, floyd, folake, frances, francesca,
    francesco, francis, francisco, franco, francois, frank, franz, françois, fred, freddie, frederik, freya, frida,
    fritz, fumiko, funmi, gabor, gabriel, gabriela, gabrielle, gael, gaelle, gage, gaia, ganesh, gareth, gary, gaurav,
    gavin, gemma, genevieve, geoff, george, georgia, georgina, gerald, geraldine, gerard, gerardo, gerda, gerrit,
    gertrude, giacomo, giang, gianluca, gianni, gilles, gina, ginevra, ginger, gino, giorgia, giorgio, giovanni, gita,
    giulia, giuseppe, gladys, glen, glenda, glenn, gloria, gonzalo, gopal, goran, gordon, grace, graciela, grady,
    graham, greet, greg, gregory, greta, grzegorz, guadalupe, gudrun, guido, guillaume, guillermo, gulnara, gunnar,
    guri, gus, gustavo, gwen, gwendolyn, haakon, habib, hae-won, hailey, halina, halvor, hamid, hamza, hana, hank,
    hanna, hannah, hanne, hanneke, hans, haoyu, harald, harish, harold, harper, harpreet, harriet, harry, haru,
    haruka, haruto, harvey, hasan, hassan, hattie, heather, hector, hedda, heidi, heike, helen, helena, helene, helga,
    hemi, hendra, henk, henri, henrietta, henrik, henry, herbert, hernan, herve, hideo, hilda, hilde, hina, hinata,
    hiro, hiroshi, hoa, holly, homer, horacio, howard, hugh, hugo, hui, humberto, huong, hussein, hye-jin, hyun,
    hyun-woo, hélène, ian, ibrahim, ida, idris, ifeanyi, ifeoma, iga, ignacio, igor, iker, ikram, ilaria, ilona, ilse,
    imani, imogen, imran, ina, indah, indira, ines, inga, inge, ingeborg, ingrid, inigo, inés, ioane, iqbal, ira,
    irena, irene, irina, iris, irving, irwin, isaac, isabel, isabella, isabelle, isaiah, isamu, isha, ishaan, isla,
    ismail, itziar, ivan, ivana, ivo, ivy, jack, jackie, jackson, jacob, jacqueline, jacques, jade, jadwiga, jae,
    jagdish, jaime, jake, jakub, jalen, jamal, james, jamie, jamila, jan, jana, jane, janet, janice, janos, jaroslav,
    jasmine, jason, jaspreet, javed, javier, jay, jaya, jayden, jean, jeanne, jed, jeff, jeffrey, jelena, jelle,
    jenna, jennifer, jenny, jens, jeremy, jermaine, jeroen, jerome, jerry, jess, jesse, jessica, jesus, ji-hoon,
    ji-min, ji-woo, jia, jiahao, jill, jim, jimin, jimmy, jin, jing, jiri, jiro, joan, joana, joanna, joanne, joao,
    joaquin, jocelyn, jodie, joe, joel, johan, johanna, john, johnny, joko, jomar, jon, jonah, jonas, jonathan, joon,
    joon-ho, joost, jordan, jorge, jorgelina, jorn, jose, josefa, joseph, josephine, josh, joshua, josie, josé, joyce,
    jozef, joão, juan, juanita, judith, judy, julia, julian, juliana, julie, juliet, juliette, julio, jun, justin,
    justyna, jyoti, jürg, jürgen, kabir, kadek, kai, kaitlyn, kaja, kaleo, kamal, kamala, kamil, kana, kaori, kara,
    karan, kareem, karel, karen, kari, karim, karin, karina, karl, karla, karolina, kasia, katarina, katarzyna, kate,
    katherine, kathleen, kathryn, kathy, katie, katka, katrin, katrina, katya, kavita, kayla, kazuki, kazuo, keanu,
    kei, keiko, keisha, keith, kelly, kelsey, kemal, kemi, ken, kendall, kendra, kenichi, kenji, kenneth, kenny,
    kenta, kerry, ketut, kevin, khadija, khalid, khanh, kiara, kiki, kim, kira, kiran, kirk, kirsten, kiyoshi, kjetil,
    klaus, knut, koen, kofi, koji, krishna, krista, kristen, kristin, kristina, krzysztof, ksenia, kumar, kunal, kurt,
    kwame, kyle, kylie, kyung, laetitia, laila, lakshmi, lamia, lan, lana, landon, lara, larissa, lars, latif, latoya,
    laura, lauren, laurence, laurent, layla, lea, leah, leandro, lech, lee, lei, leila, leilani, lena, lenka, lenny,
    leo, leon, leona, leonard, leonardo, leonie, leroy, leslie, lestari, leticia, levi, lewis, leyla, liam, lieke,
    lien, liesbeth, lila, lillian, lily, lina, linda, lindsay, ling, linh, lisa, liz, lloyd, logan, loic, lois, lola,
    lonnie, loredana, lorena, lorenzo, lorna, lorraine, lotte, lottie, louis, louise, lourdes, lubna, lubos, luca,
    lucas, lucia, lucille, lucinda, lucio, lucy, lucía, ludovic, luigi, luis, luisa, luka, lukas, lukasz, luke, luna,
    luther, lydia, lyle, maaike, maarten, mabel, maciej, mackenzie, maddie, madeleine, madhavi, madison, mae, maeve,
    magda, magdalena, maggie, magnus, maha, mahesh, mahmoud, mai, maite, maja, majid, makoto, malcolm, malgorzata,
    malia, malik, mandy, manish, manon, mansour, manuel, manuela, marc, marcel, marcela, marcelo, marcia, marco,
    marcos, marcus, marek, margaret, margit, margot, marguerite, maria, mariam, mariama, mariana, marianne, maribel,
    maricar, maricel, marie, marija, mariko, marina, marine, mario, marion, marisol, marissa, marit, mariusz,
    marjorie, mark, marlene, marlon, marta, martha, martin, martina, marty, martyna, martín, marwa, mary, maryam,
    masato, mason, matej, mateo, mateus, mateusz, mathias, mathieu, mathilde, matilda, matt, matteo, matthew, maude,
    maureen, maurice, mauricio, maurizio, mavis, max, maxime, maximo, maxine, maya, mayumi, meena, meera, megan,
    megumi, mehdi, mehmet, mei, mei-ling, meiling, mel, melanie, melissa, melvin, mercedes, meredith, merle, merve,
    mette, mia, michael, michaela, michal, michel, michele, michelle, michiko, mickey, midori, miguel, miho, mika,
    mike, mikkel, mila, milan, mildred, milena, milica, millie, milo, milton, min, min-jun, mina, ming, minh, minjun,
    minnie, miranda, mireille, mirela, miriam, mirko, miroslav, mitch, mitsuki, miyuki, mladen, mohamed, mohammed,
    mohan, mohsen, moira, molly, mona, monica, monika, monique, montserrat, morgan, morris, moses, muhammad, mukesh,
    murat, muriel, murray, mustafa, myra, myrtle, müller, nabil, nacho, nadeem, nadezhda, nadia, nadine, nam, nanami,
    nancy, naoki, naoko, naomi, nasrin, natalia, natalie, natalio, natalya, natasha, nathalie, nathan, nathaniel,
    natsuki, naveen, nazanin, ned, neha, neil, nell, nellie, nelly, nelson, nettie, neville, ngaire, ngoc, ngozi,
    nguyen, nia, niall, niamh, nicholas, nick, nicola, nicolas, nicole, nicolo, nigel, nikhil, niklas, nikola,
    nikolai, nils, nilufar, nimra, nina, niraj, nisha, nitin, noah, noelle, noemie, noor, nora, noreen, noriko, norma,
    norman, noura, noël, nur, nuria, obi, obinna, octavio, odette, odile, oisin, okoye, oksana, olav, ole, oleg,
    olena, olga, olha, oliver, olivia, olivier, oluwaseun, omar, omid, ondrej, onur, ophelia, orla, ornella, oscar,
    oskar, osman, oswald, otto, owen, ozan, pablo, paco, padma, paige, paisley, paloma, pam, pamela, paola, paolo,
    parisa, parvati, pascal, pascale, patricia, patricio, patrick, patrycja, patsy, patty, paul, paula, pauline,
    pavel, pavla, pawel, pearl, pedro, peggy, penelope, penny, percy, perla, pete, peter, petr, petra, peyton, phil,
    philip, philippa, philippe, phoebe, phuong, pia, piero, pierre, pietro, pilar, pim, ping, piotr, piotrek, piyush,
    polly, pooja, poppy, portia, pradeep, prakash, pranav, pratik, preeti, preston, priya, priyanka, prudence, putri,
    pádraig, qasim, qiang, qing, quan, quang, quentin, quinn, quynh, rabia, rachel, radek, radha, radka, rae, rafael,
    rafaela, raffaele, ragnar, rahma, rahul, raj, rajesh, rajiv, rakesh, ralph, ramesh, ramin, ramiro, ramon, ramona,
    rana, randall, randy, rani, rania, raphael, raquel, rashid, rashmi, rastislav, ratna, raul, ravi, ray, raymond,
    raúl, rebecca, reggie, regis, reiko, reina, rekha, remi, ren, renata, renato, rené, reuben, rex, reza, rhoda,
    rhonda, rhys, ricardo, riccardo, richard, rick, ricky, riko, riley, rina, rini, rita, ritu, rizwan, rob, robert,
    roberta, roberto, robin, rochelle, rocio, roderick, rodney, rodolfo, rodrigo, roel, rogelio, roger, rohan, rohit,
    roksana, roland, romain, roman, romeo, romina, romy, ron, ronald, ronnie, roos, rory, rosa, rosalie, rosalind,
    rosalyn, rosanna, rosario, rosemary, rosie, roslyn, ross, rowena, roxana, roxanne, roy, ruben, rufus, rui,
    rukmini, rune, rupert, russell, ruth, ruud, ryan, ryo, ryota, saad, sabine, sabrina, sachin, sadia, sadie, saeed,
    sahar, sakura, salim, sally, salma, salvador, salvatore, sam, samantha, sameer, samir, samira, samuel, sana,
    sancho, sandeep, sander, sandra, sandrine, sandy, sangeeta, sanjana, sanjay, sanne, santiago, saoirse, sara,
    sarah, sarita, sasha, saskia, satish, satoshi, saul, savannah, sayaka, scott, sean, sebastian, sekou, selena,
    selin, selma, seo-yeon, serena, sergei, sergio, seth, seung, severine, seán, shabnam, shahid, shan, shane,
    shanice, shannon, shanti, sharon, shashi, shaun, shawn, sheila, shelby, shelley, shilpa, shinji, shiori, shirin,
    shirley, shivani, shota, shreya, shruti, sid, siddharth, sidney, sienna, signe, sigrid, silje, silvano, silvia,
    silvio, simon, simona, simone, simran, sinéad, siobhan, sione, siti, sjoerd, skyler, slavko, sneha, snezana,
    sofia, sofie, soledad, solveig, sonia, sonja, soo, soo-jin, sophia, sophie, sora, soraya, spencer, sri, stacey,
    stan, stanislav, stanley, stefan, stefania, stefano, stella, stephanie, stephen, sterling, steve, steven, stijn,
    stuart, sue, suki, sumit, sung, sunil, sunita, suresh, surya, susan, susana, susanna, suzanne, svein, sven,
    svetlana, swati, sybil, sylvain, sylvia, sylvie, szymon, sören, søren, tabitha, tadashi, tadeusz, tadhg, tahir,
    takeshi, tam, tamara, tamer, tane, tanvi, tanya, tao, tara, taras, tariq, taro, tasha, tatiana, tatum, ted,
    teodor, terence, teresa, tereza, terrell, terry, tess, thabo, thanh, thao, thea, thelma, themba, theo, theodore,
    theresa, thiago, thibault, thierry, thijs, thomas, thor, thorsten, thuy, tien, tiffany, tihana, tilda, tilly, tim,
    timothy, tina, tiziana, tobias, toby, todd, tolga, tom, tomas, tomasz, tommy, tomoko, tomás, toni, tony, torsten,
    toshiro, tracey, tracy, trang, travis, trent, trevor, trey, trine, tristan, trudy, tuan, tunde, tyler, tyrell,
    tyrone, ulises, ulla, ulrich, ulrike, uma, umberto, una, ursula, urszula, usha, usman, uwe, vaclav, valentina,
    valentino, valeria, valerie, valeriya, vandana, vanessa, varun, vasant, vasil, velma, vera, verity, vernon,
    veronica, veronique, vesna, vicente, vicky, victor, victoria, vidar, vidya, vijay, vikram, viktor, viktoria,
    vilma, vinay, vince, vincent, vincenzo, vineet, vinh, vinod, viola, violet, violeta, virginia, vishal, vit,
    vittoria, viv, vivek, vivian, vladimir, vojtech, wagner, wahyu, waleed, wallace, walter, wanda, warren, wayan,
    wayne, wei, weiwei, wen, wendy, wesley, wilbur, wilhelm, will, willard, william, willow, wilma, winifred, winston,
    wioletta, wiremu, wojciech, woo-jin, woody, wouter, wyatt, xavier, xiang, xiao, ximena, xin, xiu, xuan, yago,
    yang, yann, yanti, yara, yaroslav, yash, yasir, yasmin, yaw, yemi, yen, yesenia, yevgeny, ying, yogesh, yoko,
    yolanda, yong, yousef, youssef, yue, yui, yuki, yulia, yumi, yun, yuna, yuri, yusuf, yusuke, yves, yvette, yvonne,
    zach, zachary, zahra, zainab, zara, zbigniew, zdenka, zeinab, zelda, zeynep, zhen, zhi, zion, zoe, zoey, zofia,
    zoltan, zoë, zubair, zuri, zuzana,
    abdoulaye, abena, achieng, adaora, aiden, akinyi, akosua, amos, aneesa, angharad, anja, anke, archie, arlo,
    ashleigh, ayden, aylin, ayumi, bongani, braxton, brayden, bruna, bryce, brynn, caio, caoimhe, catriona, chibuzo,
    chinedu, chinwe, chipo, ciaran, conor, daan, dafydd, daisuke, dariush, dashawn, deandre, demi, duc, eleni,
    eliza, eoghan, eunji, ewan, farai, fatoumata, femi, ferdinand, ffion, finley, finnja, franca, gabriella, gianna,
    grainne, hamish, ibrahima, inês, iqra, itzel, jaap, jaden, jaiden, jameson, jasmin, jaxon, jaxson, jayla,
    jaylen, jaylin, jeremiah, jiho, jiwoo, johann, josiah, jörg, kacper, kaden, kaito, kamau, kamila, kasper, katja,
    kavya, kayden, keira, kelechi, keziah, kimberly, kojo, kwesi, lachlan, larisa, latisha, lennart, leoni, lerato,
    liliana, linnea, luana, mairi, maisie, makayla, malakai, malte, mamadou, mandla, margarida, matheus, mathilda,
    mckenzie, micah, mingyu, moritz, moussa, mya, navya, nayeli, neema, nevaeh, neveah, nico, niran, njeri, nneka,
    nomvula, nuno, olamide, orlaith, otieno, oumar, padraig, pieter, priscilla, rebekah, rhiannon, rizal, roisin,
    rowan, rutendo, saanvi, saif, sanvi, selina, seojun, seoyeon, shaniqua, silas, silke, sipho, somchai, sonya,
    svenja, tamika, tatenda, tayla, tendai, thandeka, thandiwe, tiago, tianna, trevon, umar, uzma, vihaan, vitor,
    vroni, wanjiru, wiktor, wout, xander, xiaoming, yasmine, yuto, yuxuan, zanele, zayn, zoya, zuzanna,
    al, bex, bo, flo, ike, jo, kit, lou, mo
    """
)
"""Lower case. Names that are as often plain words (will, mark, may, hope, rose) count only with their capital."""

NAMES_AND_WORDS = words(
    """
    ada, ali, ama, april, art, aster, austin, axel, bart, bas, bill, binh, blake, brock, brook, brooke, bruno,
    candace, cara, carly, carol, carter, casper, cat, cesar, chad, chandra, chase, christian, chuck, consuelo, daisy,
    dale, dara, dawn, dean, dev, dina, dirk, dolores, domingo, don, drew, earl, ebony, eka, esperanza, eve, faith,
    fang, fay, fern, fleur, flora, florence, florian, floyd, franco, frank, gael, gage, gaia, gene, georgia, ginger,
    glen, grace, grant, guido, gus, guy, hana, hank, harper, harry, haru, heather, hilda, holly, homer, hope, hui,
    hunter, ina, ira, isla, ivy, jack, jade, jay, jaya, jean, jed, jesus, jin, jing, jordan, joy, jun, june, kai,
    kara, kei, ken, kirk, kit, lan, lana, lance, lane, lei, leona, levi, lien, lily, ling, london, lourdes, luther,
    mae, maha, mai, malia, marcel, margot, marina, marine, mark, mason, max, maxime, may, mei, mel, mercedes, merle,
    milan, miles, milton, min, ming, mitch, mobile, morgan, morris, murray, nacho, nam, nell, nelson, nia, norman,
    nur, obi, ole, olive, orla, paco, paige, pam, paris, pat, patty, pearl, penny, percy, perla, peyton, pia, pierce,
    pilar, pim, ping, poppy, portia, prakash, preston, prudence, quan, rae, rana, ray, reed, reina, ren, rex, rich,
    rob, robin, rocio, romain, roman, roos, rory, rosario, rose, ross, ruby, rui, rune, sally, salvador, sana, sandy,
    santiago, savannah, shan, shanti, sid, sidney, skip, sky, skyler, soledad, soo, sora, spencer, sri, sterling, sue,
    summer, sung, surya, tam, tanner, tao, tatum, taylor, terry, thor, tien, tilda, tony, trent, trey, tyler, uma,
    una, van, vera, verity, victor, viola, violet, violeta, vit, viv, wade, wagner, warren, wayne, wen, will, willow,
    woody, wren, xin, yang, yen, yong, yue, yun, zion,
    al, bo, flo, lou, mo
    """
)

ORGANISATIONS = proper(
    """
    Accenture, Acme, Adidas, Adobe, Airbnb, Airbus, Aldi, Alibaba, Amazon, AMD, Anthropic, Apple, Asana, Atlassian,
    AT&T, AWS, Bain, Bank of America, Barclays, Basecamp, BBC, BCG, BlackRock, Bloomberg, BMW, Boeing, Booking.com,
    Bosch, BP, ByteDance, Canva, Capgemini, Chevron, Cisco, Citibank, Cloudflare, Coca-Cola, Cognizant, Coinbase,
    Comcast, Costco, Databricks, Datadog, Deloitte, Delta, Deutsche Bank, DHL, Disney, DoorDash, Dropbox, eBay, EY,
    Ericsson, Etsy, Expedia, ExxonMobil, Facebook, FedEx, Figma, Ford, GE, General Motors, GitHub, GitLab, Globex,
    Goldman Sachs, Google, GSK, H&M, Home Depot, Honda, Honeywell, HP, HSBC, HubSpot, Huawei, IBM, IKEA, Infosys,
    Initech, Instacart, Intel, JP Morgan, JPMorgan, KPMG, Lego, Lidl, LinkedIn, Lockheed Martin, L'Oréal, Lowe's,
    Lufthansa, Lyft, Mastercard, McDonald's, McKinsey, Meta, Microsoft, Morgan Stanley, Mozilla, NASA, Nestle,
    Nestlé, Netflix, NHS, Nike, Nintendo, Nokia, Novartis, Nvidia, OpenAI, Oracle, Palantir, PayPal, PepsiCo,
    Pfizer, Philips, Pinterest, PwC, Qualcomm, Red Hat, Reddit, Revolut, Roche, Salesforce, Samsung, SAP, Shell,
    Shopify, Siemens, Slack, Snowflake, Sony, SpaceX, Spotify, Starbucks, Stripe, Target, TCS, Tesco, Tesla, TikTok,
    Toyota, Twitter, Uber, UBS, Unilever, UPS, USPS, Verizon, Visa, Vodafone, Volkswagen, Volvo, Walmart, Wells
    Fargo, Whole Foods, Wipro, Yahoo, Zara, Zalando, Zoom, MIT, Stanford, Harvard, Yale, Princeton, Caltech, UCLA,
    NYU, UC Berkeley, ETH Zurich, Oxford University, Cambridge University, Cornell, Columbia University, the UN=UN,
    Best Buy, Walgreens, CVS, Kroger, Publix, Safeway, Trader Joe's, Macy's, Nordstrom, Burger King, KFC, Chipotle,
    Chick-fil-A, Wendy's, Taco Bell, Dunkin, GameStop, Sainsbury's, Asda, Waitrose, Morrisons, Royal Mail, Carrefour,
    Decathlon, Ryanair, easyJet, British Airways, KLM, ASML, BASF, Sanofi, AstraZeneca, Danone, Heineken,
    T-Mobile, Deutsche Telekom, Ubisoft, Riot Games, Epic Games, Klarna, Monzo, N26,
    UNICEF, WHO, the EU=EU
    """
)
SCHOOLS = proper(
    """
    MIT, Stanford, Harvard, Yale, Princeton, Caltech, UCLA, NYU, UC Berkeley, Berkeley, ETH Zurich, ETH, EPFL,
    Oxford, Cambridge, Cornell, Columbia, Brown, Dartmouth, Duke, Georgia Tech, UCL, LSE, Imperial College, King's
    College, McGill, UBC, IIT, IIT Bombay, IIT Delhi, NUS, Tsinghua, Sorbonne, TU Munich, TU Delft, KTH, UNSW,
    Northwestern, Purdue, Penn State, UPenn, USC, UCSD, UC Davis, Carnegie Mellon, CMU, Johns Hopkins, Rice, Notre
    Dame, Texas A&M, Ohio State, Michigan State, Virginia Tech, Boston University, Howard, Juilliard, RISD, Wharton,
    INSEAD
    """
)

LANGUAGES = proper(
    """
    Afrikaans, Albanian, Amharic, Arabic, Armenian, ASL, Basque, Bengali, Bosnian, Bulgarian, Burmese, Cantonese,
    Catalan, Chinese, Creole, Croatian, Czech, Danish, Dutch, English, Esperanto, Estonian, Farsi, Finnish, Flemish,
    French, Gaelic, Galician, Georgian, German, Greek, Gujarati, Hausa, Hebrew, Hindi, Hungarian, Icelandic, Igbo,
    Indonesian, Irish, Italian, Japanese, Kannada, Kazakh, Khmer, Korean, Kurdish, Lao, Latin, Latvian, Lithuanian,
    Luxembourgish, Macedonian, Malay, Malayalam, Maltese, Mandarin, Marathi, Mongolian, Nepali, Norwegian, Odia, Pashto,
    Persian, Polish, Portuguese, Punjabi, Romanian, Russian, Serbian, Sinhala, Slovak, Slovenian, Somali, Spanish,
    Swahili, Swedish, Swiss German, Tagalog, Tamil, Telugu, Thai, Tibetan, Turkish, Ukrainian, Urdu, Uzbek, Vietnamese,
    Welsh, Xhosa, Yiddish, Yoruba, Zulu, Luo, Kikuyu, Wolof, Twi, Shona, Kinyarwanda, Lingala, Tigrinya, Oromo,
    Azerbaijani, Belarusian, Faroese, Breton, Corsican, Quechua, Guarani, Nahuatl, Māori, Maori, Samoan, Tongan,
    Hawaiian, Javanese, Cebuano, Ilocano, Hokkien, Hakka, Teochew, Shanghainese, Uyghur, Turkmen, Kyrgyz, Tajik, Dari,
    Balochi, Sindhi, Konkani, Assamese, Bhojpuri, Scots, Romansh, BSL, Auslan, sign language, American Sign Language,
    Brazilian Portuguese, Filipino, British English, American English, Australian English, Canadian French,
    Mandarin Chinese, portugese=Portuguese, portugeuse=Portuguese, ukranian=Ukrainian, phillipino=Filipino, Sotho,
    Sesotho, Setswana, Tswana, Frisian, Bisaya, Hiligaynon, Waray, Kapampangan, Ga, Ewe,
    Fante, Akan, Luganda, Bemba, Chewa, Ndebele, Malagasy, Tatar, Chechen, Sorbian, Sardinian, Sicilian, Neapolitan,
    Aramaic, Sanskrit, Maithili, Rajasthani, Hmong, Taiwanese, Cherokee, Navajo, Inuktitut, Aymara, Papiamento, Patois,
    Pidgin, Berber, Tamazight, Moldovan, Montenegrin, Ladino, Occitan
    """
)
PROGRAMMING_LANGUAGES = proper(
    """
    Python, JavaScript, JS=JavaScript, TypeScript, TS=TypeScript, Java, C, C++, C#, Objective-C, Rust, Go,
    Golang=Go, Ruby, PHP, Swift, Kotlin, Scala, Haskell, Elixir, Erlang, Clojure, F#, OCaml, Perl, R, MATLAB, Julia,
    Lua, Dart, SQL, Bash, PowerShell, COBOL, Fortran, Visual Basic, VBA, Zig, Nim, Elm, Prolog, Lisp, Common Lisp,
    Scheme, Racket, Assembly, Solidity, Groovy, Crystal, Ada, Pascal, Delphi, Smalltalk, HTML, CSS, GDScript,
    Verilog, VHDL
    """
)
TOOLS = proper(
    """
    Ansible, ArgoCD, NixOS, Mac, Android, iOS, VS Code, VSCode=VS Code, Visual Studio Code, Visual Studio, Vim,
    Neovim, nvim=Neovim, Emacs, Sublime Text, IntelliJ, IntelliJ IDEA, PyCharm, WebStorm, Xcode, Android Studio,
    Eclipse, Cursor, Zed, Jupyter,
    Notion, Obsidian, Evernote, OneNote, Roam, Logseq, Todoist, Trello, Asana, Jira, Linear, Slack, Discord,
    Microsoft Teams, Zoom, Photoshop, Lightroom, Illustrator, InDesign, Figma, Sketch, Canva, Blender, Unity, Unreal
    Engine, Godot, Maya, AutoCAD, SolidWorks, Fusion 360, SketchUp, Procreate, Premiere, Premiere Pro, After
    Effects, DaVinci Resolve, Final Cut, Final Cut Pro, Ableton, Ableton Live, Logic Pro, FL Studio, Pro Tools,
    GarageBand, Excel, Google Sheets, Google Docs, Microsoft Word, PowerPoint, Tableau, Power BI, SPSS, Stata,
    Docker, Kubernetes, k8s=Kubernetes, Terraform, GitHub Actions, CircleCI, Jenkins, Bitbucket, Confluence, Nginx,
    Kafka, RabbitMQ, Elasticsearch, SQLite, MariaDB, DynamoDB, BigQuery, Snowflake, Airflow, dbt, Grafana,
    Prometheus, Datadog, Sentry, SQLAlchemy, Alembic, Pydantic, pytest, mypy, Ruff, httpx, uv, NumPy, scikit-learn,
    ESLint, Prettier, Vite, Webpack, Tailwind, npm, pnpm, GraphQL, gRPC, Firebase, Supabase, Netlify, Cloudflare,
    Mailchimp, Xero, Odoo, FreshBooks, WooCommerce, Zendesk, Freshdesk, Miro, ClickUp, Basecamp, Calendly, Grammarly,
    Google Calendar, Google Keep, Apple Notes, Git, GitHub, GitLab, Postgres, PostgreSQL, MySQL, MongoDB, Redis,
    React, Node.js, Node=Node.js, Vue,
    Angular, Svelte, Django, Flask, FastAPI, Rails, Laravel, Spring, Next.js, PyTorch, TensorFlow, Pandas, Linux,
    Ubuntu, Debian, Fedora, Arch Linux, Arch, Linux Mint, macOS, Windows, Windows 10, Windows 11, ChromeOS,
    Firefox, Chrome, Safari, Brave, Edge, Gmail, Outlook, ProtonMail, WhatsApp, Telegram, Signal, Spotify, Strava,
    MyFitnessPal, Duolingo, Anki, Kindle, Goodreads, YNAB, QuickBooks, Salesforce, HubSpot, Shopify, WordPress,
    Squarespace, Zapier, Airtable, Copilot, ChatGPT, Claude, tmux, zsh, fish, iTerm, 1Password, Bitwarden, Dropbox,
    Google Drive, iCloud, AWS, Azure, GCP, Heroku, Vercel
    """
)
TOOLS_AND_WORDS = words(
    """
    cursor, zed, linear, slack, zoom, sketch, unity, maya, illustrator, excel, premiere, signal, brave, edge, fish,
    arch, node, snowflake, airflow, alembic, sentry, prettier, ruff, miro, confluence, spring, flask, rails, react,
    angular, chrome, safari, windows, copilot, roam, git, eclipse, kindle
    """
)
"""Tools whose names are plain words: in lower case they count only next to an unambiguous verb of use."""

DEVICES = proper(
    """
    iPhone, iPad, MacBook, MacBook Pro, MacBook Air, iMac, Mac Mini, Mac Studio, Apple Watch, AirPods, Pixel, Google
    Pixel, Galaxy, Samsung Galaxy, OnePlus, ThinkPad, Lenovo ThinkPad, Dell XPS, XPS, Surface, Surface Pro,
    Chromebook, Kindle, PS5, PS4, PlayStation, PlayStation 5, Xbox, Xbox Series X, Nintendo Switch, Switch, Steam
    Deck, Raspberry Pi, Fitbit, Garmin, Garmin Forerunner, Oura Ring, GoPro, Canon, Nikon, Fujifilm, Sony, Roomba,
    Kobo, Lenovo, Dell, HP, Asus, Acer, Razer, Framework, Quest, Meta Quest, Oculus, Vision Pro, HomePod, Echo,
    Sonos, Motorola, Xiaomi, Redmi, Huawei, Nokia, Fairphone, Oppo, Realme, Alienware, Zenbook, ZenBook
    """
)
VEHICLE_MAKERS = words(
    """
    acura, alfa romeo, aprilia, aston martin, audi, bajaj, bentley, bianchi, bmw, brompton, bugatti, buick, byd,
    cadillac, cannondale, cervelo, chery, chevrolet, chevy, chrysler, citroen, citroën, cupra, dacia, daihatsu,
    datsun, dodge, ducati, ferrari, fiat, fisker, ford, geely, genesis, gmc, harley, harley davidson,
    harley-davidson, honda, hummer, husqvarna, hyundai, infiniti, isuzu, jaguar, jeep, kawasaki, kia, kona, ktm,
    lamborghini, lancia, land rover, lexus, lincoln, lotus, lucid, mahindra, maruti, maruti suzuki, maserati, mazda,
    mclaren, mercedes, mercedes-benz, mini cooper, merida, mg, mitsubishi, moto guzzi, nio, nissan, oldsmobile,
    opel, orbea, perodua, peugeot, piaggio, pinarello, polestar, pontiac, porsche, prius, ram, range rover, renault,
    rivian, rolls-royce, royal enfield, saab, seat, skoda, smart, specialized, ssangyong, subaru, suzuki, tata,
    tesla, toyota, trek, triumph, vanmoof, vauxhall, vespa, volkswagen, volvo, vw, xpeng, yamaha
    """
)
VEHICLE_MODELS = words(
    """
    accord, astra, beetle, camry, civic, clio, corolla, corsa, cx-5, duster, fabia, fiesta, focus, forester, golf,
    ibiza, impreza, leaf, leon, megane, micra, miata, model 3, model s, model x, model y, mondeo, mustang, octavia,
    outback, panda, passat, picanto, polo, punto, qashqai, rav4, sandero, sportage, tiguan, tucson, twingo, wrangler,
    yaris, zoe,
    jazz, i10, i20, i30, aygo, baleno, creta, vitara, juke, kuga, superb, insignia, mokka, logan, ateca, kona, niro,
    ceed, auris, avensis, hilux, prius, odyssey, crv, cr-v, hr-v, cherokee, f-150, silverado, tacoma, tundra, altima,
    sentra, elantra, sonata, outlander, pajero, vespa,
    zafira, touran, meriva, sharan, scenic, berlingo, kangoo, sprinter, transit, vivaro, ducato, vectra,
    escort, saxo, xsara
    """
)
TIMEZONES = words(
    """
    utc, gmt, bst, cet, cest, eet, eest, wet, west, msk, ist, pkt, jst, kst, sgt, hkt, aest, aedt, acst, awst, nzst,
    nzdt, est, edt, et, cst, cdt, ct, mst, mdt, mt, pst, pdt, pt, akst, hst, brt, art, eat, cat, wat, sast, eastern,
    central, mountain, pacific
    """
)
