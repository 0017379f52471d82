"""A collector that others wrote (Rotel): receives traces over OTLP/HTTP and passes them on.

`collector.py PORT NEXT`. NEXT is the URL of another receiver, which gets what this one has read and
written anew, a moment later.
"""

import importlib.util
import os
import sys

port, following = sys.argv[1:]
(folder,) = importlib.util.find_spec("rotel").submodule_search_locations
agent = os.path.join(folder, "rotel-agent")
arguments = {
    "otlp-http-endpoint": f"127.0.0.1:{port}",
    # Nobody uses it, but it is always there.
    "otlp-grpc-endpoint": "127.0.0.1:0",
    "exporter": "otlp",
    "otlp-exporter-endpoint": following,
    "otlp-exporter-protocol": "http",
    "batch-timeout": "50ms",
}
os.execv(agent, [agent, "start", *(f"--{name}={value}" for name, value in arguments.items())])
