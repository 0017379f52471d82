//! From an entry of the configuration to what the runtime is told.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use evergate_runtime::Settings;
use tokio::time::Instant;

use super::client::Client;
use crate::config::Server;

/// How often a token file is looked at, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A token that somebody else keeps fresh in a file.
struct TokenFile {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    token: Option<String>,
    modified: Option<SystemTime>,
    looked: Option<Instant>,
    complained: bool,
}

/// For a server that all clients share.
pub(crate) fn of(server: &Server) -> Settings {
    with_headers(server, |_| {})
}

/// For a server of one client's own: it sees the client's headers with every request, not only with its calls.
/// `idle` is how long it is kept without use.
pub(super) fn of_client(server: &Server, client: &Arc<Client>, idle: Duration) -> Settings {
    let (client, wanted) = (Arc::downgrade(client), server.headers_from_client.clone());
    let settings = with_headers(server, move |found| {
        let Some(headers) = client.upgrade().and_then(|client| client.headers()) else { return };
        for name in &wanted {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            found.extend(values.map(|value| (name.to_string(), value.to_owned())));
        }
    });
    kept_for(settings, idle)
}

/// A ping shortly before a connection is closed for being idle would keep it alive for nobody.
fn kept_for(settings: Settings, idle: Duration) -> Settings {
    let outlived = settings.pinged_every().is_some_and(|every| every.saturating_mul(2) > idle);
    if outlived { settings.ping_every(None) } else { settings }
}

fn with_headers(
    server: &Server,
    more: impl Fn(&mut Vec<(String, String)>) + Send + Sync + 'static,
) -> Settings {
    let mut settings = server.settings.clone();
    if server.disabled {
        settings = settings.disabled();
    }
    let token = server.bearer_token_file.as_ref();
    let token = token.map(|path| TokenFile { path: path.clone(), known: Mutex::default() });
    if token.is_none() && server.headers_from_client.is_empty() {
        return settings;
    }
    settings.header_source(move || {
        let mut headers = Vec::new();
        if let Some(token) = token.as_ref().and_then(TokenFile::token) {
            headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        more(&mut headers);
        headers
    })
}

/// Whether it can be in a header.
fn is_fit(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

// === impl TokenFile ===

impl TokenFile {
    /// The token as of now. A file that cannot be read leaves the last good token in use.
    fn token(&self) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN) {
            return known.token.clone();
        }
        known.looked = Some(Instant::now());
        let modified = std::fs::metadata(&self.path).and_then(|file| file.modified()).ok();
        if modified.is_some() && modified == known.modified {
            return known.token.clone();
        }
        match std::fs::read_to_string(&self.path) {
            Ok(text) => {
                known.token = Some(text.trim().to_owned()).filter(|token| is_fit(token));
                known.modified = modified;
                known.complained = false;
            }
            // Once, not with every request.
            Err(_) if known.complained => {}
            Err(error) => {
                known.complained = true;
                tracing::error!(file = %self.path.display(), %error, "cannot read the token file");
            }
        }
        known.token.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_soon_closed_is_not_pinged() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let pinged = |every, idle| {
            let settings = Settings::http("http://h/").ping_every(every);
            kept_for(settings, idle).pinged_every()
        };
        assert_eq!(pinged(Some(minutes(25)), minutes(30)), None);
        assert_eq!(pinged(Some(minutes(25)), minutes(360)), Some(minutes(25)));
        assert_eq!(pinged(Some(minutes(15)), minutes(30)), Some(minutes(15)));
        assert_eq!(pinged(Some(Duration::MAX), minutes(30)), None);
        assert_eq!(pinged(None, minutes(30)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_token_is_used_and_a_lost_file_is_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "first\n").unwrap();
        let file = TokenFile { path: path.clone(), known: Mutex::default() };
        assert_eq!(file.token().as_deref(), Some("first"));
        std::fs::write(&path, "second").unwrap();
        let later = SystemTime::now() + Duration::from_secs(5);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        assert_eq!(file.token().as_deref(), Some("first"), "looked at a moment ago");
        tokio::time::advance(LOOK_AGAIN).await;
        assert_eq!(file.token().as_deref(), Some("second"));
        std::fs::remove_file(&path).unwrap();
        tokio::time::advance(LOOK_AGAIN).await;
        assert_eq!(file.token().as_deref(), Some("second"));
    }
}
