//! What an authorization server knows us as: what it was told beforehand, a document that describes us, or what it says
//! when we register.

use anyhow::Context as _;
use hyper::Request;
use serde::Deserialize;
use serde_json::json;

use super::authorization::REDIRECT;
use super::discovery::AuthorizationServer;
use super::http::Http;

/// What is known of us without our having registered.
#[derive(Deserialize)]
pub(crate) struct Known {
    client_id: String,
    client_secret: Option<String>,
}

/// What to show at one authorization server.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) proof: Proof,
}

/// How to show at the token endpoint that it is us.
#[derive(Clone)]
pub(super) enum Proof {
    None,
    Basic { secret: String },
    Post { secret: String },
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// The document that the suite takes for ours.
const OUR_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

const BASIC: &str = "client_secret_basic";
const POST: &str = "client_secret_post";
const NONE: &str = "none";

pub(super) async fn client(
    http: &Http,
    authority: &AuthorizationServer,
    known: Option<Known>,
) -> anyhow::Result<Client> {
    if let Some(Known { client_id: id, client_secret: secret }) = known {
        let proof = Proof::new(secret, choice(authority, &[BASIC, POST]));
        return Ok(Client { id, proof });
    }
    if authority.client_id_metadata_document_supported {
        return Ok(Client { id: OUR_DOCUMENT.into(), proof: Proof::None });
    }
    register(http, authority).await
}

async fn register(http: &Http, authority: &AuthorizationServer) -> anyhow::Result<Client> {
    let endpoint = authority.registration_endpoint.as_ref();
    let endpoint = endpoint.context("the authorization server takes no registrations")?;
    let method = choice(authority, &[NONE, BASIC, POST]);
    let metadata = json!({
        "client_name": "Evergate conformance client",
        "redirect_uris": [REDIRECT],
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    let request = Request::post(endpoint).header("content-type", "application/json");
    let registered = http.ask::<Registered>(request.body(metadata.to_string().into())?).await;
    let registered = registered.context("not registered")?;
    let method = registered.token_endpoint_auth_method.as_deref().unwrap_or(method);
    Ok(Client { id: registered.client_id, proof: Proof::new(registered.client_secret, method) })
}

/// The first that the authorization server takes. Nothing said means basic (RFC 8414 2).
fn choice<'a>(authority: &AuthorizationServer, preferred: &[&'a str]) -> &'a str {
    let taken = &authority.token_endpoint_auth_methods_supported;
    let first = preferred.iter().find(|method| taken.iter().any(|taken| taken == *method));
    first.copied().unwrap_or(BASIC)
}

// === impl Proof ===

impl Proof {
    fn new(secret: Option<String>, method: &str) -> Self {
        match (secret, method) {
            (Some(secret), POST) => Self::Post { secret },
            (Some(secret), BASIC) => Self::Basic { secret },
            _ => Self::None,
        }
    }
}
