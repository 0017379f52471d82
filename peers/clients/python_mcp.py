"""A client made with the Python SDK."""

import asyncio
import os

from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp_types import ListRootsResult

from driver import *


async def sample(context, params):
    events["sampling"] += 1
    return SAMPLED


async def elicit(context, params):
    events["elicitation"] += 1
    return ELICITED


async def list_roots(context):
    events["roots"] += 1
    return ListRootsResult(roots=ROOTS)


kind, target, rest = arguments()
server = {
    "--url": lambda: target,
    "--sse": lambda: sse_client(target),
    "--command": lambda: StdioServerParameters(command=target, args=rest, env=dict(os.environ)),
}[kind]()
client = Client(
    server,
    mode=MODE,
    client_info=client_info("python-mcp"),
    sampling_callback=sample,
    elicitation_callback=elicit,
    list_roots_callback=list_roots,
    message_handler=on_message,
)
operations = {
    "list_tools": lambda c: client.list_tools(),
    "call": lambda c: client.call_tool(
        c["tool"],
        c.get("args"),
        read_timeout_seconds=seconds(c),
        progress_callback=on_progress,
        meta=c.get("meta"),
    ),
    "list_resources": lambda c: client.list_resources(),
    "list_templates": lambda c: client.list_resource_templates(),
    "read": lambda c: client.read_resource(c["uri"]),
    "list_prompts": lambda c: client.list_prompts(),
    "get_prompt": lambda c: client.get_prompt(c["name"], c.get("args")),
    "complete": lambda c: client.complete(reference(c["ref"]), c["argument"]),
    "set_level": lambda c: client.set_logging_level(c["level"]),
    "subscribe": lambda c: client.subscribe_resource(c["uri"]),
    "listen": lambda c: listen(client.listen(**listen_filter(c))),
    "unlisten": lambda c: unlisten(),
    "ping": lambda c: client.send_ping(),
}
asyncio.run(serve(client, operations))
