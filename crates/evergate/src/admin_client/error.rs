//! What can go wrong between the command line and a gateway, in words that say what to do.

use std::error::Error as StdError;
use std::io;

use http::StatusCode;
use hyper_util::client::legacy;

use crate::admin::model::ProblemBody;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Why there is no answer, or none that helps.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nobody listens.
    #[error("{}", nobody_there(url, *pid))]
    NobodyThere { url: String, pid: Option<u32> },
    /// It could not be connected to, for another reason.
    #[error("cannot connect to {url}")]
    Unreachable { url: String, source: BoxError },
    /// The connection broke before the answer was complete.
    #[error("the connection to {url} broke")]
    Broken { url: String, source: BoxError },
    /// It takes too long.
    #[error("{url} did not answer within {seconds} seconds")]
    Silent { url: String, seconds: u64 },
    /// 401.
    #[error("{}", key_needed(url, *sent))]
    KeyNeeded { url: String, sent: bool },
    /// 403: a key, or a name, that is not good enough.
    #[error("{url} refuses: {message}")]
    Forbidden { url: String, message: String },
    /// The gateway says why not.
    #[error("{}", .0.message)]
    Refused(ProblemBody),
    /// Somebody else lives there, or the API is elsewhere.
    #[error(
        "{url} has no admin API: if the gateway has an admin_listen, that is the address to give, else this is no Evergate, or one too old"
    )]
    NotTheApi { url: String },
    /// An error that is not the API's own.
    #[error("{url} answered {status}: is there something between here and the gateway?")]
    Status { url: String, status: StatusCode },
    /// Not what this version expects.
    #[error(
        "the answer of {url} cannot be understood: the gateway may be of another version than this program ({})",
        env!("CARGO_PKG_VERSION")
    )]
    Unreadable { url: String, source: serde_json::Error },
    /// It has characters that no header can have.
    #[error("the key has characters that cannot be sent")]
    KeyCannotBeSent,
    /// No certificates.
    #[error("cannot use https")]
    NoTls(#[source] rustls::Error),
}

fn nobody_there(url: &str, pid: Option<u32>) -> String {
    match pid {
        None => format!("nothing listens at {url}: is the gateway running?"),
        Some(pid) => format!(
            "the gateway at {url} (process {pid}) no longer listens there, and did not end in an orderly way: start it again"
        ),
    }
}

fn key_needed(url: &str, sent: bool) -> String {
    let problem = if sent {
        "does not know the key it was sent"
    } else {
        "wants a key, and there is none for it here"
    };
    format!(
        "{url} {problem}: give one with the scope \"admin\" in EVERGATE_KEY (or --key), or let this \
         command find the gateway by its --config or --state-dir as the user it runs as"
    )
}

// === impl ClientError ===

impl ClientError {
    pub(super) fn unreachable(url: &str, pid: Option<u32>, error: &legacy::Error) -> Self {
        let url = url.to_owned();
        let connecting = error.is_connect();
        match cause(error) {
            Some(io::ErrorKind::ConnectionRefused) => Self::NobodyThere { url, pid },
            // The layer around it only says "client error".
            _ if connecting => Self::Unreachable { url, source: Box::new(Told(chain(error))) },
            _ => Self::Broken { url, source: Box::new(Told(chain(error))) },
        }
    }

    /// Whether it makes sense to wait for the gateway to come back.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::NobodyThere { .. }
            | Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::Silent { .. }
            | Self::Status { .. } => true,
            Self::KeyNeeded { .. }
            | Self::Forbidden { .. }
            | Self::Refused(_)
            | Self::NotTheApi { .. }
            | Self::Unreadable { .. }
            | Self::KeyCannotBeSent
            | Self::NoTls(_) => false,
        }
    }

    /// Whether nobody is there at all.
    pub(crate) fn is_nobody_there(&self) -> bool {
        matches!(self, Self::NobodyThere { .. } | Self::Unreachable { .. })
    }
}

/// A cause that is known only by its text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Told(String);

/// What the system said, however deep.
fn cause(error: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        current = error.source();
    }
    None
}

/// Everything below the outermost layer, each said once.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut current = error.source();
    while let Some(error) = current {
        let text = error.to_string();
        if texts.last().is_none_or(|last| *last != text) {
            texts.push(text);
        }
        current = error.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}
