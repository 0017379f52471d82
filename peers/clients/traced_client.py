"""A client made with the Python SDK whose spans are written down.

`traced_client.py URL TOOL LOG`: calls the tool once, within a span of its own called `agent`.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from span_log import write_spans

url, tool, log = sys.argv[1:]
tracer = write_spans("traced-client", log)

from mcp import Client


async def main():
    async with Client(url) as client:
        with tracer.start_as_current_span("agent"):
            result = await client.call_tool(tool, {"text": "hello"})
    assert result.content[0].text == "hello", result


asyncio.run(main())
