//! Logs, on standard error: one line, or one object, for each thing that happened.
//!
//! What is logged can be changed while the program runs. A place in the code that is not logged costs one load of an
//! atomic: the filter is only asked when it changes.

pub(crate) mod seldom;
pub(crate) mod streak;

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// What to log cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadDirective {
    #[error("says nothing: give a level, as in \"debug\" or \"info,evergate_runtime=trace\"")]
    Empty,
    #[error("is longer than {MAX_DIRECTIVES} characters")]
    TooLong,
    #[error("{0:?} is not a level: give off, error, warn, info, debug or trace")]
    Level(String),
    #[error("{0:?} is not the name of a module, as in \"evergate_runtime=trace\"")]
    Target(String),
    #[error("cannot be used: {0}")]
    Other(String),
    #[error("this process does not log")]
    NotStarted,
}

/// Directives are typed by people; what is longer was not meant for us.
const MAX_DIRECTIVES: usize = 1000;

/// The process has one log, as it has one standard error.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts logging. Without a word from `RUST_LOG`, `level` is what is logged.
pub(crate) fn start(format: LogFormat, level: &str) {
    let asked = EnvFilter::try_from_default_env();
    let unusable = match &asked {
        Err(error) if std::env::var_os(EnvFilter::DEFAULT_ENV).is_some() => Some(error.to_string()),
        _ => None,
    };
    let filter = asked.unwrap_or_else(|_| EnvFilter::new(level));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => {
            lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed()
        }
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    // Only a second start would find it set, and `init` does not survive that.
    let _ = FILTER.set(handle);
    if let Some(error) = unusable {
        tracing::warn!(error, level, "RUST_LOG cannot be used");
    }
}

/// What is logged now, as directives that [`set_level`] takes.
pub(crate) fn current_level() -> String {
    let shown = FILTER.get().map(|filter| filter.with_current(ToString::to_string));
    match shown {
        Some(Ok(level)) if !level.is_empty() => level,
        _ => LevelFilter::OFF.to_string(),
    }
}

/// Logs this from now on: a level, levels of single modules, or both, as in `info,evergate_runtime=trace`.
pub(crate) fn set_level(directives: &str) -> Result<(), BadDirective> {
    let filter = parse(directives)?;
    let handle = FILTER.get().ok_or(BadDirective::NotStarted)?;
    handle.reload(filter).map_err(|error| BadDirective::Other(error.to_string()))
}

/// Stricter than `RUST_LOG`, where a misspelt level is taken for the name of a module, and everything else goes silent.
fn parse(directives: &str) -> Result<EnvFilter, BadDirective> {
    if directives.len() > MAX_DIRECTIVES {
        return Err(BadDirective::TooLong);
    }
    let mut used = Vec::new();
    for directive in directives.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let (target, level) = match directive.split_once('=') {
            Some((target, level)) => (Some(target.trim()), level.trim()),
            None => (None, directive),
        };
        let is_module = |target: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            !target.is_empty() && target.chars().all(fits)
        };
        if let Some(target) = target.filter(|target| !is_module(target)) {
            return Err(BadDirective::Target(target.to_owned()));
        }
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(BadDirective::Level(level.to_owned()));
        }
        used.push(target.map_or_else(|| level.to_owned(), |target| format!("{target}={level}")));
    }
    if used.is_empty() {
        return Err(BadDirective::Empty);
    }
    let used = used.join(",");
    EnvFilter::builder().parse(used).map_err(|error| BadDirective::Other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_level_and_levels_of_modules_are_understood() {
        for (given, meant) in [
            ("debug", "debug"),
            (" INFO ", "info"),
            ("warn, evergate_runtime::call = trace", "evergate_runtime::call=trace,warn"),
            ("off", "off"),
        ] {
            assert_eq!(parse(given).unwrap().to_string(), meant);
        }
    }

    #[test]
    fn what_is_misspelt_is_not_taken_for_the_name_of_a_module() {
        for (given, problem) in [
            ("", "says nothing"),
            (" , ", "says nothing"),
            ("inffo", "\"inffo\" is not a level"),
            ("debug,evergate_runtime=lots", "\"lots\" is not a level"),
            ("debug,evergate_runtime=", "\"\" is not a level"),
            ("=debug", "\"\" is not the name of a module"),
            ("a[b{c=d}]=debug", "is not the name of a module"),
        ] {
            let error = parse(given).unwrap_err().to_string();
            assert!(error.contains(problem), "{given:?}: {error}");
        }
        assert!(parse(&"debug,".repeat(1000)).is_err());
    }
}
