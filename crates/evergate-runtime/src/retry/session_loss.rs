//! Does this answer mean that the server forgot our session?
//!
//! The specification has one sign, 404. Servers in the field have a dozen. Each is a row here, with where it was seen; nothing else in the runtime looks at status codes or wordings for this purpose.

/// What binds a connection to its server, and can be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bond {
    /// A session, whose id went with the request.
    Session,
    /// A handshake that gave no id.
    Handshake,
    /// Nothing but that the server understood such requests before, which have no handshake.
    Revision,
}

/// What came back for a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) status: u16,
    /// The JSON-RPC error code, if the body held one.
    pub(crate) code: Option<i64>,
    /// The JSON-RPC error message, or the start of the body.
    pub(crate) text: &'a str,
}

/// What it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionSign {
    /// The session is gone; the request was not executed.
    Lost,
    /// It may be gone, or the request was bad: a second handshake decides.
    Doubtful,
    /// The answer is about something else.
    Fine,
}

struct Row {
    status: u16,
    code: Option<i64>,
    /// Lower case; found anywhere in the text.
    wording: &'static str,
    sign: SessionSign,
    #[cfg_attr(not(test), expect(dead_code, reason = "documents the row, printed by its test"))]
    seen_on: &'static str,
}

/// A 5xx or 401 says nothing about sessions unless its wording does, and then only in these shapes; 500 never.
const fn row(
    status: u16,
    code: Option<i64>,
    wording: &'static str,
    sign: SessionSign,
    seen_on: &'static str,
) -> Row {
    Row { status, code, wording, sign, seen_on }
}

/// First match decides.
static ROWS: &[Row] = {
    use SessionSign::{Doubtful, Fine, Lost};
    &[
        row(404, None, "", Lost, "the specification; TypeScript and Python SDKs, FastMCP"),
        // Answers of the stateless revision: about the request, whatever their status.
        row(400, Some(-32020), "", Fine, "2026-07-28 servers: header mismatch"),
        row(400, Some(-32021), "", Fine, "2026-07-28 servers: missing client capability"),
        // We did send one: something between us strips the header, and a new session would fare no better.
        row(
            400,
            None,
            "missing mcp-session-id",
            Fine,
            "a header lost on the way; 1mcp-app/agent#550 leaves it alone too",
        ),
        row(400, None, "mcp-session-id header is required", Fine, "the same"),
        row(400, None, "session not found", Lost, "older Python SDK (python-sdk#1004)"),
        row(400, None, "session missing", Lost, "the Go SDK's wording, matched by docker-agent"),
        row(400, None, "unknown mcp-session-id", Lost, "1mcp-app/agent#550"),
        row(400, None, "could not find session", Lost, "1mcp-app/agent#550"),
        row(
            400,
            None,
            "invalid or expired session",
            Lost,
            "reported to gh-aw-mcpg, server not recorded",
        ),
        row(
            400,
            None,
            "no valid session id",
            Lost,
            "server-everything, Atlassian MCP, mcphub, affine",
        ),
        row(
            400,
            None,
            "server not initialized",
            Lost,
            "TypeScript SDK after a restart (claude-code#17412)",
        ),
        row(400, None, "", Doubtful, "any other 400 (opencode#32809)"),
        row(401, None, "session not found", Lost, "old rmcp servers (rust-sdk#559)"),
        row(422, None, "expect initialize request", Lost, "rmcp servers after a restart"),
        row(503, None, "session not found", Lost, "neotoma"),
        // An answer with 200 may come from a tool that ran, and these codes have other meanings too: the words must be
        // about sessions, and where the code is also a time-out's, say that there is none.
        row(200, Some(-32600), "session", Lost, "agent-wiki; kimi-code#2380"),
        row(
            200,
            Some(-32001),
            "session not found",
            Lost,
            "the TypeScript SDK's code with 200, server not recorded",
        ),
        row(200, Some(-32015), "session", Lost, "matched by mcp-gateway, server not recorded"),
    ]
};

/// The server has no handshake, or not this revision: with this code wherever it comes from.
const UNSUPPORTED_VERSION: i64 = -32022;
/// What a server of 2026-07-28 says about a request, whatever the status.
const ABOUT_THE_REQUEST: [i64; 5] = [-32020, -32021, -32601, -32602, -32603];
/// How servers that have sessions ask for one.
const WANTS_A_SESSION: [&str; 3] = ["session", "initializ", "protocol version"];

// === impl Evidence ===

