"""Facts that callers state and messages tell, as the claims that `policies/facts.py` decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from recollect import validate
from recollect.enrich import Found
from recollect.errors import ValidationError
from recollect.policies.facts import LEARNING, Claim, text_mark
from recollect.policies.keys import KEY_MAX, Key, is_sentence, key_of
from recollect.records import Record, Source

_ITEM = ("key", "value", "confidence", "source_message_id", "valid_from", "valid_to")


@dataclass(frozen=True, slots=True)
class Told:
    """Something stated outright, validated once."""

    key: Key
    value: str
    confidence: float = 1.0
    message_id: str | None = None
    valid_from: int | None = None
    valid_to: int | None = None

    @classmethod
    def of(cls, value: object) -> Told:
        """An item of `Facts.upsert`, checked."""
        item = validate.named_fields(value, _ITEM, _ITEM[:2])
        valid_from = validate.moment(item.get("valid_from"), "valid_from")
        valid_to = validate.moment(item.get("valid_to"), "valid_to")
        if valid_from is not None and valid_to is not None and valid_to < valid_from:
            raise ValidationError("must not end before it begins", field="valid_to")
        return cls(
            key=checked_key(item["key"]),
            value=validate.fact_value(item["value"]),
            confidence=validate.unit_interval(item.get("confidence", 1.0), "confidence"),
            message_id=validate.optional_identifier(item.get("source_message_id"), "source_message_id"),
            valid_from=valid_from,
            valid_to=valid_to,
        )

    def claim(self, messages: Mapping[str, Record], now: int, status: str = "told") -> Claim:
        """As a claim, dated when it began to be true, else by its message, else now; never in the future."""
        message = messages.get(self.message_id or "")
        said = message.when if message else now
        at = min(said if self.valid_from is None else self.valid_from, now)
        source = Source(self.message_id) if self.message_id else None
        if message:
            source = Source(message.id, message.scope.session, None, message.data.get("role"))
        return Claim(
            key=self.key,
            value=self.value,
            at=at,
            kind="says" if self.valid_to is None or self.valid_to > now else "ends",
            confidence=self.confidence,
            status=status,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            source=source,
            text=text_mark(message.content) if message else "",
            trust=message.trust if message else "trusted",
        )


def checked_key(name: object) -> Key:
    """The key of this name, however a caller wrote it."""
    key = key_of(validate.identifier(name, "key"))
    if not key.name:
        raise ValidationError("must have a letter or a digit", field="key")
    if is_sentence(str(name)):
        raise ValidationError(f"must have at most {KEY_MAX} characters; a longer text is a memory", field="key")
    return key


def claim_of(found: Found, key: Key, extractor: str, now: int) -> Claim:
    """What a message says, as a claim; never dated in the future, or no later claim could replace it."""
    draft, message = found.draft, found.message
    over = draft.valid_to is not None and draft.valid_to <= message.when
    return Claim(
        key=key,
        value=draft.value,
        at=min(message.when, now),
        kind="ends" if draft.ends or over else "says",
        confidence=draft.confidence,
        status="learned",
        level=LEARNING if draft.data.get("level") == LEARNING else "",
        valid_from=draft.valid_from,
        valid_to=draft.valid_to,
        source=Source(message.id, message.scope.session, draft.span, message.data.get("role"), extractor),
        text=text_mark(message.content),
        trust=message.trust,
    )


def correction(claim: Claim, wrong: str, reason: str = "") -> list[Claim]:
    """A correction as claims: in a set, the wrong value and the right one have places of their own."""
    if claim.value and not claim.key.many:
        return [replace(claim, kind="corrects", instead_of=wrong, reason=reason)]
    denied = [replace(claim, kind="denies", value=wrong, reason=reason)] if wrong else []
    return [*denied, replace(claim, instead_of=wrong)] if claim.value else denied
