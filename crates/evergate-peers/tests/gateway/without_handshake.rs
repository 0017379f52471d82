//! Clients of 2026-07-28, which has no handshake and no session, in front of servers of both eras.
//!
//! Each SDK that knows the revision is told to speak it, and where it connects in another way if it is left to find out by
//! itself, it comes a second time.

mod changes;
mod endings;
mod features;

use crate::support::*;

/// One test for each client, or two if it is also left to find out.
macro_rules! for_each_client {
    ($check:ident) => {
        for_each_client!($check:
            typescript_v2(TsV2, Modern), python_mcp(PythonMcp, Modern), fastmcp(FastMcp, Modern),
            rmcp(Rmcp, Modern),
        );
    };
    ($check:ident, finding_out) => {
        for_each_client!($check:
            typescript_v2(TsV2, Modern), typescript_v2_finds_out(TsV2, Auto),
            python_mcp(PythonMcp, Modern), python_mcp_finds_out(PythonMcp, Auto),
            fastmcp(FastMcp, Modern), fastmcp_finds_out(FastMcp, Auto),
            rmcp(Rmcp, Modern), rmcp_finds_out(Rmcp, Auto),
        );
    };
    ($check:ident: $($name:ident($kind:ident, $era:ident),)*) => {
        mod $check {
            use super::*;
            $(
                #[tokio::test]
                #[ignore = "needs npm peers; ./scripts/test runs it"]
                async fn $name() {
                    super::$check(ClientKind::$kind, Era::$era).await;
                }
            )*
        }
    };
}
use for_each_client;

/// Every server, by the name it has behind the gateway. The first speaks only revisions with a handshake.
fn servers() -> [(&'static str, Upstream); 5] {
    [
        ("everything", Upstream::everything_http()),
        ("old", Upstream::kit_fixtures("legacy")),
        ("kit", Upstream::kit_fixtures("both")),
        ("python", Upstream::python_fixtures()),
        ("rmcp", Upstream::rmcp_http()),
    ]
}

/// The names of the servers that have the fixtures of the conformance suite.
const FIXTURES: [&str; 3] = ["old", "kit", "python"];

async fn in_front_of(servers: &[(&'static str, Upstream)]) -> Gateway {
    let shown: Vec<_> = servers.iter().map(|(name, server)| (*name, server)).collect();
    Gateway::start(&shown).await
}
