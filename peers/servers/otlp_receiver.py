"""Receives traces over OTLP/HTTP and reads them with OpenTelemetry's own definitions.

`otlp_receiver.py PORT LOG`. Every span becomes a line of JSON in the file LOG. What the official
package cannot read, or says that it does not know, is refused with 400 and a line with `problem`.
"""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

port, log = sys.argv[1:]


def write(line):
    with open(log, "a", buffering=1) as file:
        file.write(json.dumps(line) + "\n")


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def line(resource, scope, span):
    return {
        "service": attributes(resource.attributes).get("service.name"),
        "resource": attributes(resource.attributes),
        "scope": scope.name,
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "name": span.name,
        "kind": Span.SpanKind.Name(span.kind),
        "began": span.start_time_unix_nano,
        "ended": span.end_time_unix_nano,
        "attributes": attributes(span.attributes),
        "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links],
        "status": Status.StatusCode.Name(span.status.code),
        "message": span.status.message,
    }


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["content-encoding"] == "gzip":
            body = gzip.decompress(body)
        problem = None
        if self.path != "/v1/traces" or self.headers["content-type"] != "application/x-protobuf":
            problem = f"{self.path} {self.headers['content-type']}"
        else:
            request = ExportTraceServiceRequest()
            try:
                request.ParseFromString(body)
            except Exception as error:
                problem = str(error)
            # Whatever it does not know is dropped by this: then it is shorter.
            request.DiscardUnknownFields()
            if problem is None and request.ByteSize() != len(body):
                problem = f"{request.ByteSize()} of {len(body)} bytes are known"
        if problem is not None:
            write({"problem": problem})
        else:
            for resource_spans in request.resource_spans:
                for scope_spans in resource_spans.scope_spans:
                    for span in scope_spans.spans:
                        write(line(resource_spans.resource, scope_spans.scope, span))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(400 if problem else 200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver).serve_forever()
