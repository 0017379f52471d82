//! Finding out who hands out tokens for a server, and believing nobody who speaks for somebody else.

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use url::Url;

use super::challenge::Challenge;
use super::http::Http;

/// What a server says of itself (RFC 9728).
#[derive(Debug, Deserialize)]
pub(super) struct Resource {
    /// To be repeated as it is written: a parsed URL may end with a slash that this does not have.
    #[serde(rename = "resource")]
    pub(super) id: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

/// What an authorization server says of itself (RFC 8414).
#[derive(Debug, Deserialize)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    /// It names itself when it sends somebody back (RFC 9207).
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

// === impl Resource ===

impl Resource {
    /// Whom to ask for tokens.
    pub(super) fn issuer(&self) -> anyhow::Result<&str> {
        let first = self.authorization_servers.first();
        first.map(String::as_str).context("the server names nobody to ask for tokens")
    }
}

/// Where the challenge says; otherwise where it is usually found.
pub(super) async fn resource(
    http: &Http,
    server: &str,
    challenge: &Challenge,
) -> anyhow::Result<Resource> {
    let url = Url::parse(server)?;
    let places = match &challenge.resource_metadata {
        Some(place) => vec![place.clone()],
        None => resource_places(&url),
    };
    for place in places {
        let Some(found) = http.document::<Resource>(&place).await? else { continue };
        ensure!(covers(&found.id, &url), "{place} is about {}", found.id);
        return Ok(found);
    }
    bail!("the server does not say whom to ask for tokens")
}

pub(super) async fn authorization_server(
    http: &Http,
    issuer: &str,
) -> anyhow::Result<AuthorizationServer> {
    for place in authorization_server_places(&Url::parse(issuer)?) {
        let Some(found) = http.document::<AuthorizationServer>(&place).await? else { continue };
        // "If these values are not identical, the data contained in the response MUST NOT be used." (RFC 8414 3.3)
        ensure!(found.issuer == issuer, "{place} is about {}, not {issuer}", found.issuer);
        // "If `code_challenge_methods_supported` is absent, [...] MCP clients MUST refuse to proceed."
        let methods = &found.code_challenge_methods_supported;
        ensure!(methods.iter().any(|method| method == "S256"), "{issuer} knows no S256");
        return Ok(found);
    }
    bail!("{issuer} has no metadata")
}

fn resource_places(server: &Url) -> Vec<String> {
    let at_root = at_origin(server, "/.well-known/oauth-protected-resource");
    match path(server) {
        "" => vec![at_root],
        path => vec![format!("{at_root}{path}"), at_root],
    }
}

fn authorization_server_places(issuer: &Url) -> Vec<String> {
    let oauth = at_origin(issuer, "/.well-known/oauth-authorization-server");
    let openid = at_origin(issuer, "/.well-known/openid-configuration");
    match path(issuer) {
        "" => vec![oauth, openid],
        path => vec![
            format!("{oauth}{path}"),
            format!("{openid}{path}"),
            at_origin(issuer, &format!("{path}/.well-known/openid-configuration")),
        ],
    }
}

/// Whether what is published for `resource` may be used for the server: it is the server, or something it is a part of.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let rest = path(server).strip_prefix(path(&resource));
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

fn at_origin(url: &Url, path: &str) -> String {
    format!("{}{path}", url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn metadata_is_looked_for_below_the_path_first() {
        assert_eq!(
            resource_places(&url("http://h:1/a/mcp")),
            [
                "http://h:1/.well-known/oauth-protected-resource/a/mcp",
                "http://h:1/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(
            authorization_server_places(&url("https://h/t")),
            [
                "https://h/.well-known/oauth-authorization-server/t",
                "https://h/.well-known/openid-configuration/t",
                "https://h/t/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            authorization_server_places(&url("https://h/")),
            [
                "https://h/.well-known/oauth-authorization-server",
                "https://h/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn metadata_of_another_resource_is_not_ours() {
        let server = url("http://h:1/a/mcp");
        for ours in ["http://h:1", "http://h:1/", "http://h:1/a", "http://h:1/a/mcp"] {
            assert!(covers(ours, &server), "{ours}");
        }
        for other in ["http://h", "https://h:1/a/mcp", "http://h:1/a/m", "http://h:1/b", "a", ""] {
            assert!(!covers(other, &server), "{other}");
        }
    }
}
