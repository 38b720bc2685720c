"""Everything that is logged meanwhile, as it would be written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Heard(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


@contextmanager
def hearing(name: str | None = None) -> Iterator[Heard]:
    """Listen to a logger and those below it, at their most verbose; without a name, to all."""
    heard, logger = Heard(), logging.getLogger(name)
    level = logger.level
    logger.addHandler(heard)
    logger.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        logger.setLevel(level)
        logger.removeHandler(heard)
