//! From an entry of the configuration to what the runtime is told.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use evergate_runtime::Settings;
use tokio::time::Instant;

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

pub(crate) fn of(server: &Server) -> Settings {
    let mut settings = server.settings.clone();
    if server.disabled {
        settings = settings.disabled();
    }
    if let Some(path) = &server.bearer_token_file {
        let file = TokenFile { path: path.clone(), known: Mutex::default() };
        settings = settings.header_source(move || {
            let header =
                file.token().map(|token| ("authorization".into(), format!("Bearer {token}")));
            header.into_iter().collect()
        });
    }
    settings
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
