//! `evergate import`: from the configuration of a client to one of ours.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::source::hint;
use crate::config::nearest;
use crate::exit_code::Failure;
use crate::import::{self, BadSource, Client, Input, Machine, Malformed};
use crate::{output, safe_write};

/// Make a configuration of what other MCP clients have configured.
///
/// Reads JSON (comments and trailing commas allowed), TOML and YAML. Says server by server what was understood and what
/// was dropped, and writes a file that `evergate serve` takes. Secrets stay where they are: the new file refers to
/// variables, and the report says which ones to set and where their values are.
///
/// A file that is malformed is reported with its position, and nothing is written; the exit code is 64.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// What to import: claude, claude-desktop, cursor, vscode, codex, zed, gemini, gh-aw, docker-agent, a file of any of
    /// them, or - for standard input. Everything that is found for this user and this folder if absent.
    #[arg(value_name = "CLIENT or FILE")]
    sources: Vec<String>,
    /// The project whose files are read, and whose servers are taken from files that have those of several.
    /// [default: the current folder]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// What to write: TOML if its name ends so, else JSON.
    #[arg(long, default_value = "evergate.json", value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
    /// Only say what would be written.
    #[arg(long)]
    dry_run: bool,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
}

// === impl Import ===

impl Import {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let ending = self.output.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if ["yaml", "yml"].contains(&ending.as_str()) {
            let shown = self.output.display();
            let text = format!("{shown}: a configuration is JSON or TOML; nothing was written");
            return Err(Failure::usage(text));
        }
        // Before anything is read: nobody wants a long report that ends so.
        if !self.dry_run && !self.force && self.output.symlink_metadata().is_ok() {
            return Err(self.in_the_way());
        }
        let mut machine = Machine::this();
        if let Some(project) = &self.project {
            machine.folder = std::path::absolute(project)?;
        }
        let (inputs, looked) = self.inputs(&machine)?;
        let imported = import::import(&inputs, &machine).map_err(|wrong| refused(&wrong))?;
        if imported.files.is_empty() {
            return Err(nothing_found(&looked, &inputs, &machine));
        }
        let environment = |name: &str| std::env::var(name).ok();
        if self.json {
            output::line(&import::as_json(&imported, &environment).to_string())?;
        } else {
            for line in import::as_text(&imported, &environment) {
                output::line(&line)?;
            }
        }
        if imported.servers.is_empty() {
            return Err(Failure::usage("no server could be taken: nothing was written".to_owned()));
        }
        let shown = self.output.display();
        let count = import::count(imported.servers.len());
        if self.dry_run {
            hint(&format!("\nevergate: a dry run: {shown} was not written ({count})"));
            return Ok(());
        }
        let document = if ending == "toml" {
            import::as_toml(&imported.document)
                .ok_or_else(|| Failure::usage(format!("{shown}: cannot be written as TOML")))?
        } else {
            imported.document
        };
        let written = if self.force {
            safe_write::replace(&self.output, &document)
        } else {
            safe_write::create(&self.output, &document)
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(self.in_the_way());
            }
            Err(error) => return Err(Failure::usage(format!("cannot write {shown}: {error}"))),
        }
        hint(&format!(
            "\nevergate: wrote {shown} ({count})\n  \
             tries every server:         evergate doctor --config {shown}\n  \
             serves them:                evergate serve --config {shown}\n  \
             points a client at that:    evergate connect CLIENT"
        ));
        Ok(())
    }

    fn in_the_way(&self) -> Failure {
        let shown = self.output.display();
        Failure::usage(format!(
            "{shown} is there already: --force replaces it, --output writes elsewhere"
        ))
    }

    /// Everything that is to be read, and where it was looked for.
    fn inputs(&self, machine: &Machine) -> Result<(Vec<Input>, Vec<PathBuf>), Failure> {
        let (mut wanted, mut looked) = (Vec::new(), Vec::new());
        let everything = Client::ALL.iter().map(|client| client.word().to_owned());
        let named: Vec<String> =
            if self.sources.is_empty() { everything.collect() } else { self.sources.clone() };
        for word in &named {
            match Client::named(word) {
                Some(client) => {
                    let places = client.places(machine);
                    looked.extend(places.iter().map(|place| place.file.clone()));
                    let there = places.into_iter().filter(|place| place.file.exists());
                    wanted.extend(there.map(|place| {
                        let folder = place.of_project.then(|| machine.folder.clone());
                        (client, place.file, folder)
                    }));
                }
                None if word == "-" || Path::new(word).exists() => {
                    let file = PathBuf::from(word);
                    let folder = project_of(&file, machine);
                    wanted.push((Client::Other, file, Some(folder)));
                }
                None => return Err(no_such(word)),
            }
        }
        let (mut inputs, mut seen) = (Vec::new(), HashSet::new());
        for (client, file, folder) in wanted {
            // The same file may be the user's and the project's, or be linked from elsewhere.
            let same = std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
            if !seen.insert(same) {
                continue;
            }
            let text = read(&file, machine).map_err(|error| {
                Failure::config(anyhow::Error::new(error).context("nothing was written"))
            })?;
            inputs.push(Input { client, file, folder, text });
        }
        Ok((inputs, looked))
    }
}

/// The project that a file belongs to: its folder, or the one above if that is a client's.
fn project_of(file: &Path, machine: &Machine) -> PathBuf {
    let whole = machine.folder.join(file);
    let folder = whole.parent().unwrap_or(&machine.folder);
    let hidden = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let project = if hidden { folder.parent() } else { None };
    project.unwrap_or(folder).to_owned()
}

fn read(file: &Path, machine: &Machine) -> Result<String, BadSource> {
    if file != Path::new("-") {
        return import::text_of(file, &machine.shown(file));
    }
    let shown = "standard input";
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(import::LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|source| BadSource::Unreadable { file: shown.to_owned(), source })?;
    if bytes.len() as u64 > import::LARGEST {
        return Err(BadSource::TooLarge { file: shown.to_owned() });
    }
    import::utf8(bytes, shown)
}

fn refused(wrong: &[Malformed]) -> Failure {
    let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    Failure::usage(format!(
        "nothing was written\n{}\nname the clients to import to leave a file out, as in: evergate import cursor",
        all.join("\n")
    ))
}

fn no_such(word: &str) -> Failure {
    let known: Vec<&str> = Client::ALL.iter().map(|client| client.word()).collect();
    let meant = nearest(word, known.iter().copied());
    let meant = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
    Failure::usage(format!(
        "{word:?} is neither a file nor a client{meant}; the clients are: {}",
        known.join(", ")
    ))
}

fn nothing_found(looked: &[PathBuf], inputs: &[Input], machine: &Machine) -> Failure {
    let mut text = String::from("no servers were found");
    if !looked.is_empty() {
        text.push_str("; these were looked at:");
        for file in looked {
            text.push_str("\n  ");
            text.push_str(&machine.shown(file));
        }
    }
    for input in inputs.iter().filter(|input| input.client == Client::Other) {
        text.push_str("\n  ");
        text.push_str(&machine.shown(&input.file));
        text.push_str(
            ": expected mcpServers at its top, or servers (VS Code), context_servers (Zed), mcp_servers (Codex), \
             or agents (docker-agent)",
        );
    }
    if machine.home.is_none() {
        text.push_str("\nHOME is not set, so files of the user were not looked for");
    }
    Failure::usage(text)
}
