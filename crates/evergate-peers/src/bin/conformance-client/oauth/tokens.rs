//! Getting tokens for a code, or for a refresh token.

use anyhow::ensure;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::Request;
use serde::Deserialize;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::authorization::REDIRECT;
use super::discovery::AuthorizationServer;
use super::http::Http;
use super::registration::{Client, Proof};

/// What is given for tokens.
#[derive(Clone, Copy)]
pub(super) enum Grant<'a> {
    Code { code: &'a str, verifier: &'a str },
    Refresh { token: &'a str },
}

#[derive(Deserialize)]
pub(super) struct Granted {
    pub(super) access_token: String,
    token_type: String,
    pub(super) refresh_token: Option<String>,
}

pub(super) async fn get(
    http: &Http,
    authority: &AuthorizationServer,
    client: &Client,
    resource: &str,
    grant: Grant<'_>,
) -> anyhow::Result<Granted> {
    let request = Request::post(&authority.token_endpoint)
        .header("accept", "application/json")
        .header("content-type", "application/x-www-form-urlencoded");
    let mut form = Serializer::new(String::new());
    form.append_pair("resource", resource);
    match grant {
        Grant::Code { code, verifier } => form
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", REDIRECT)
            .append_pair("code_verifier", verifier),
        Grant::Refresh { token } => {
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token)
        }
    };
    let request = match &client.proof {
        Proof::Basic { secret } => request.header("authorization", basic(&client.id, secret)),
        Proof::Post { secret } => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
            request
        }
        Proof::None => {
            form.append_pair("client_id", &client.id);
            request
        }
    };
    let granted: Granted = http.ask(request.body(form.finish().into())?).await?;
    let kind = &granted.token_type;
    ensure!(kind.eq_ignore_ascii_case("bearer"), "tokens of the type {kind} are not known here");
    Ok(granted)
}

/// Both are encoded as in a form first (RFC 6749 2.3.1): either may contain a colon.
fn basic(id: &str, secret: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret));
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_a_colon_stays_apart_from_its_secret() {
        assert_eq!(basic("a:b", "c"), format!("Basic {}", BASE64_STANDARD.encode("a%3Ab:c")));
    }
}
