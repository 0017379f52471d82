//! Every stream of a client is an open file, and the usual limit of 1024 is soon reached.

/// More than the most connections that are accepted at once, with as many again for those to servers.
#[cfg(unix)]
const WANTED: u64 = 65_536;

/// What macOS grants (`OPEN_MAX`), although it says that there is no limit.
#[cfg(unix)]
const MODEST: u64 = 10_240;

/// Raises the limit as far as the system allows without asking anybody.
#[cfg(unix)]
pub(super) fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raise = |wanted: u64| {
        if limit.current.is_some_and(|current| current >= wanted) {
            return Ok(());
        }
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
    };
    if let Err(error) = raise(wanted).or_else(|_| raise(wanted.min(MODEST))) {
        tracing::warn!(%error, "cannot raise the limit of open files: many clients may be too many");
    }
}

#[cfg(not(unix))]
pub(super) fn raise_limit() {}
