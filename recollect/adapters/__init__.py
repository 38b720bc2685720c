"""What plugs into frameworks, and what the plugs share. A plug needs its framework, and all see the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import what an extra brings: where it is missing, the error says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        told = f'{error.name} is missing: pip install "recollect[{name}]"'
        raise ModuleNotFoundError(told, name=error.name, path=error.path) from error
