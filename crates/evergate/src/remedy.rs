//! What a person can do about a server, from what is known of its failure. `evergate doctor`, which tries servers, and the
//! running gateway, which keeps them, say the same.

/// For a server that is reached over the network. `error` is its newest failure, `target` where it is.
pub(crate) fn of_address(error: &str, target: &str) -> Option<String> {
    let error = error.to_ascii_lowercase();
    let is = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if is(&["connection refused"]) {
        let place = host(target)?;
        return Some(format!(
            "nothing listens at {place}: start the server, or correct the port of url"
        ));
    }
    if is(&["lookup address", "dns", "name or service not known", "no such host", "nodename"]) {
        let place = host(target)?;
        return Some(format!(
            "no address is known for {place}: check its spelling, the network and the DNS"
        ));
    }
    let hint = match () {
        () if is(&["invalidcontenttype", "corrupt message"]) => {
            "the server does not speak TLS there: write http instead of https in url"
        }
        () if is(&["certificate", "tls", "unknownissuer", "handshake failure", "invalid peer"]) => {
            "the certificate or the TLS of the server is not accepted: check the name in url, the clock, and whether \
             it should be http"
        }
        () if is(WRONG_PATH) => return wrong_path(target),
        () if is(&["http 429"]) => "the server wants fewer requests: wait, then try again",
        () if is(&["http 5"]) => "the server itself is in trouble: look at its logs",
        () => return None,
    };
    Some(hint.to_owned())
}

/// For a server that is left out because of a variable: the variable.
pub(crate) fn unset_variable(reason: &str) -> Option<&str> {
    reason.split("the environment variable ").nth(1)?.split(' ').next()
}

/// What is answered by those who are no MCP server.
const WRONG_PATH: &[&str] =
    &["http 404", "http 405", "text/html", "http 301", "http 302", "http 307", "http 308"];

fn wrong_path(target: &str) -> Option<String> {
    let url = target.strip_prefix("http: ")?.trim_end_matches('/');
    let (base, last) = url.rsplit_once('/').unwrap_or((url, ""));
    let instead = match last {
        "mcp" => format!("{base}/sse"),
        "sse" => format!("{base}/mcp"),
        _ => format!("{url}/mcp or {url}/sse"),
    };
    Some(format!("there is no MCP server at this path of url: try {instead}"))
}

/// The host and port of a server.
fn host(target: &str) -> Option<String> {
    let url = url::Url::parse(target.strip_prefix("http: ")?).ok()?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}{port}", url.host_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "http: http://127.0.0.1:3000/mcp";

    #[test]
    fn what_is_no_mcp_server_is_looked_for_at_another_path() {
        for error in ["could not connect: HTTP 405", "an answer of type text/html"] {
            let hint = of_address(error, HERE).unwrap();
            assert!(hint.contains("try http://127.0.0.1:3000/sse"), "{hint}");
        }
        let hint = of_address("HTTP 404", "http: http://h/api/").unwrap();
        assert!(hint.contains("try http://h/api/mcp or http://h/api/sse"), "{hint}");
    }

    #[test]
    fn where_nobody_listens_is_said() {
        let hint = of_address("tcp connect error: Connection refused (os error 111)", HERE);
        assert!(hint.unwrap().contains("nothing listens at 127.0.0.1:3000"));
        assert_eq!(of_address("Connection refused", "stdio: npx"), None);
        assert_eq!(of_address("the process ended", HERE), None);
    }

    #[test]
    fn the_variable_is_found_in_the_reason() {
        let reason = "mcpServers.a.env.KEY: the environment variable MISSING is not set";
        assert_eq!(unset_variable(reason), Some("MISSING"));
        assert_eq!(unset_variable("url: wants a URL"), None);
    }
}
