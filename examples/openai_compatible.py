# python examples/openai_compatible.py
"""A chat loop with any OpenAI-compatible endpoint and nothing but the standard library.

Configure the endpoint, for instance OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_MODEL=llama3.2. Without one it
shows how many messages it would send.
"""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

from recollect.sync import Memory

BASE_URL = os.environ.get("OPENAI_BASE_URL", "")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")


def complete(messages: list[dict[str, Any]]) -> str:
    """The model's answer to a list of messages."""
    if not BASE_URL:
        return f"(messages to send: {len(messages)})"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
    body = json.dumps({"model": MODEL, "messages": messages}).encode()
    request = urllib.request.Request(f"{BASE_URL}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def main() -> None:
    with Memory.open("sqlite:///openai.db", model=MODEL) as memory:
        chat = memory.user("ann").session("monday", agent="assistant")
        for said in ("I'm Ann. I live in Porto.", "Which city do I live in?"):
            context = chat.get_context(said, max_tokens=2_000)
            answer = complete(context.to_openai())
            chat.add_interaction(said, answer)
            print(f"ann: {said}\nassistant: {answer}\n")


if __name__ == "__main__":
    main()
