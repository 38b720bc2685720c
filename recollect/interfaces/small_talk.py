"""What the assistant without a model says when nothing is asked of its memory: a short acknowledgement."""

from __future__ import annotations

import re

from recollect.enrich.rules import takes_back
from recollect.enrich.sentences import TO_FORGET

ITSELF = (
    "I remember what you tell me and answer from it, with the day you said it. I know nothing else. "
    "Tell me something and ask me later, or ask what I know about you."
)
NOT_FROM_MEMORY = "I can't do that: I only answer from what you told me."
_GREETS = re.compile(r"(?:hello|hi|hey|good (?:morning|evening|day|afternoon))\b", re.IGNORECASE)
_THANKS = re.compile(r"(?:thanks|thank you|thx|cheers)\b", re.IGNORECASE)
_BYE = re.compile(r"(?:bye|goodbye|good night|see you|see ya|cya)\b", re.IGNORECASE)
_NODS = re.compile(
    r"(?:(?:ok|okay|k|kk|yes|yeah|yep|yup|no|nope|nah|sure|fine|right|cool|nice|great|good|perfect|lol|haha\w*|hm+|hmm+"
    r"|oh|ah|wow|alright|all right|got it|i see|never ?mind|nvm|exactly|indeed|true)[\s,.!…]*){1,3}",
    re.IGNORECASE,
)
_REMIND = re.compile(r"(?:please\s+)?remind\s+me\b", re.IGNORECASE)
_OF_ITSELF = re.compile(
    r"(?:so |and |but |hey |hi |ok )*(?:what (?:can|do) you do|what are you|who are you|how do(?:es)? (?:you|this|it)"
    r" work"
    r"|what(?:'s|’s| is) your name|are you (?:an? )?(?:ai|bot|human|robot|chatbot|chatgpt|real|person)|help)\W*",
    re.IGNORECASE,
)
_DO_SOMETHING = re.compile(
    r"(?:(?:can|could|would|will) you (?:please |just |maybe )*|please )"
    r"(?!(?:tell me|remember|remind|recall|find|say)\b)",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"(?:please )?(?:(?:write|draft|compose|draw|sing|find|suggest|recommend) (?:me|us) (?:an?|some) "
    r"|(?:translate|summari[sz]e) (?:this|that|it|the|my)\b|set (?:an?|the) (?:timer|alarm)\b)",
    re.IGNORECASE,
)


def acknowledged(text: str) -> str:
    """A short word for what was told. What is said out of mere courtesy is not something to remember.

    >>> acknowledged("ok, cool"), acknowledged("I like tea.")
    ('All right.', "I'll remember that.")
    """
    said = text.strip()
    if _OF_ITSELF.fullmatch(said):
        return ITSELF
    if _THANKS.match(said):
        return "You're welcome."
    if _NODS.fullmatch(said):
        return "All right."
    if takes_back(said):
        return "I no longer count on that. The words themselves stay in our conversation until you forget them."
    if _ORDERS.match(said):
        return NOT_FROM_MEMORY
    if TO_FORGET.match(said.lower()):
        return "I don't forget on request, so nothing is lost by mistake. Choose it under Memories and forget it there."
    if _REMIND.match(said):
        return "I'll remember that. I can't send reminders, so ask me when the time comes."
    if is_courtesy(said):
        return "Goodbye!" if _BYE.match(said) else "Hello! Tell me something, and ask me about it later."
    return "Hello! I'll remember that." if _GREETS.match(said) else "I'll remember that."


def is_courtesy(text: str) -> bool:
    """Whether somebody only greets, thanks, nods or says goodbye: nothing to quote to them later.

    >>> is_courtesy("Hi there!"), is_courtesy("lol ok"), is_courtesy("Hi, I am Ann.")
    (True, True, False)
    """
    said = text.strip()
    brief = len(said.split()) <= 3 and len(re.findall(r"[.!?…](?=\s)", said)) == 0
    return _NODS.fullmatch(said) is not None or (
        brief and any(pattern.match(said) for pattern in (_GREETS, _THANKS, _BYE))
    )


def about_itself(question: str) -> bool:
    """Whether somebody wants to know what they are talking to."""
    return _OF_ITSELF.fullmatch(question.strip()) is not None


def asks_for_a_deed(question: str) -> bool:
    """Whether something is to be done that only a model could do: "can you write an email?"."""
    return _DO_SOMETHING.match(question.strip()) is not None
