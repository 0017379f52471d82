//! Asking whoever owns the account, in the place of whom the suite says yes at once.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::Request;
use hyper::header::LOCATION;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::discovery::AuthorizationServer;
use super::http::Http;
use super::registration::Client;

/// Where a browser would be sent back to. Nothing listens there: what it would be told is read on the way.
pub(super) const REDIRECT: &str = "http://127.0.0.1:33418/callback";

/// What a token can be had for.
pub(super) struct Permit {
    pub(super) code: String,
    /// Shows that it was us who asked.
    pub(super) verifier: String,
}

pub(super) async fn ask(
    http: &Http,
    authority: &AuthorizationServer,
    client: &Client,
    resource: &str,
    scopes: &BTreeSet<String>,
) -> anyhow::Result<Permit> {
    let (state, verifier) = (random()?, random()?);
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let scope = scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let mut url = Url::parse(&authority.authorization_endpoint)?;
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("redirect_uri", REDIRECT)
        .append_pair("state", &state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", resource)
        .extend_pairs((!scope.is_empty()).then_some(("scope", scope)));
    let answer = http.send(Request::get(url.as_str()).body(<_>::default())?).await?;
    let status = answer.status();
    let location = answer.headers().get(LOCATION).filter(|_| status.is_redirection());
    let location = location.with_context(|| format!("{status} in place of a redirection"))?;
    let code = code_in(location.to_str()?, &state, authority)?;
    Ok(Permit { code, verifier })
}

/// The code, if the right one sent it in answer to what we asked.
fn code_in(location: &str, state: &str, authority: &AuthorizationServer) -> anyhow::Result<String> {
    let said = location.strip_prefix(REDIRECT).and_then(|rest| rest.strip_prefix('?'));
    let said = said.context("sent somewhere else")?.as_bytes();
    let mut said: HashMap<_, _> = url::form_urlencoded::parse(said).into_owned().collect();
    ensure!(said.get("state").is_some_and(|said| said == state), "an answer to somebody else");
    // Compared as it is written: "clients MUST NOT apply [...] normalization before comparison".
    match said.get("iss") {
        Some(issuer) => ensure!(*issuer == authority.issuer, "an answer of {issuer}"),
        None => ensure!(
            !authority.authorization_response_iss_parameter_supported,
            "an answer that does not say whose"
        ),
    }
    if let Some(error) = said.get("error") {
        anyhow::bail!("refused: {error}");
    }
    said.remove("code").context("an answer without a code")
}

fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn authority(names_itself: bool) -> AuthorizationServer {
        let metadata = json!({
            "issuer": "http://as",
            "authorization_endpoint": "http://as/a",
            "token_endpoint": "http://as/t",
            "authorization_response_iss_parameter_supported": names_itself,
        });
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn only_the_right_answer_is_believed() {
        let good = |names_itself, answer: &str| {
            let location = format!("{REDIRECT}?{answer}");
            code_in(&location, "s", &authority(names_itself)).is_ok_and(|code| code == "c")
        };
        assert!(good(true, "code=c&state=s&iss=http%3A%2F%2Fas"));
        assert!(good(false, "code=c&state=s&iss=http%3A%2F%2Fas"));
        assert!(good(false, "code=c&state=s"));
        assert!(!good(true, "code=c&state=s"), "nobody's");
        assert!(!good(false, "code=c&state=s&iss=http%3A%2F%2Fas%2F"), "somebody else's");
        assert!(!good(false, "code=c&state=t"), "to another question");
        assert!(!good(false, "code=c"), "to no question");
        assert!(!good(false, "code=c&state=s&error=access_denied"), "a refusal");
        assert!(!good(false, "state=s"), "empty");
        assert!(
            code_in("http://127.0.0.1:33418/x?code=c&state=s", "s", &authority(false)).is_err()
        );
    }
}
