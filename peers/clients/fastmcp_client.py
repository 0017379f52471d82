"""A FastMCP client."""

import asyncio
import os

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

from driver import *


async def sample(messages, params, context):
    events["sampling"] += 1
    return SAMPLED


async def elicit(message, response_type, params, context):
    events["elicitation"] += 1
    return ELICITED


async def list_roots(context):
    events["roots"] += 1
    return ROOTS


kind, target, rest = arguments()
transport = {
    "--url": lambda: StreamableHttpTransport(target),
    "--sse": lambda: SSETransport(target),
    "--command": lambda: StdioTransport(target, rest, env=dict(os.environ)),
}[kind]()
client = Client(
    transport,
    mode=MODE,
    client_info=client_info("fastmcp"),
    sampling_handler=sample,
    elicitation_handler=elicit,
    roots=list_roots,
    message_handler=on_message,
)
operations = {
    "list_tools": lambda c: client.list_tools_mcp(),
    "call": lambda c: client.call_tool_mcp(
        c["tool"],
        c.get("args") or {},
        timeout=seconds(c),
        progress_handler=on_progress,
        meta=c.get("meta"),
    ),
    "list_resources": lambda c: client.list_resources_mcp(),
    "list_templates": lambda c: client.list_resource_templates_mcp(),
    "read": lambda c: client.read_resource_mcp(c["uri"]),
    "list_prompts": lambda c: client.list_prompts_mcp(),
    "get_prompt": lambda c: client.get_prompt_mcp(c["name"], c.get("args")),
    "complete": lambda c: client.complete_mcp(reference(c["ref"]), c["argument"]),
    "set_level": lambda c: client.set_logging_level(c["level"]),
    # FastMCP has no word for these.
    "subscribe": lambda c: client.session.subscribe_resource(c["uri"]),
    "listen": lambda c: listen(subscriptions.listen(client.session, **listen_filter(c))),
    "unlisten": lambda c: unlisten(),
    "ping": lambda c: client.session.send_ping(),
}
asyncio.run(serve(client, operations))
