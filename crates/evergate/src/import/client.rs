//! Which clients there are, and where each keeps its configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// Whose configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Client {
    Claude,
    ClaudeDesktop,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
    Codex,
    Zed,
    Gemini,
    GhAw,
    DockerAgent,
    /// A file with `mcpServers` that could be anybody's.
    #[value(skip)]
    Other,
}

/// Where people's files are. Taken from the process, or made up by a test.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) platform: Platform,
    pub(crate) home: Option<PathBuf>,
    /// The project: where the command was started.
    pub(crate) folder: PathBuf,
    /// Those variables that move files elsewhere.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// Containers can be started.
    pub(crate) has_docker: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Platform {
    Linux,
    MacOs,
    Windows,
}

/// A file that a client reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) file: PathBuf,
    /// It concerns the project, not the user.
    pub(crate) of_project: bool,
}

const VARIABLES: &[&str] =
    &["XDG_CONFIG_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "RUNNER_TEMP"];

/// Editions of VS Code, by the name of their folder.
const CODES: &[&str] = &["Code", "Code - Insiders", "VSCodium"];

// === impl Client ===

impl Client {
    pub(crate) const ALL: &[Self] = &[
        Self::Claude,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Codex,
        Self::Zed,
        Self::Gemini,
        Self::GhAw,
        Self::DockerAgent,
    ];

    /// As on the command line, and in names that must be told apart.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::Zed => "zed",
            Self::Gemini => "gemini",
            Self::GhAw => "gh-aw",
            Self::DockerAgent => "docker-agent",
            Self::Other => "file",
        }
    }

    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Codex => "Codex",
            Self::Zed => "Zed",
            Self::Gemini => "Gemini CLI",
            Self::GhAw => "gh-aw",
            Self::DockerAgent => "docker-agent",
            Self::Other => "an MCP client",
        }
    }

    /// The client of a word on the command line.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|client| client.word() == word)
    }

    /// Where it keeps its servers, the project's files first.
    pub(crate) fn places(self, machine: &Machine) -> Vec<Place> {
        let project = |names: &[&str]| -> Vec<Place> {
            let files = names.iter().map(|name| machine.folder.join(name));
            files.map(|file| Place { client: self, file, of_project: true }).collect()
        };
        let user = |files: Vec<Option<PathBuf>>| -> Vec<Place> {
            let files = files.into_iter().flatten();
            files.map(|file| Place { client: self, file, of_project: false }).collect()
        };
        let (mut places, users) = match self {
            Self::Claude => {
                let own = machine.variable("CLAUDE_CONFIG_DIR").or(machine.home.clone());
                (project(&[".mcp.json"]), vec![own.map(|own| own.join(".claude.json"))])
            }
            Self::ClaudeDesktop => {
                let base = machine.applications().map(|base| base.join("Claude"));
                (Vec::new(), vec![base.map(|base| base.join("claude_desktop_config.json"))])
            }
            Self::Cursor => {
                (project(&[".cursor/mcp.json"]), vec![machine.in_home(".cursor/mcp.json")])
            }
            Self::VsCode => {
                let base = machine.applications();
                let files = CODES.iter().flat_map(|code| {
                    let base = base.clone();
                    ["mcp.json", "settings.json"].map(|name| {
                        base.as_ref().map(|base| base.join(code).join("User").join(name))
                    })
                });
                (project(&[".vscode/mcp.json", ".vscode/settings.json"]), files.collect())
            }
            Self::Codex => {
                let own = machine.variable("CODEX_HOME").or(machine.in_home(".codex"));
                (project(&[".codex/config.toml"]), vec![own.map(|own| own.join("config.toml"))])
            }
            Self::Zed => {
                let own = match machine.platform {
                    // Not with other applications, but as on Linux.
                    Platform::MacOs => machine.in_home(".config/zed"),
                    Platform::Linux => machine.applications().map(|base| base.join("zed")),
                    Platform::Windows => machine.applications().map(|base| base.join("Zed")),
                };
                (project(&[".zed/settings.json"]), vec![own.map(|own| own.join("settings.json"))])
            }
            Self::Gemini => (
                project(&[".gemini/settings.json"]),
                vec![machine.in_home(".gemini/settings.json")],
            ),
            // Both get their file on the command line; these are the names that their documentation uses.
            Self::GhAw => {
                let temporary =
                    machine.variable("RUNNER_TEMP").unwrap_or_else(|| PathBuf::from("/tmp"));
                let file = temporary.join("gh-aw").join("mcp-config").join("mcp-servers.json");
                (project(&["gh-aw.json"]), vec![Some(file)])
            }
            Self::DockerAgent => {
                let names = ["agent.yaml", "agent.yml", "docker-agent.yaml", "cagent.yaml"];
                (project(&names), Vec::new())
            }
            Self::Other => (Vec::new(), Vec::new()),
        };
        places.extend(user(users));
        places
    }
}

