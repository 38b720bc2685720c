"""Everything Recollect raises, in one shallow tree.

    RecollectError
    ├── you asked for something impossible
    │   ├── ValidationError   a value is not allowed here
    │   │   └── TooLarge      a value is over its limit
    │   ├── NotFound          no such thing in this scope
    │   ├── Conflict          it changed meanwhile, or is already something else
    │   ├── Forbidden         this caller may not do that
    │   └── RateLimited       too many calls, come back later
    └── something outside failed
        ├── Unavailable       a store or service cannot be reached or written
        │   └── Busy          it is there, but another process holds it
        ├── Corrupt           stored data cannot be read as what it should be
        ├── EmbeddingError    the embedder failed or gave unusable vectors
        └── ModelError        the language model failed or gave an unusable answer

The docstring of a class is its default message. A message names the field and says what to do;
it never carries the content of a memory.
"""

from __future__ import annotations


class RecollectError(Exception):
    """Something went wrong in Recollect."""

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        text = message or (type(self).__doc__ or "").strip()
        self.field = field
        self.message = text
        super().__init__(f"{field}: {text}" if field else text)


class ValidationError(RecollectError):
    """A value is not allowed here. See docs/limits.md for what is."""


class TooLarge(ValidationError):
    """A value is over its limit. Split it, or see docs/limits.md."""


class NotFound(RecollectError):
    """There is no such thing in this scope. Check the id and the user it belongs to."""


class Conflict(RecollectError):
    """It changed since you read it, or the id or key is taken. Read it again and decide again."""


class Forbidden(RecollectError):
    """This caller may not do that. Use a handle or key of the right user or org."""


class RateLimited(RecollectError):
    """Too many calls. Wait and try again."""


class Unavailable(RecollectError):
    """The store or service cannot be reached or written. Check that it runs, then try again."""


class Busy(Unavailable):
    """Another process holds the store. Try again, or raise busy_timeout_s."""


class Corrupt(RecollectError):
    """The stored data cannot be read. Leave the file as it is and run `recollect doctor`."""


class EmbeddingError(RecollectError):
    """The embedder failed or returned unusable vectors. Words are still searchable."""

    after_s: float = 0.0
    """How long the embedder asks not to be called; work that needs it is retried after that."""


class ModelError(RecollectError):
    """The language model failed or returned an unusable answer. The message itself is kept."""

    tokens: int | None = None
    """What the request cost, 0 if the model was not reached; None if that is not known."""
