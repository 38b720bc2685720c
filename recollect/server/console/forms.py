"""Forms as browsers send them, read once and strictly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request

from recollect.errors import TooLarge, ValidationError
from recollect.server.errors import Malformed, Refused
from recollect.server.routing import media_type_of

FORM_TYPE = "application/x-www-form-urlencoded"
FIELDS_MAX = 200
"""The most fields in one form: the longest is the order of fifty instructions."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, in the order in which they were sent."""

    fields: Sequence[tuple[str, str]] = ()

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for field, value in self.fields if field == name]

    def get(self, name: str) -> str:
        """The value of a field; empty if it was not sent."""
        found = self.all(name)
        if len(found) > 1:
            raise ValidationError("must be given once", field=name)
        return found[0] if found else ""

    def optional(self, name: str) -> str | None:
        """The value of a field, or None if nothing was filled in."""
        return self.get(name).strip() or None


async def read_form(request: Request) -> Form:
    """The form in the body of a request."""
    if media_type_of(request) != FORM_TYPE:
        raise Refused(415, f"must be {FORM_TYPE}", field="content-type")
    try:
        text = (await request.body()).decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except UnicodeDecodeError:
        raise Malformed("must be percent-encoded UTF-8", field="body") from None
    except ValueError:
        raise TooLarge(f"must have at most {FIELDS_MAX} fields", field="body") from None
    # Browsers end the lines of a text area with CR and LF, whatever was typed.
    return Form(tuple((name, value.replace("\r\n", "\n")) for name, value in fields))
