"""Any LangChain chat model. It is recognised by duck typing, so nothing of LangChain is imported here."""

from __future__ import annotations

import json
from typing import Any

from recollect.errors import ModelError
from recollect.models import Answer, Ask


class LangChainModel:
    """A LangChain chat model, using its own structured output where it has one."""

    def __init__(self, model: Any) -> None:
        self.name = f"langchain:{_name(model)}"
        self._model = model

    async def answer(self, ask: Ask) -> Answer:
        """The answer as text, even if the model returned it in its own structure."""
        messages = [{"role": each["role"], "content": each["content"]} for each in ask.messages]
        structured = self._structured(ask)
        try:
            given = await (structured or self._model).ainvoke(messages)
        except Exception as error:  # whatever the provider's package raises; its message may contain what was said
            raise ModelError(
                f"The model {self.name} failed ({type(error).__name__}). The messages are kept."
            ) from error
        raw = given.get("raw") if structured else given
        text = _json(given["parsed"]) if structured and given.get("parsed") is not None else _text(raw)
        usage = getattr(raw, "usage_metadata", None) or {}
        return Answer(text, usage.get("input_tokens"), usage.get("output_tokens"))

    def _structured(self, ask: Ask) -> Any:
        """The model bound to a schema; None if it cannot be, and has to be asked in words alone."""
        if ask.schema is None:
            return None
        try:
            return self._model.with_structured_output(dict(ask.schema), include_raw=True)
        except (NotImplementedError, AttributeError, TypeError, ValueError):
            return None


def _name(model: Any) -> str:
    for field in ("model_name", "model"):
        name = getattr(model, field, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def _json(parsed: Any) -> str:
    return json.dumps(parsed, ensure_ascii=False, default=str)


def _text(message: Any) -> str:
    """The text of a message, which some providers return in parts."""
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in parts)
