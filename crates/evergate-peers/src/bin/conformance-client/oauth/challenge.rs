//! What a server says when it wants a token, or a better one: the header `WWW-Authenticate`.
//!
//! The runtime does not pass it on, so the server is asked again for the sake of it.

use hyper::header::WWW_AUTHENTICATE;
use hyper::{HeaderMap, Request, StatusCode};
use serde_json::json;

use super::http::Http;

/// What is in it for us.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) resource_metadata: Option<String>,
    pub(super) scope: Option<String>,
    /// The token is good, but not for this.
    pub(super) insufficient_scope: bool,
}

/// Has the server refuse a method once more. `None` if it does not, or not for want of a token.
pub(super) async fn ask(
    http: &Http,
    server: &str,
    method: &str,
    token: Option<String>,
) -> anyhow::Result<Option<Challenge>> {
    let mut request = Request::post(server)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    // Without params, so that nothing comes of it should the server let it pass.
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    let response = http.send(request.body(message.to_string().into())?).await?;
    let challenge = read(response.headers());
    Ok(match response.status() {
        StatusCode::UNAUTHORIZED => Some(Challenge { insufficient_scope: false, ..challenge }),
        StatusCode::FORBIDDEN if challenge.insufficient_scope => Some(challenge),
        _ => None,
    })
}

fn read(headers: &HeaderMap) -> Challenge {
    let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let params = values.filter_map(|value| value.get(..7).map(|scheme| (scheme, &value[7..])));
    let bearer = params.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer "));
    let mut challenge = Challenge::default();
    for (name, value) in bearer.flat_map(|(_, params)| parameters(params)) {
        match &*name {
            "resource_metadata" => challenge.resource_metadata = Some(value),
            "scope" => challenge.scope = Some(value),
            "error" => challenge.insufficient_scope = value == "insufficient_scope",
            _ => {}
        }
    }
    challenge
}

/// `name="value", name=value`
fn parameters(mut rest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_ascii_lowercase();
        let value;
        (value, rest) = if let Some(quoted) = after.strip_prefix('"') {
            unquoted(quoted)
        } else {
            let (value, rest) = after.split_once(',').unwrap_or((after, ""));
            (value.trim().to_owned(), rest)
        };
        found.push((name, value));
    }
    found
}

/// The text up to the closing quote, and what comes after that.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(header: &str) -> Challenge {
        let mut headers = HeaderMap::new();
        headers.insert(WWW_AUTHENTICATE, header.parse().unwrap());
        read(&headers)
    }

    #[test]
    fn a_challenge_is_read_whatever_its_order_and_quoting() {
        let read = challenge(
            r#"Bearer error=insufficient_scope, error_description="a \"b\", c=d", scope="a b",resource_metadata="http://h/x?a=b""#,
        );
        assert_eq!(
            read,
            Challenge {
                resource_metadata: Some("http://h/x?a=b".into()),
                scope: Some("a b".into()),
                insufficient_scope: true,
            }
        );
    }

    #[test]
    fn other_schemes_and_broken_challenges_say_nothing() {
        for header in ["Basic realm=\"x\"", "Bearer", "Bearer ", "x", "Bearer scope"] {
            assert_eq!(challenge(header), Challenge::default(), "{header}");
        }
    }
}
