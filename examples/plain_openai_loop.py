# pip install . openai && python examples/plain_openai_loop.py
"""A chat loop with a tool on the plain `openai` client: the memory keeps calls and results together.

With OPENAI_API_KEY it asks OpenAI (OPENAI_MODEL selects the model). Without it, a scripted stand-in answers in place of
the client, and says so.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any

from recollect.sync import Memory, Session

MODEL = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def weather(city: str) -> str:
    return f"It rains in {city}."


def stand_in(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands in for a model: asks for the weather once, then repeats what the tool said."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"(a stand-in) {last['content']} Take an umbrella."}
    if "weather" in str(last["content"]):
        city = "Porto" if "Porto" in json.dumps(messages) else "your city"
        function = {"name": "weather", "arguments": json.dumps({"city": city})}
        return {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    return {"role": "assistant", "content": "(a stand-in) Noted."}


def complete(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The model's next message."""
    if not os.environ.get("OPENAI_API_KEY"):
        return stand_in(messages)
    client = import_module("openai").OpenAI()
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    kept = {"role", "content", "tool_calls"}  # the fields that may be sent back
    message: dict[str, Any] = answer.choices[0].message.model_dump(include=kept, exclude_none=True)
    return message


def turn(chat: Session, said: str) -> str:
    """One turn: context, tool calls until there are none, the answer; each message is stored as it comes."""
    messages = chat.get_context(said, max_tokens=3_000).to_openai()
    chat.add_message("user", said)
    while True:
        message = complete(messages)
        calls = message.get("tool_calls")
        chat.add_message("assistant", message.get("content"), tool_calls=calls)
        messages.append(message)
        if not calls:
            return str(message["content"])
        for call in calls:
            result = weather(**json.loads(call["function"]["arguments"]))
            chat.add_message("tool", result, tool_call_id=call["id"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def main() -> None:
    with Memory.open("sqlite:///plain_loop.db", model=MODEL) as memory:
        ann = memory.user("ann")
        for session, said in (
            ("monday", "I'm Ann. I live in Porto."),
            ("tuesday", "How is the weather where I live?"),
        ):
            print(f"{session}: {said}\n  {turn(ann.session(session, agent='assistant'), said)}")


if __name__ == "__main__":
    main()
