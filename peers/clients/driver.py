"""What the drivers of both Python clients share: the little language in which the tests talk to a
client. README.md beside this file describes it.
"""

import asyncio
import collections
import json
import os
import sys
import warnings

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client import subscriptions

# Both clients warn of everything that the newest revision removes, and here it is used on purpose.
warnings.simplefilter("ignore")

events = collections.Counter()
handshakes = 0

NOTIFICATIONS = {
    "notifications/tools/list_changed": "tools_changed",
    "notifications/prompts/list_changed": "prompts_changed",
    "notifications/resources/list_changed": "resources_changed",
    "notifications/resources/updated": "resource_updated",
    "notifications/message": "log_message",
}

SAMPLED = types.CreateMessageResult(
    model="fixed", role="assistant", content=types.TextContent(type="text", text="sampled")
)
ELICITED = types.ElicitResult(action="accept", content={"name": "Ada"})
ROOTS = [types.Root(uri="file:///evergate", name="evergate")]


command_line = sys.argv[1:]
ERA = command_line[1] if command_line[:1] == ["--era"] else "legacy"
# Both clients call it so: `legacy` has a handshake, a revision has none, `auto` finds out.
MODE = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}[ERA]
command_line = command_line[2:] if command_line[:1] == ["--era"] else command_line


def client_info(name):
    return types.Implementation(name=f"evergate-peer-{name}", version="1.0.0")


def arguments():
    """The kind of transport, its target, and the arguments if that is a command."""
    match command_line:
        case ["--url" | "--sse" as kind, url]:
            return kind, url, []
        case ["--command", command, *rest]:
            return "--command", command, rest
    print("usage: [--era legacy|modern|auto] (--url URL | --sse URL | --command COMMAND [ARGUMENT]...)", file=sys.stderr)
    sys.exit(64)


async def on_message(message):
    if isinstance(message, Exception):
        events["transport_error"] += 1
    elif message.method != "notifications/progress":
        events[NOTIFICATIONS.get(message.method, message.method)] += 1


async def on_progress(*_):
    events["progress"] += 1


def seconds(command):
    return command.get("timeout_ms", 60_000) / 1000


def reference(ref):
    if ref["type"] == "ref/prompt":
        return types.PromptReference(**ref)
    return types.ResourceTemplateReference(**ref)


EVENTS = {
    subscriptions.ToolsListChanged: "tools_changed",
    subscriptions.PromptsListChanged: "prompts_changed",
    subscriptions.ResourcesListChanged: "resources_changed",
    subscriptions.ResourceUpdated: "resource_updated",
}

listening = set()


async def listen(opened):
    """Keeps the subscription open until it ends or `unlisten`, and counts what it brings."""
    acknowledged = asyncio.get_running_loop().create_future()

    async def keep():
        try:
            async with opened as subscription:
                acknowledged.set_result(subscription.honored)
                async for event in subscription:
                    events[EVENTS[type(event)]] += 1
            events["listen_ended"] += 1
        except asyncio.CancelledError:
            events["unlistened"] += 1
        except Exception as error:  # noqa: BLE001: whatever it is, the test should read it
            if acknowledged.done():
                events["listen_ended"] += 1
            else:
                acknowledged.set_exception(error)

    task = asyncio.create_task(keep())
    listening.add(task)
    task.add_done_callback(listening.discard)
    return await acknowledged


async def unlisten():
    for task in list(listening):
        task.cancel()
        await asyncio.wait([task])


def listen_filter(command):
    """The arguments of both clients for a filter as it is on the wire."""
    asked = command["filter"]
    return {
        "tools_list_changed": asked.get("toolsListChanged", False),
        "prompts_list_changed": asked.get("promptsListChanged", False),
        "resources_list_changed": asked.get("resourcesListChanged", False),
        "resource_subscriptions": asked.get("resourceSubscriptions", []),
    }


def count_handshakes():
    """Both clients go through this method, whatever makes them send a handshake."""
    initialize = ClientSession.initialize

    async def counted(session):
        global handshakes
        handshakes += 1
        return await initialize(session)

    ClientSession.initialize = counted


async def serve(client, operations):
    """Connects once, then does what standard input says. Commands run side by side."""
    count_handshakes()
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    connected = False
    running = set()
    try:
        async with client:
            connected = True
            server = client.session.server_info
            about = {"server": plain(server), "protocol": client.session.protocol_version}
            say({"ok": True, "result": {**about, "initialize": handshakes}})
            while line := await lines.readline():
                command = json.loads(line)
                if command["op"] == "close":
                    say({"id": command.get("id"), "ok": True, "result": {}})
                    break
                task = asyncio.create_task(answer(command, operations))
                running.add(task)
                task.add_done_callback(running.discard)
    except Exception as error:  # noqa: BLE001: whatever it is, the test should read it
        if not connected:
            say({"ok": False, "error": described(error)})
            os._exit(1)
    # Leaving is not what is tested here, and must not take longer than a test.
    os._exit(0)


async def answer(command, operations):
    line = {"id": command.get("id")}
    try:
        if command["op"] == "events":
            result = {**events, "initialize": handshakes}
            events.clear()
        else:
            result = plain(await operations[command["op"]](command))
        say({**line, "ok": True, "result": result})
    except Exception as error:  # noqa: BLE001: whatever it is, the test should read it
        say({**line, "ok": False, "error": described(error)})


def plain(result):
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {} if result is None else result


def described(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return {"code": error.code, "message": error.message, "data": error.data}
    return {"code": type(error).__name__, "message": str(error), "data": None}


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
