"""A sample memory: five weeks in the life of an invented person, so that every page has something to show.

It is added through the public verbs like anything else. Loading it twice stores it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from recollect.memory import Memory
from recollect.records import as_datetime
from recollect.user import User

USER = "noor"
"""Whose memory it is."""
MINUTES_A_TURN, SECONDS_TO_ANSWER = 3, 4


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation: how many days ago and at which hour it began, and what both sides said in turn."""

    id: str
    days_ago: int
    hour: int
    title: str
    turns: tuple[tuple[str, str], ...]


TALKS = (
    Talk("first-hello", 36, 19, "A first hello", (
        ("Hi! I'm Noor. I live in Tromsø and I work as a marine biologist at Fjordlab.",
         "Hello Noor! Nice to meet you. What are you working on at Fjordlab?"),
        ("We count harbour porpoises in the fjords. I code in Python and R for the models.",
         "Porpoises, lovely. Python for the models and R for the statistics, I suppose?"),
        ("Exactly. Please keep your answers short. I prefer dark mode, too, I read on a boat at night.",
         "Short and dark it is."),
        ("I have a dog called Biscuit, he is a seasick border collie.",
         "Poor Biscuit. Does he come along anyway?"),
        ("He does. And I'm allergic to shellfish, which is ironic for a marine biologist.",
         "Ironic, and good to know."),
        ("I drive an old Volvo, by the way, so the harbour is ten minutes away.",
         "Ten minutes, if the Volvo agrees."),
    )),
    Talk("survey-plan", 31, 8, "Planning the autumn survey", (
        ("The autumn survey starts on 9 November and takes twelve days.",
         "Noted: twelve days from 9 November."),
        ("My colleague Ingrid works at Polaria. She drives the boat.",
         "Then Ingrid has the helm, and you have the hydrophones."),
        ("We use hydrophones from Aquatone. The budget is 84,000 kroner and must not be exceeded!",
         "84,000 kroner, not one more."),
        ("Always give distances in nautical miles, please.",
         "Nautical miles from now on."),
        ("What did we decide about the budget?",
         "84,000 kroner for the survey, and it must not be exceeded."),
    )),
    Talk("family", 27, 21, "Family news", (
        ("My sister Leila lives in Ålesund. She gets married in June, in a lighthouse.",
         "A lighthouse wedding! Will you give a speech?"),
        ("I will, and I promised to play the accordion. My partner is called Jonas and he dances badly.",
         "An accordion and a bad dancer. The guests will remember it."),
        ("I grew up in Casablanca. My mother Samira lives there, and my father was a fisherman.",
         "So the sea runs in the family."),
        ("I speak Norwegian, Arabic and English.",
         "Three languages, that helps with a wedding across two seas."),
        ("My favourite food is harira, the way my mother makes it.",
         "Harira it is, without shellfish of course."),
    )),
    Talk("new-job", 20, 18, "A new job", (
        ("Big news. I'm now the head of research at Bergen Aquarium.",
         "Congratulations! Goodbye Fjordlab, then."),
        ("I can hardly believe it. I start on 1 December.",
         "From 1 December. Well deserved."),
        ("I will miss the porpoises, but the aquarium has otters.",
         "Otters are a strong argument."),
        ("Remind me to hand back the hydrophones before I go.",
         "I will: hydrophones back to Fjordlab before December."),
    )),
    Talk("moving", 13, 20, "Moving south", (
        ("We moved to Bergen. The flat looks over Vågen.",
         "Welcome to Bergen! How does Biscuit take the rain?"),
        ("He hates it. I bought him a yellow coat.",
         "A yellow coat for Biscuit. I would like to see that."),
        ("Jonas found work at the university. He teaches statistics at the University of Bergen.",
         "Two scientists in one flat over the harbour."),
        ("The removal firm broke my microscope, and I am furious. The claim number is BX-2291.",
         "I am sorry. Claim BX-2291, and I hope they pay for it."),
        ("I prefer trains over planes.",
         "Trains, then, wherever there are tracks."),
    )),
    Talk("accordion", 9, 22, "Practising", (
        ("I play the accordion. I practise every Tuesday and Thursday evening now.",
         "Tuesdays and Thursdays. The neighbours?"),
        ("They knock on the wall, in time at least. What should I play at the wedding?",
         "Something that Jonas can dance to, however badly: a waltz."),
        ("No, I meant for the ceremony, not for the dance.",
         "For the ceremony, then: something slow. The Arrival of the Birds, perhaps."),
        ("That is perfect, thank you.",
         "You're welcome."),
    )),
    Talk("trip", 5, 9, "A trip to Ålesund", (
        ("I'm going to Ålesund on 28 November to look at the lighthouse with Leila.",
         "28 November, Ålesund, with Leila. By train?"),
        ("There is no train to Ålesund, so by bus. It takes nine hours.",
         "Nine hours by bus, then. Bring something to read."),
        ("Leila is a vegetarian, so find us a place to eat that suits both of us.",
         "A place without meat for Leila and without shellfish for you."),
        ("My goal is to finish the porpoise paper before the wedding.",
         "The paper before June. I will ask about it."),
    )),
    Talk("otters", 1, 17, "Otters", (
        ("The aquarium showed me the otters today. The oldest one is called Magnus and he is eleven.",
         "Magnus, eleven, and surely in charge."),
        ("I have to write the research plan by Friday, and it must have a section on noise.",
         "By Friday, with a section on noise. Your hydrophones would help."),
        ("Which units do I want for distances?",
         "Nautical miles: you asked for that when you planned the survey."),
        ("I drive a Nissan Leaf now. My friend Amal lives in Oslo, and she found it for us.",
         "A second car beside the Volvo. Nice of Amal!"),
    )),
)  # fmt: skip

