//! A small OAuth client, such as who embeds the runtime brings along: the runtime sends the headers it is given and says
//! when a server refuses them, and gets them from here.
//!
//! Nobody is asked for consent: the suite's authorization endpoints answer at once with where to go.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context as _, ensure};

mod authorization;
mod challenge;
mod discovery;
mod http;
mod registration;
mod tokens;

use challenge::Challenge;
use discovery::{AuthorizationServer, Resource};
use http::Http;
use registration::Client;
pub(crate) use registration::Known;
use tokens::{Grant, Granted};

/// The way to tokens for one server.
pub(crate) struct Oauth {
    server: String,
    http: Http,
    known: Option<Known>,
    token: Token,
    /// What an authorization server knows us as is nobody else's business: by issuer.
    clients: HashMap<String, Client>,
    /// The scopes asked for last. Whoever needs one more must not lose the others.
    scopes: BTreeSet<String>,
    refresh: Option<Refresh>,
    rounds: u32,
}

/// The access token in use, if there is one. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Token(Arc<RwLock<Option<String>>>);

struct Refresh {
    issuer: String,
    token: String,
}

/// A server that refuses every token must not be asked for ever; three rounds are what the suite allows.
const MAX_ROUNDS: u32 = 3;

// === impl Oauth ===

impl Oauth {
    /// `known`: what we are known as without having registered.
    pub(crate) fn new(server: String, known: Option<Known>) -> Self {
        Self {
            server,
            http: Http::new(),
            known,
            token: Token::default(),
            clients: HashMap::new(),
            scopes: BTreeSet::new(),
            refresh: None,
            rounds: 0,
        }
    }

    pub(crate) fn token(&self) -> Token {
        self.token.clone()
    }

    /// Gets a token that is good for a method which the server refused. `false` if it was not for want of one.
    pub(crate) async fn authorize(&mut self, method: &str) -> anyhow::Result<bool> {
        let mut changed = false;
        while let Some(challenge) =
            challenge::ask(&self.http, &self.server, method, self.token.get()).await?
        {
            self.rounds += 1;
            ensure!(self.rounds <= MAX_ROUNDS, "the server refuses every token");
            self.answer(&challenge).await?;
            changed = true;
        }
        Ok(changed)
    }

    /// Gets another token. Whom to ask is found out anew each time: it may be somebody else now.
    async fn answer(&mut self, challenge: &Challenge) -> anyhow::Result<()> {
        let resource = discovery::resource(&self.http, &self.server, challenge).await?;
        let authority = discovery::authorization_server(&self.http, resource.issuer()?).await?;
        let client = self.client(&authority).await?;
        let granted = match self.renewed(challenge, &resource, &authority, &client).await {
            Some(granted) => granted,
            None => self.asked_for(challenge, &resource, &authority, &client).await?,
        };
        let Granted { access_token, refresh_token, .. } = granted;
        self.refresh = refresh_token.map(|token| Refresh { issuer: authority.issuer, token });
        self.token.set(access_token);
        Ok(())
    }

    async fn client(&mut self, authority: &AuthorizationServer) -> anyhow::Result<Client> {
        if let Some(client) = self.clients.get(&authority.issuer) {
            return Ok(client.clone());
        }
        // Whoever is asked first is who knows us. Nobody else is to see that secret.
        let known = self.known.take();
        let client = registration::client(&self.http, authority, known).await?;
        self.clients.insert(authority.issuer.clone(), client.clone());
        Ok(client)
    }

    /// What a refresh token is good for, where a token has just expired.
    async fn renewed(
        &mut self,
        challenge: &Challenge,
        resource: &Resource,
        authority: &AuthorizationServer,
        client: &Client,
    ) -> Option<Granted> {
        let refresh = self.refresh.take()?;
        if challenge.insufficient_scope || refresh.issuer != authority.issuer {
            return None;
        }
        let grant = Grant::Refresh { token: &refresh.token };
        let renewed = tokens::get(&self.http, authority, client, &resource.id, grant).await;
        // It may have expired as well; what it was good for can still be asked for.
        let mut renewed = renewed.ok()?;
        renewed.refresh_token.get_or_insert(refresh.token);
        Some(renewed)
    }

    /// What whoever owns the account grants.
    async fn asked_for(
        &mut self,
        challenge: &Challenge,
        resource: &Resource,
        authority: &AuthorizationServer,
        client: &Client,
    ) -> anyhow::Result<Granted> {
        let scopes = self.wanted(challenge, resource, authority);
        ensure!(
            !challenge.insufficient_scope || scopes != self.scopes,
            "the server wants scopes that were asked for already"
        );
        self.scopes = scopes;
        let resource = &resource.id;
        let asked = authorization::ask(&self.http, authority, client, resource, &self.scopes);
        let permit = asked.await.context("no authorization")?;
        let grant = Grant::Code { code: &permit.code, verifier: &permit.verifier };
        tokens::get(&self.http, authority, client, resource, grant).await.context("no token")
    }

    /// "Use `scope` parameter from the initial `WWW-Authenticate` header in the 401 response, if provided. If `scope` is
    /// not available, use all scopes defined in `scopes_supported` from the Protected Resource Metadata document."
    fn wanted(
        &self,
        challenge: &Challenge,
        resource: &Resource,
        authority: &AuthorizationServer,
    ) -> BTreeSet<String> {
        let mut wanted = self.scopes.clone();
        match &challenge.scope {
            Some(scope) => wanted.extend(scope.split_ascii_whitespace().map(str::to_owned)),
            None => wanted.extend(resource.scopes_supported.iter().cloned()),
        }
        // Where no scope is named, naming this one alone would be asking for less than the default.
        let offline = authority.scopes_supported.iter().find(|scope| *scope == "offline_access");
        if !wanted.is_empty() {
            wanted.extend(offline.cloned());
        }
        wanted
    }
}

// === impl Token ===

impl Token {
    /// The headers that carry it.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let token = self.get();
        token.map(|token| ("authorization".into(), format!("Bearer {token}"))).into_iter().collect()
    }

    fn get(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, token: String) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }
}
