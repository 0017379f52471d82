//! `evergate wrap`: one server, unchanged, that recovers.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use evergate_runtime::Settings;

use crate::config::{Config, Isolation, LONGEST_DURATION, Server};
use crate::exit_code::Failure;
use crate::gateway::client::Scope;
use crate::serve;

/// Put before a server's command, or in place of its URL, in a client's configuration: the same server, but it recovers.
///
/// Where a client's configuration starts `npx -y some-server`, have it start `evergate wrap -- npx -y some-server`; where
/// it has a URL, `evergate wrap URL`. Names stay as they are. No configuration is read.
#[derive(Debug, Args, Clone)]
#[command(arg_required_else_help = true)]
pub(crate) struct Wrap {
    /// A header for every request to the URL, as in "Authorization: Bearer …". May be given more than once.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// How long a call may take, waiting for the server included, in seconds. [default: 60]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// The server's command with its arguments, or its URL.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND or URL"
    )]
    target: Vec<OsString>,
}

/// Clients wait at least this long for the answer to initialize, and the server may take its time to start.
const STARTUP_WAIT: Duration = Duration::from_secs(25);

// === impl Wrap ===

impl Wrap {
    pub(crate) async fn run(mut self) -> Result<(), Failure> {
        if self.is_url() {
            self.take_options_after_url()?;
        }
        let (name, settings) = self.settings()?;
        let problems = settings.problems(&name);
        if !problems.is_empty() {
            let problems: Vec<String> = problems
                .iter()
                .map(|problem| format!("{}: {}", problem.field, problem.message))
                .collect();
            return Err(Failure::usage(problems.join("\n")));
        }
        let mut config = Config::default();
        config.gateway.startup_wait = STARTUP_WAIT;
        // Without Evergate it would run as long as its client, whatever it keeps in mind.
        config.gateway.per_client_idle = LONGEST_DURATION;
        let server = Server { isolation: Isolation::PerClient, ..Server::plain(settings) };
        config.servers.insert(name.clone(), server);
        serve::pipes(config, Scope::One(Arc::from(name)), None, None).await
    }

    fn is_url(&self) -> bool {
        let first = self.target.first().map(|first| first.to_string_lossy()).unwrap_or_default();
        first.starts_with("http://") || first.starts_with("https://")
    }

    /// Whoever had another bridge in this place has its options after the URL. A command keeps what follows it.
    fn take_options_after_url(&mut self) -> Result<(), Failure> {
        let usage = |message: &str| Failure::usage(message.to_owned());
        let mut rest = self.target.split_off(1).into_iter();
        while let Some(word) = rest.next() {
            let word = word.to_string_lossy().into_owned();
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if !matches!(option, "--header" | "--timeout") {
                return Err(usage("nothing but --header and --timeout may follow the URL"));
            }
            let value = value.or_else(|| rest.next().and_then(|value| value.into_string().ok()));
            let value = value.ok_or_else(|| usage(&format!("{option} needs a value")))?;
            if option == "--header" {
                self.header.push(value);
            } else {
                let seconds =
                    value.parse().map_err(|_| usage("--timeout is a number of seconds"))?;
                self.timeout = Some(seconds);
            }
        }
        Ok(())
    }

    fn settings(&self) -> Result<(String, Settings), Failure> {
        let first = self.target.first().map(|first| first.to_string_lossy()).unwrap_or_default();
        let (name, mut settings) = if self.is_url() {
            ("server".to_owned(), Settings::http(first))
        } else {
            if !self.header.is_empty() {
                return Err(Failure::usage("--header is for a server at a URL".into()));
            }
            let name =
                Path::new(&*first).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let args = self.target.iter().skip(1);
            let command = self.target.first().cloned().unwrap_or_default();
            (name.map(|name| plain(&name)).unwrap_or_default(), Settings::stdio(command, args))
        };
        for header in &self.header {
            let Some((name, value)) = header.split_once(':') else {
                return Err(Failure::usage("a header must be written as \"Name: value\"".into()));
            };
            settings = settings.header(name.trim(), value.trim());
        }
        if let Some(seconds) = self.timeout {
            let timeout = Duration::from_secs(seconds);
            settings =
                settings.timeout(timeout).max_timeout(timeout.max(Duration::from_secs(3600)));
        }
        Ok((name, settings))
    }
}

/// Letters that a server's name may have.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(target: &[&str]) -> Wrap {
        let target = target.iter().map(OsString::from).collect();
        Wrap { header: vec!["A: 1".to_owned()], timeout: None, target }
    }

    #[test]
    fn options_may_follow_a_url() {
        let mut wrapped =
            wrap(&["http://h/mcp", "--header", "B: 2", "--timeout", "7", "--header=C: x=3"]);
        wrapped.take_options_after_url().unwrap();
        assert_eq!(wrapped.header, ["A: 1", "B: 2", "C: x=3"]);
        assert_eq!((wrapped.timeout, wrapped.target.len()), (Some(7), 1));
        let shown = format!("{:?}", wrapped.settings().unwrap().1);
        assert!(shown.contains("timeout: 7s"), "{shown}");
    }

    #[test]
    fn anything_else_after_a_url_is_refused() {
        let wrong: [&[&str]; 5] = [
            &["more"],
            &["--allow-http"],
            &["--header"],
            &["--timeout", "soon"],
            &["--header", "B: 2", "more"],
        ];
        for rest in wrong {
            let refused = wrap(&[&["http://h/mcp"], rest].concat()).take_options_after_url();
            assert!(refused.is_err(), "{rest:?}");
        }
    }
}