// === impl Machine ===

impl Machine {
    /// The machine that this process runs on.
    pub(crate) fn this() -> Self {
        let platform = if cfg!(target_os = "macos") {
            Platform::MacOs
        } else if cfg!(windows) {
            Platform::Windows
        } else {
            Platform::Linux
        };
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = set(if platform == Platform::Windows { "USERPROFILE" } else { "HOME" });
        Self {
            platform,
            home: home.map(PathBuf::from).filter(|home| home.is_absolute()),
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            variables: VARIABLES.iter().filter_map(|name| Some((*name, set(name)?))).collect(),
            has_docker: crate::on_path::find("docker").is_some(),
        }
    }

    /// A path as people write it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        if path == Path::new("-") {
            return "standard input".to_owned();
        }
        if let Ok(inside) = path.strip_prefix(&self.folder) {
            return inside.display().to_string();
        }
        match self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            Some(inside) => format!("~/{}", inside.display()),
            None => path.display().to_string(),
        }
    }

    /// What clients that keep projects by their folders call this one: the folder, or the repository it is in.
    pub(crate) fn projects(&self) -> Vec<PathBuf> {
        let repository = self.folder.ancestors().find(|folder| folder.join(".git").exists());
        let folders = [Some(self.folder.as_path()), repository].into_iter().flatten();
        let spelled = folders.flat_map(|folder| {
            [Some(folder.to_owned()), std::fs::canonicalize(folder).ok()].into_iter().flatten()
        });
        spelled.collect()
    }

    fn in_home(&self, path: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(path))
    }

    /// Where applications keep what users set.
    fn applications(&self) -> Option<PathBuf> {
        match self.platform {
            Platform::Linux => self.variable("XDG_CONFIG_HOME").or(self.in_home(".config")),
            Platform::MacOs => self.in_home("Library/Application Support"),
            Platform::Windows => self.variable("APPDATA").or(self.in_home("AppData/Roaming")),
        }
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| PathBuf::from(value)).filter(|path| path.is_absolute())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(platform: Platform) -> Machine {
        Machine {
            platform,
            home: Some("/home/me".into()),
            folder: "/work".into(),
            variables: Vec::new(),
            has_docker: false,
        }
    }

    fn all(machine: &Machine) -> String {
        let places = Client::ALL.iter().flat_map(|client| client.places(machine));
        let lines =
            places.map(|place| format!("{}: {}", place.client.word(), place.file.display()));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_client_has_its_places_on_each_platform() {
        insta::assert_snapshot!("places_on_linux", all(&machine(Platform::Linux)));
        insta::assert_snapshot!("places_on_macos", all(&machine(Platform::MacOs)));
        insta::assert_snapshot!("places_on_windows", all(&machine(Platform::Windows)));
    }

    #[test]
    fn without_a_home_only_the_project_is_looked_at() {
        let homeless = Machine { home: None, ..machine(Platform::Linux) };
        let places = Client::ALL.iter().flat_map(|client| client.places(&homeless));
        assert!(places.filter(|place| place.client != Client::GhAw).all(|place| place.of_project));
    }

    #[test]
    fn variables_move_files_and_relative_ones_do_not() {
        let mut moved = machine(Platform::Linux);
        moved.variables =
            vec![("CODEX_HOME", "/codex".into()), ("XDG_CONFIG_HOME", "relative".into())];
        let files = |client: Client| client.places(&moved).pop().unwrap().file;
        assert_eq!(files(Client::Codex), PathBuf::from("/codex/config.toml"));
        assert_eq!(files(Client::Zed), PathBuf::from("/home/me/.config/zed/settings.json"));
    }

    #[test]
    fn words_and_paths_are_as_people_write_them() {
        assert_eq!(Client::named("vscode"), Some(Client::VsCode));
        assert_eq!(Client::named("file"), None);
        let machine = machine(Platform::Linux);
        assert_eq!(machine.shown(Path::new("/work/.mcp.json")), ".mcp.json");
        assert_eq!(machine.shown(Path::new("/home/me/.claude.json")), "~/.claude.json");
        assert_eq!(machine.shown(Path::new("/etc/x.json")), "/etc/x.json");
    }
}
