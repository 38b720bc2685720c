# pip install ".[mcp]" && python examples/mcp_desktop.py
"""What a desktop assistant does with `mcp_desktop.json`: it starts the configured command and uses its tools.

Pass another file in the same format to try your own. The home folder in ours is replaced by the current folder, so
that it runs anywhere.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

HOME_IN_OURS = "/home/ann"


def configured() -> StdioServerParameters:
    """The server from the file named on the command line, or from the one beside this program."""
    ours = Path(inspect.getfile(configured)).with_name("mcp_desktop.json")
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ours
    text = file.read_text(encoding="utf-8")
    if file == ours:
        text = text.replace(HOME_IN_OURS, Path.cwd().as_posix())
    server = json.loads(text)["mcpServers"]["recollect"]
    command = shutil.which(server["command"]) or str(Path(sys.executable).with_name(server["command"]))
    return StdioServerParameters(command=command, args=server["args"], env=server.get("env"))


async def main() -> None:
    async with Client(configured()) as assistant:
        tools = (await assistant.list_tools()).tools
        print(f"tools: {', '.join(tool.name for tool in tools)}")
        said = [{"role": "user", "content": "I'm Ann, and I water the plants on Fridays."}]
        await assistant.call_tool("add_messages", {"session": "monday", "messages": said})
    async with Client(configured()) as another:  # another assistant, another process, the same memory
        found = await another.call_tool("search_memory", {"query": "When do I water the plants?", "limit": 1})
        assert found.structured_content is not None
        print(f"found: {found.structured_content['memories'][0]['content']}")


if __name__ == "__main__":
    asyncio.run(main())
