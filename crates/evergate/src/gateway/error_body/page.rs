//! The errors as a page, `docs/reference/errors.md`. Only a test writes it, and compares it afterwards.

use std::fmt::Write as _;
use std::path::Path;

use super::{
    CAME_TOO_LATE, HEADER_MISMATCH, INTERNAL, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
    MISSING_CAPABILITY, NOT_SENT, OUTCOME_UNKNOWN, PARSE_ERROR, REJECTED, RESOURCE_NOT_FOUND,
    RESULT_TOO_LARGE, Refusal, UNSUPPORTED_VERSION,
};

const INTRODUCTION: &str = "\
# Errors

<!-- generated from crates/evergate/src/gateway/error_body.rs; UPDATE_REFERENCE=1 cargo test -p evergate up_to_date writes it again -->

An error of a server passes through unchanged, whatever its code. What only a gateway can say has codes of its own, outside
of those that JSON-RPC and MCP keep for themselves. What to do about each is in the [runbook](../runbook.md).
";

const DATA: &str = "
Each of them has `data`:

| field | |
|---|---|
| `server` | whose call it was |
| `outcome` | `not_sent`, `rejected`, `unknown` or `answered`; see [reliability](../guide/reliability.md) |
| `retryable` | whether calling again can help without doing harm |
| `generation` | which connection to the server it was sent on; null if on none |
| `state` | the server's state when the call ended |
| `next_retry_ms` | when the next attempt to connect is planned |
| `hint` | what the client, or the person behind it, can do |
";

/// Our own.
const OWN: &[(i64, &str, &str)] = &[
    (NOT_SENT, "not_sent", "it did not reach the server; calling again is safe"),
    (REJECTED, "rejected", "the server refused it unexecuted"),
    (OUTCOME_UNKNOWN, "unknown", "it was sent and no answer came: it may have run"),
    (
        RESULT_TOO_LARGE,
        "answered",
        "it ran, and its result is larger than `gateway.max_result_bytes`",
    ),
];

/// Those of others that the gateway also uses itself.
const COMMON: &[(i64, &str)] = &[
    (PARSE_ERROR, "what was sent is not JSON"),
    (INVALID_REQUEST, "it is no request, or none that is allowed here and now; see below"),
    (METHOD_NOT_FOUND, "no such method"),
    (
        INVALID_PARAMS,
        "no such tool or prompt, parameters that are none, or a `requestState` that leads nowhere",
    ),
    (INTERNAL, "the gateway failed on this request: a mistake in it, please report it"),
    (RESOURCE_NOT_FOUND, "no server has this resource"),
    (HEADER_MISMATCH, "2026-07-28: the headers of a request say something else than its body"),
    (
        MISSING_CAPABILITY,
        "2026-07-28: the server needs something of the client that it did not say it can do",
    ),
    (
        UNSUPPORTED_VERSION,
        "2026-07-28: not a revision that is spoken here; `data.supported` has those that are",
    ),
];

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page +=
        "\n## What only a gateway can say\n\n| code | `data.outcome` | meaning |\n|---|---|---|\n";
    for (code, outcome, meaning) in OWN {
        // Writing to a string cannot fail, also below.
        let _ = writeln!(page, "| {code} | `{outcome}` | {meaning} |");
    }
    page += DATA;
    page += "\n## Codes of JSON-RPC and MCP\n\nWhere the gateway itself says them, and no server:\n\n\
             | code | meaning |\n|---|---|\n";
    for (code, meaning) in COMMON {
        let _ = writeln!(page, "| {code} | {meaning} |");
    }
    page += "\n## Requests that are refused\n\nBefore any server is concerned, with an HTTP status. Those that pass have a \
             `Retry-After` header.\n\n| status | code | message |\n|---|---|---|\n";
    let mut refusals = Refusal::ALL;
    refusals.sort_by_key(|refusal| refusal.status());
    for refusal in refusals {
        let (status, code) = (refusal.status().as_u16(), refusal.code());
        let _ = writeln!(page, "| {status} | {code} | {} |", refusal.message());
    }
    let _ = writeln!(
        page,
        "\nA connection that the gateway closes, since it was idle or the gateway ends, ends with a 408 ({NOT_SENT}) that nobody \
         asked for. To a request that was on its way it is the answer: {CAME_TOO_LATE}."
    );
    let _ = writeln!(
        page,
        "\nWhat is no HTTP/1.1 request, or one of which it is not clear where it ends, is told so ({INVALID_REQUEST}) with 400, 431 or \
         501, and the connection ends."
    );
    page
}

#[test]
fn the_reference_of_errors_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
    let page = page();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/errors.md is stale: UPDATE_REFERENCE=1 cargo test -p evergate up_to_date"
    );
}
