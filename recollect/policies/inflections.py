"""English forms that no suffix rule reduces to their word: "bought" is found by "buy", "children" by "child".

Everyday forms that mean exactly the same are among them: "mum" is found by "mother", "feb" by "february".

Forms that mostly mean something else are left out: "rose" is a flower or a name, "bit" and "lit" are short words of
their own, "lives" and "leaves" are two words each, "people" are hardly ever asked for as a person.
"""

from __future__ import annotations

_FORMS = """
    arise arose arisen
    awake awoke awoken
    bear borne
    beat beaten
    become became
    begin began begun
    bend bent
    bite bitten
    bleed bled
    blow blew blown
    break broke broken
    breed bred
    bring brought
    build built
    burn burnt
    buy bought
    catch caught
    choose chose chosen
    cling clung
    come came
    creep crept
    deal dealt
    dig dug
    draw drew drawn
    dream dreamt
    drink drank drunk
    drive drove driven
    eat ate eaten
    fall fell fallen
    feed fed
    feel felt
    fight fought
    find found
    flee fled
    fly flew flown
    forget forgot forgotten
    forgive forgave forgiven
    freeze froze frozen
    get got gotten
    give gave given
    go went gone
    grow grew grown
    hang hung
    hear heard
    hide hid hidden
    hold held
    keep kept
    kneel knelt
    know knew known
    lay laid
    lead led
    leap leapt
    learn learnt
    leave left
    lend lent
    lose lost
    make made
    mean meant
    meet met
    mistake mistook mistaken
    outgrow outgrew outgrown
    overcome overcame
    overhear overheard
    oversleep overslept
    overtake overtook overtaken
    pay paid
    prove proven
    rebuild rebuilt
    redo redid redone
    repay repaid
    rewrite rewrote rewritten
    ride rode ridden
    ring rang rung
    rise risen
    run ran
    say said
    see saw seen
    seek sought
    sell sold
    send sent
    sew sewn
    shake shook shaken
    shine shone
    shoot shot
    show shown
    shrink shrank shrunk
    sing sang sung
    sink sank sunk
    sit sat
    sleep slept
    slide slid
    smell smelt
    speak spoke spoken
    spell spelt
    spend spent
    spill spilt
    spin spun
    spoil spoilt
    spring sprang sprung
    stand stood
    steal stole stolen
    stick stuck
    sting stung
    stride strode
    strike struck
    strive strove striven
    swear swore sworn
    sweep swept
    swell swollen
    swim swam swum
    swing swung
    take took taken
    teach taught
    tear tore torn
    tell told
    think thought
    throw threw thrown
    understand understood
    undertake undertook undertaken
    wake woke woken
    wear wore worn
    weave wove woven
    weep wept
    win won
    withdraw withdrew withdrawn
    write wrote written
    calf calves
    child children
    foot feet
    goose geese
    half halves
    knife knives
    loaf loaves
    man men
    mouse mice
    shelf shelves
    thief thieves
    tooth teeth
    wife wives
    wolf wolves
    woman women
    mother mum mums mom moms mam mummy mommy mama
    father dad dads daddy papa
    grandmother grandma grandmas granny gran nana
    grandfather grandpa grandpas grandad grandads granddad granddads
    aunt auntie aunty
    child kid kids
    bicycle bike bikes
    telephone phone phones
    television telly tv tvs
    photo photos photograph photographs
    refrigerator fridge fridges
    university uni unis
    february feb
    april apr
    august aug
    september sept
    october oct
    november nov
"""

WORD_OF = {form: word for word, *forms in map(str.split, _FORMS.strip().splitlines()) for form in forms}
"""The word that each of these is a form of."""
