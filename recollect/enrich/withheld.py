"""Messages from which nothing may be learned, because the user says so or is not who is signed in.

"Please don't save this, but I live in Porto" is a wish that holds for the message it stands in, wherever in it.
"I'm using my wife's account: my name is Peter" tells of somebody whose memory this is not.
"""

from __future__ import annotations

import re

from recollect.enrich.people import TOLD_OF
from recollect.enrich.sentences import lowered

_THIS = (
    r"(?:this|that(?! (?:i|i'm|i've|my|we)\b)|any(?:thing)?(?: of (?:this|that|it))?|these"
    r"|what (?:i|i'm|i am|i'll|follows)\b[^.!?\n]{0,30}?)"
)
_MY_DATA = (
    r"(?:any of )?my (?:data|details|answers?|messages?|words|info(?:rmation)?|personal (?:data|details|info\w*))"
)
_OBJECT_ENDS = (
    r"(?=[\s\x00]*(?:\Z|[.,;:!?()–—\n-]|(?:but|and|please|pls|ok|okay|because|in|to|on|into|anywhere|for|about|as"
    r"|though|i|i'm|my|we|since|yet|permanently|either|message|conversation|chat|bit|part|one|next|between|down)\b))"
)
_IMPERATIVE = (
    r"(?:\A|(?<=[.!?;:,\n(–—-])|(?<=[.!?;:,\n(–—-] )|\b(?:please|pls|kindly|but|and|so|just|also|rather|ok|okay|hey"
    r"|do|could you|can you|would you|must|should|may|to|you|i'd prefer you)[\s,]{1,2})"
)
_NOT_KEPT = re.compile(
    rf"{_IMPERATIVE}(?:don't|dont|do not|never|not|needn't|need not)(?: (?:to|please|ever|have to|need to))? "
    rf"(?:(?:remember|memori[sz]e) (?:{_THIS}|it|{_MY_DATA}){_OBJECT_ENDS}"
    rf"|(?:save|store|record|keep|learn|log|note(?: down)?|write down|retain) (?:{_THIS}|{_MY_DATA})"
    rf"{_OBJECT_ENDS}"
    r"|(?:save|store|record|keep|log|note|put|add|write) (?:this|that|it|these|any of (?:this|that|it)) (?:in|into|to"
    r"|on|down in) (?:your |my |the )?(?:memory|profile|notes|records?|files?|mind)\b)"
    r"|\b(?:i (?:don't|dont|do not) want (?:you|this|that|it) to|i'd (?:rather|prefer) (?:you|it) (?:didn't|did not"
    r"|don't)) (?:be )?(?:remember|save|store|record|keep|memori[sz]e|learn|log|note|retain)(?:e?d)?\b"
    rf"(?= (?:{_THIS}|it|{_MY_DATA})\b|\W*\Z|[.,;:!])"
    r"|\boff[ -]the[ -]record\b(?! (?:store|shop|label|player))"
    r"|\b(?:no need|you don't (?:need|have)|there's no need) to (?:remember|save|store|record|note|memori[sz]e) "
    r"(?:this|that|it|any of (?:this|that|it))\b"
    r"|\b(?:this|that|none of (?:this|that|it)|nothing of (?:this|that|it)) (?:is|should|must|may|shall|can|needs?)"
    r"(?: not| never|n't)?(?: to)? be (?:remembered|saved|stored|recorded|memori[sz]ed|kept|learned|noted)\b"
    r"|\b(?:this|that)(?: message| one| bit| part)? is not for (?:the record|your (?:memory|notes|files))\b"
    r"|\bnot for the record\b"
    r"|\bkeep (?:this|that|it|these)(?: \w+)? (?:out of|off) (?:your|my|the) (?:memory|profile|notes|records?|files?)\b"
    r"|\bwithout (?:saving|storing|recording|remembering|memori[sz]ing) (?:this|that|it|any(?:thing)?)\b"
    r"|\bforget (?:that )?(?:i (?:just )?(?:said|told you|mentioned|wrote) (?:this|that|it|anything)|what i (?:just"
    r" )?(?:said|told you|wrote))\W*\Z"
)
"""Not "Remember this", and not "I don't remember this song"."""
_OF_ANOTHER = re.compile(
    r"\b(?:using|borrowing|on|from|via|through|with|in(?:to)?|over|is|not me,?) (?:my|our) "
    rf"(?:[\w'-]+ ){{0,2}}?{TOLD_OF.pattern}(?:'s?) (?:account|login|log-in|profile|user ?name|user|id|session"
    r"|subscription)\b"
    rf"|\b(?:logged|signed) in (?:as|with|under) (?:my|our) (?:[\w'-]+ ){{0,2}}?{TOLD_OF.pattern}"
    r"|\b(?:this|it)(?:'s| is) (?:not|n't) (?:actually |really )?my (?:own )?(?:account|login|profile)\b"
    r"|\bthis isn't (?:actually |really )?my (?:own )?(?:account|login|profile)\b"
)
"""Somebody who writes from the account of somebody else."""


_KEEPING = (
    "remember", "memori", "save", "saving", "store", "storing", "record", "retain", "keep", "kept", "learn", "log",
    "note", "write", "put ", "add ", "forget",
)  # fmt: skip
_ACCOUNTS = ("account", "login", "log-in", "profile", "user", " id", "session", "subscription", "logged", "signed")
"""Signs that the patterns, which are slower, may match."""


def is_withheld(text: str) -> bool:
    """Whether nothing may be learned from a message.

    >>> [is_withheld(said) for said in ("Don't save this: I live in Porto.", "Remember this: I live in Porto.")]
    [True, False]
    """
    low = lowered(text)
    if any(sign in low for sign in _KEEPING) and _NOT_KEPT.search(low):
        return True
    return any(sign in low for sign in _ACCOUNTS) and _OF_ANOTHER.search(low) is not None