KNOWLEDGE = (
    ("Harbour porpoises click at about 130 kHz, far above what people hear.", {"topic": "porpoises"}, 34),
    ("The hydrophones of Aquatone need new batteries after 60 hours.", {"topic": "equipment"}, 30),
    ("Fjordlab pays for the open-access fee of the porpoise paper.", {"topic": "paper"}, 24),
    ("The lighthouse near Ålesund holds forty guests.", {"topic": "wedding"}, 22),
    ("The microscope that broke was a Zeiss Primo Star, bought in 2019.", {"topic": "moving"}, 12),
    ("Buses from Bergen to Ålesund leave at 7:45 and at 22:00.", {"topic": "travel"}, 5),
)
INSTRUCTIONS = (
    ("short", "Keep answers to two sentences unless I ask for more."),
    ("sources", "Name the paper when you quote a figure."),
    ("no-emoji", "No emoji, please."),
)
LEARNINGS = (
    ("Reads on a boat with a weak signal: no long tables.", 0.85, 29),
    ("Asks for the source before trusting a figure.", 0.6, 11),
)
RELATIONS = (
    ("Jonas", "works_at", "University of Bergen", 13),
    ("Ingrid", "friend_of", "Jonas", 27),
    ("Magnus", "lives_in", "Bergen Aquarium", 1),
    ("Bergen Aquarium", "located_in", "Bergen", 20),
    ("University of Bergen", "located_in", "Bergen", 13),
    ("Fjordlab", "located_in", "Tromsø", 36),
)
"""What else is known about Noor's world, and how many days ago it came up."""


async def load(memory: Memory, org: str, now: int) -> User:
    """Store the sample and run the work that follows from it. Returns the handle of its user."""
    noor = memory.user(USER, org=org)
    if await noor.sessions(limit=1):
        return noor
    today = as_datetime(now).replace(minute=4, second=0, microsecond=0)
    for talk in TALKS:
        await _hold(noor, talk, today.replace(hour=talk.hour) - timedelta(days=talk.days_ago))
        # Each conversation is processed before the next one begins, as it would have been in real life.
        await memory.work()
        await noor.session(talk.id).close()
    for text, metadata, days_ago in KNOWLEDGE:
        await noor.add_memory(text, metadata=metadata, created_at=today - timedelta(days=days_ago))
    for subject, relation, object, days_ago in RELATIONS:
        await noor.graph.relate(subject, relation, object, valid_from=today - timedelta(days=days_ago))
    for content, confidence, days_ago in LEARNINGS:
        await noor.add_learning(content, confidence=confidence, created_at=today - timedelta(days=days_ago))
    for id, text in INSTRUCTIONS:
        await noor.customize(text, id=id)
    await memory.work()
    return noor


async def _hold(noor: User, talk: Talk, began: datetime) -> None:
    """Store both sides of a conversation, a few minutes for each turn."""
    said = [
        {"role": role, "content": text, "created_at": began + timedelta(minutes=MINUTES_A_TURN * place, seconds=pause)}
        for place, turn in enumerate(talk.turns)
        for role, text, pause in (("user", turn[0], 0), ("assistant", turn[1], SECONDS_TO_ANSWER))
    ]
    chat = noor.session(talk.id)
    await chat.add_messages(said)
    await chat.rename(talk.title)
