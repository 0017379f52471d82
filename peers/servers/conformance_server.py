"""Fixtures of the conformance suite on the Python SDK, which speaks revisions with and without a handshake.

Streamable HTTP at the port in PORT. As many fixtures as the SDK makes easy; what is missing fails with and
without a gateway alike.
"""

import asyncio
import os

from mcp.server import MCPServer
from mcp.server.mcpserver import Audio, Context, Image
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)

MODERN = "2026-07-28"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cfc0f01f00050001ff89993d1d0000000049454e44ae426082"
)
SILENCE = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0"

server = MCPServer("python-conformance", version="1.0.0")
# Plain results: what a tool returns is its content and nothing besides.
tool = server.tool(structured_output=False)
image = Image(data=PIXEL, format="png")


def embedded(uri: str, text: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    return EmbeddedResource(type="resource", resource=contents)


@tool
def test_simple_text() -> str:
    """A text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Image:
    """An image."""
    return image


@tool
def test_audio_content() -> Audio:
    """A sound."""
    return Audio(data=SILENCE, format="wav")


@tool
def test_embedded_resource() -> EmbeddedResource:
    """A resource."""
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@tool
def test_multiple_content_types() -> list:
    """One of each."""
    return ["Multiple content types test:", image, embedded("test://mixed", "mixed")]


@tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Says how far it is."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


async def log(ctx: Context) -> str:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(said)
        await asyncio.sleep(0.05)
    return "done"


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Says what it does."""
    return await log(ctx)


@tool
async def test_logging_tool(ctx: Context) -> str:
    """Says what it does, if anybody wants to know."""
    return await log(ctx)


@tool
def test_error_handling() -> CallToolResult:
    """Fails."""
    said = TextContent(type="text", text="This tool intentionally returns an error for testing")
    return CallToolResult(content=[said], is_error=True)


def elicitation(message: str, **properties: dict) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": []}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


RESULTS = {ElicitRequest: ElicitResult, CreateMessageRequest: CreateMessageResult, ListRootsRequest: ListRootsResult}


async def ask(ctx: Context, state: str | None = None, **questions):
    """The answers, or the result that asks for them."""
    if ctx.protocol_version < MODERN:
        asked = [ctx.session.send_request(question, RESULTS[type(question)]) for question in questions.values()]
        return await asyncio.gather(*asked)
    responses = ctx.input_responses or {}
    if all(key in responses for key in questions):
        return [responses[key] for key in questions]
    return InputRequiredResult(input_requests=questions, request_state=state)


async def asked(ctx: Context, state: str | None = None, **questions):
    answers = await ask(ctx, state, **questions)
    return answers if isinstance(answers, InputRequiredResult) else " ".join(a.model_dump_json() for a in answers)


STRING = {"type": "string"}
NAME = elicitation("What is your name?", name=STRING)
CONFIRM = elicitation("Please confirm", ok={"type": "boolean"})


@tool
async def test_sampling(ctx: Context, prompt: str) -> str | InputRequiredResult:
    """Asks the model."""
    return await asked(ctx, message=sampling(prompt))


@tool
async def test_elicitation(ctx: Context, message: str) -> str | InputRequiredResult:
    """Asks the user."""
    return await asked(ctx, user=elicitation(message, username=STRING, email=STRING))


@tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks the user."""
    return await asked(ctx, user_name=NAME)


@tool
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    """Asks the model."""
    return await asked(ctx, capital_question=sampling("What is the capital of France?"))


@tool
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    """Asks for folders."""
    return await asked(ctx, client_roots=ListRootsRequest())


@tool
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    """Gives a state to bring back."""
    return await asked(ctx, "state", confirm=CONFIRM)


@tool
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    """Gives a state to bring back unchanged."""
    return await asked(ctx, "state", confirm=CONFIRM)


@tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    """Asks for everything."""
    questions = {"user_name": NAME, "greeting": sampling("Generate a greeting"), "client_roots": ListRootsRequest()}
    return await asked(ctx, "state", **questions)


@tool
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Asks twice."""
    step2 = elicitation("Step 2: What is your favorite color?", color=STRING)
    if ctx.protocol_version >= MODERN and ctx.request_state == "step 2":
        return await asked(ctx, "step 2", step2=step2)
    first = await asked(ctx, "step 1", step1=NAME)
    if isinstance(first, InputRequiredResult):
        return first
    return await asked(ctx, "step 2", step2=step2)


@tool
async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks the user."""
    return await asked(ctx, user_name=NAME)


@tool
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """Asks for what the client can do."""
    able = ctx.client_capabilities
    if able and able.sampling:
        return await asked(ctx, message=sampling("Say something"))
    return await asked(ctx, confirm=CONFIRM) if able and able.elicitation else "You cannot be asked."


@tool
async def test_missing_capability(ctx: Context) -> str | InputRequiredResult:
    """Needs a model."""
    able = ctx.client_capabilities
    if not (able and able.sampling):
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "there is no model", data)
    return await asked(ctx, message=sampling("Say something"))


@tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """A tool comes, or goes again."""
    toggle(server.add_tool, server.remove_tool, test_simple_text)
    await (ctx.notify_tools_changed() if ctx.protocol_version >= MODERN else ctx.session.send_tool_list_changed())
    return "changed"


TOGGLED = "test_toggled"
toggled = []


def toggle(add, remove, function):
    if toggled:
        toggled.pop()
        remove(TOGGLED)
    else:
        toggled.append(TOGGLED)
        add(function, name=TOGGLED)


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image."""
    return PIXEL


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    """Anything."""
    return f'{{"id":"{id}","templateTest":true}}'


@server.prompt()
def test_simple_prompt() -> str:
    """A text."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A text with something in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list:
    """A resource."""
    return [UserMessage(embedded(resourceUri, "Embedded resource content for testing."))]


@server.prompt()
def test_prompt_with_image() -> list:
    """An image."""
    return [UserMessage(image), UserMessage("Please analyze the image above.")]


@server.prompt()
async def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
    """Asks the user."""
    return await asked(ctx, user_context=elicitation("What context should the prompt use?", context=STRING))


@server.completion()
async def complete(ref, argument, context):
    """Nothing comes to mind."""
    return Completion(values=[], total=0, has_more=False)


server.run("streamable-http", host="127.0.0.1", port=int(os.environ["PORT"]))
