"""A small MCP server made with the Python SDK.

`python_server.py (stdio | streamable-http | sse) PORT LOG`; stdio ignores the port. Every executed
call of `counter` appends its `call_id` to the file LOG, which outlives the process.
"""

import asyncio
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations

transport, port, log = sys.argv[1:]
server = MCPServer("python-peer")
read_only = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=read_only)
def echo(text: str) -> str:
    """Returns the text."""
    return text


@server.tool(annotations=read_only)
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool(annotations=read_only)
async def slow(ctx: Context, ms: int, steps: int) -> str:
    """Takes a while and reports how far it is."""
    for step in range(steps):
        await asyncio.sleep(ms / steps / 1000)
        await ctx.report_progress(step + 1, steps)
    return "done"


@server.tool()
async def counter(call_id: str, ms: int = 0) -> str:
    """Counts, and makes no promise about being asked twice."""
    # One write per line, so that concurrent calls do not mix theirs.
    with open(log, "a", buffering=1) as file:
        file.write(f"{call_id}\n")
    await asyncio.sleep(ms / 1000)
    return call_id


@server.resource("peer://greeting")
def greeting() -> str:
    """A text that never changes."""
    return "hello"


@server.prompt()
def question(topic: str) -> str:
    """Asks about something."""
    return f"What is {topic}?"


if transport == "stdio":
    server.run("stdio")
else:
    server.run(transport, host="127.0.0.1", port=int(port))
