"""A server made with the Python SDK whose spans are written down.

`traced_server.py (stdio | streamable-http) PORT LOG`; stdio ignores the port.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from span_log import write_spans

transport, port, log = sys.argv[1:]
write_spans("traced-server", log)

from mcp.server import MCPServer

server = MCPServer("traced-server")


@server.tool()
def echo(text: str) -> str:
    """Returns the text."""
    return text


if transport == "stdio":
    server.run("stdio")
else:
    server.run(transport, host="127.0.0.1", port=int(port))