impl Evidence<'_> {
    pub(crate) fn sign(&self, bond: Bond) -> SessionSign {
        match bond {
            // It has come back as another, or always was: a new beginning finds out.
            _ if self.code == Some(UNSUPPORTED_VERSION) => SessionSign::Lost,
            Bond::Session => self.sign_of_session(),
            Bond::Handshake => SessionSign::Fine,
            Bond::Revision => self.sign_of_revision(),
        }
    }

    /// Does this server, which had no handshake, now want one?
    fn sign_of_revision(&self) -> SessionSign {
        if self.code.is_some_and(|code| ABOUT_THE_REQUEST.contains(&code)) {
            return SessionSign::Fine;
        }
        let text = self.text.to_lowercase();
        let wants_a_session = WANTS_A_SESSION.iter().any(|word| text.contains(word));
        match (self.status, self.code) {
            (400 | 404 | 405 | 422, _) if wants_a_session => SessionSign::Lost,
            // Of the codes that servers make up themselves these are what SDKs say before a handshake.
            (400 | 404 | 405 | 422, None | Some(-32000 | -32001 | -32600)) => SessionSign::Doubtful,
            (200, Some(-32000 | -32002 | -32600)) if text.contains("not initialized") => {
                SessionSign::Lost
            }
            _ => SessionSign::Fine,
        }
    }

    /// The table's answer.
    fn sign_of_session(&self) -> SessionSign {
        let text = self.text.to_lowercase();
        ROWS.iter()
            .find(|row| {
                row.status == self.status
                    && row.code.is_none_or(|code| Some(code) == self.code)
                    && text.contains(row.wording)
            })
            .map_or(SessionSign::Fine, |row| row.sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row is reached by an answer made from it, so no row hides behind an earlier one.
    #[test]
    fn each_row_decides_its_own_case() {
        for row in ROWS {
            let evidence = Evidence {
                status: row.status,
                code: row.code,
                text: &format!("Bad Request: {} (id 1)", row.wording.to_uppercase()),
            };
            assert_eq!(
                evidence.sign(Bond::Session),
                row.sign,
                "{} {:?} {}",
                evidence.text,
                row.status,
                row.seen_on
            );
        }
    }

    #[test]
    fn other_failures_are_not_session_loss() {
        let cases = [
            (500, None, "session not found"),
            (401, None, "unauthorized"),
            (401, None, "invalid_token"),
            (403, None, "session not found"),
            (200, Some(-32602), "unknown tool: session"),
            (200, Some(-32600), "invalid request"),
            (200, Some(-32001), "request timed out in session 7"),
            (200, Some(-32015), "out of stock"),
            (200, None, "session not found"),
            (503, None, "overloaded"),
            (422, None, "unprocessable"),
            (400, Some(-32020), "session not found"),
        ];
        for (status, code, text) in cases {
            assert_eq!(
                Evidence { status, code, text }.sign(Bond::Session),
                SessionSign::Fine,
                "{status} {text}"
            );
        }
    }

    #[test]
    fn a_server_that_comes_back_as_another_is_told_from_one_that_dislikes_a_request() {
        use SessionSign::{Doubtful, Fine, Lost};
        let cases = [
            (400, Some(-32022), "unsupported", Lost),
            (200, Some(-32022), "unsupported", Lost),
            (400, Some(-32000), "Bad Request: Mcp-Session-Id header is required", Lost),
            (400, Some(-32000), "Bad Request: Server not initialized", Lost),
            (400, Some(-32600), "Bad Request: Missing session ID", Lost),
            (422, None, "Unexpected message, expect initialize request", Lost),
            (200, Some(-32002), "server not initialized", Lost),
            (404, None, "", Doubtful),
            (400, Some(-32000), "Bad Request", Doubtful),
            (404, Some(-32601), "Method not found", Fine),
            (400, Some(-32602), "unknown tool: session", Fine),
            (400, Some(-32020), "header mismatch", Fine),
            (400, Some(-31999), "the tool's own", Fine),
            (200, Some(-32000), "the session is full", Fine),
            (503, None, "session not found", Fine),
        ];
        for (status, code, text, sign) in cases {
            let evidence = Evidence { status, code, text };
            assert_eq!(evidence.sign(Bond::Revision), sign, "{status} {text}");
        }
        let evidence = Evidence { status: 400, code: Some(-32022), text: "" };
        assert_eq!(evidence.sign(Bond::Handshake), Lost);
        assert_eq!(evidence.sign(Bond::Session), Lost);
    }
}
