//! Does this answer mean that the server forgot our session?
//!
//! The specification has one sign, 404. Servers in the field have a dozen. Each is a row here, with where it was seen; nothing else in the runtime looks at status codes or wordings for this purpose.
//!
//! What counts as a loss is sent again, so a sign must show that the request was not executed. A code alone does not:
//! before 2026-07-28 all of them are free for applications, and some of those speak of sessions of their own.

use crate::protocol::{RpcError, code};

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
    /// The error names the revisions that the server speaks.
    pub(crate) names_revisions: bool,
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

/// How servers that have sessions ask for one, with the codes of SDKs or with none.
const WANTS_A_SESSION: [&str; 3] = ["session", "initializ", "protocol version"];

// === impl Evidence ===

impl<'a> Evidence<'a> {
    pub(crate) fn of(status: u16, error: &'a RpcError) -> Self {
        let names_revisions = error.supported_revisions().is_some();
        Self { status, code: Some(error.code), text: &error.message, names_revisions }
    }

    pub(crate) fn sign(&self, bond: Bond) -> SessionSign {
        match bond {
            // It has come back as another, or always was: a new beginning finds out.
            _ if self.says_other_revisions() => SessionSign::Lost,
            Bond::Session => self.sign_of_session(),
            Bond::Handshake => SessionSign::Fine,
            Bond::Revision => self.sign_of_revision(),
        }
    }

    /// Has it no handshake, or not this revision? Said with the status and in the shape that the revision prescribes;
    /// anything less may come from an application that gave the code a meaning of its own.
    fn says_other_revisions(&self) -> bool {
        (self.status, self.code) == (400, Some(code::UNSUPPORTED_VERSION)) && self.names_revisions
    }

    /// Does this server, which had no handshake, now want one?
    fn sign_of_revision(&self) -> SessionSign {
        let text = self.text.to_lowercase();
        match (self.status, self.code) {
            // Of the codes that servers make up themselves these are what SDKs say before a handshake. With any other,
            // a session is one that the application knows of.
            (400 | 404 | 405 | 422, None | Some(-32000 | -32001 | -32600)) => {
                let wants_a_session = WANTS_A_SESSION.iter().any(|word| text.contains(word));
                if wants_a_session { SessionSign::Lost } else { SessionSign::Doubtful }
            }
            // It may come from a tool that ran, and much else may be not initialized.
            (200, Some(-32000 | -32001 | -32002 | -32600))
                if text.contains("server not initialized") =>
            {
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
                names_revisions: false,
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
            (200, Some(-32022), "unsupported"),
        ];
        for (status, code, text) in cases {
            for names_revisions in [false, true] {
                let evidence = Evidence { status, code, text, names_revisions };
                assert_eq!(evidence.sign(Bond::Session), SessionSign::Fine, "{evidence:?}");
            }
        }
    }

    #[test]
    fn a_server_that_comes_back_as_another_is_told_from_one_that_dislikes_a_request() {
        use SessionSign::{Doubtful, Fine, Lost};
        let cases = [
            (400, Some(-32022), "unsupported protocol version", Fine),
            (400, Some(-32050), "the checkout session expired", Fine),
            (404, Some(-31999), "no such session", Fine),
            (422, Some(7), "initialize the device first", Fine),
            (200, Some(-32000), "the device is not initialized", Fine),
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
            let evidence = Evidence { status, code, text, names_revisions: false };
            assert_eq!(evidence.sign(Bond::Revision), sign, "{evidence:?}");
        }
    }

    #[test]
    fn other_revisions_are_named_as_the_revision_prescribes_or_not_at_all() {
        use SessionSign::{Doubtful, Fine, Lost};
        for (bond, otherwise) in
            [(Bond::Session, Doubtful), (Bond::Handshake, Fine), (Bond::Revision, Fine)]
        {
            let sign = |status, names_revisions| {
                Evidence { status, code: Some(-32022), text: "", names_revisions }.sign(bond)
            };
            assert_eq!(sign(400, true), Lost, "{bond:?}");
            assert_eq!(sign(400, false), otherwise, "{bond:?}");
            assert_eq!(sign(200, true), Fine, "{bond:?}");
        }
    }
}
