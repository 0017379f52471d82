//! `evergate wrap`: one server, unchanged, that recovers.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use evergate_runtime::Settings;

use crate::config::{Config, Isolation, Server};
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
    pub(crate) async fn run(self) -> Result<(), Failure> {
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
        let server = Server { isolation: Isolation::PerClient, ..Server::plain(settings) };
        config.servers.insert(name.clone(), server);
        serve::pipes(config, Scope::One(Arc::from(name)), None, None).await
    }

    fn settings(&self) -> Result<(String, Settings), Failure> {
        let first = self.target.first().map(|first| first.to_string_lossy()).unwrap_or_default();
        let is_url = first.starts_with("http://") || first.starts_with("https://");
        let (name, mut settings) = if is_url {
            if self.target.len() > 1 {
                return Err(Failure::usage("nothing may follow the URL".into()));
            }
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
