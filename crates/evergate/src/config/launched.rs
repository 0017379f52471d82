//! What a launcher starts: `npx` says nothing about a server, the package that it is given does.
//!
//! Arguments may hold secrets, so only the first one that is surely no option and no option's value is looked at, and shown
//! only if it has the form of a package, an image or a script.

use std::path::Path;

/// A program that starts another one.
struct Launcher {
    names: &'static [&'static str],
    /// What its first argument must be, if anything.
    verb: Option<&'static str>,
    /// Options that stand alone.
    alone: &'static [&'static str],
    /// Options that are followed by a value.
    followed: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Package,
    /// Its file is shown, below the folder that says what it is.
    Script,
}

const LAUNCHERS: &[Launcher] = &[
    Launcher {
        names: &["npx", "bunx"],
        verb: None,
        alone: &["-y", "--yes", "-q", "--quiet", "--prefer-offline", "--bun"],
        followed: &["-p", "--package"],
        kind: Kind::Package,
    },
    Launcher {
        names: &["uvx"],
        verb: None,
        alone: &["-q", "--quiet", "-n", "--no-cache", "--refresh", "--offline", "--isolated"],
        followed: &["--from", "--with", "-p", "--python"],
        kind: Kind::Package,
    },
    Launcher {
        names: &["pnpm", "yarn"],
        verb: Some("dlx"),
        alone: &["-q", "--quiet", "--silent"],
        followed: &["-p", "--package"],
        kind: Kind::Package,
    },
    Launcher {
        names: &["pipx"],
        verb: Some("run"),
        alone: &["-q", "--quiet", "--no-cache"],
        followed: &["--spec", "--python"],
        kind: Kind::Package,
    },
    Launcher {
        names: &["docker", "podman"],
        verb: Some("run"),
        alone: &[
            "-i",
            "-t",
            "-it",
            "-ti",
            "--interactive",
            "--tty",
            "--rm",
            "--init",
            "--read-only",
        ],
        followed: &[
            "-e",
            "--env",
            "--env-file",
            "-v",
            "--volume",
            "--mount",
            "-p",
            "--publish",
            "--name",
            "--network",
            "--net",
            "-u",
            "--user",
            "-w",
            "--workdir",
            "--pull",
            "--platform",
            "-l",
            "--label",
            "--entrypoint",
            "-m",
            "--memory",
            "--cpus",
            "--add-host",
        ],
        kind: Kind::Package,
    },
    Launcher {
        names: &["node", "python", "python3", "bun", "deno", "tsx"],
        verb: None,
        alone: &["-u", "--no-warnings", "--enable-source-maps"],
        followed: &[],
        kind: Kind::Script,
    },
];

/// Enough to recognize one by.
const LONGEST: usize = 80;

/// What a command starts, fit to be shown.
pub(crate) fn name(command: &str, args: &[String]) -> Option<String> {
    let program = Path::new(command).file_stem()?.to_str()?;
    let launcher = LAUNCHERS.iter().find(|launcher| launcher.names.contains(&program))?;
    let mut args = args.iter().map(String::as_str);
    if let Some(verb) = launcher.verb {
        args.next().filter(|first| *first == verb)?;
    }
    loop {
        let arg = args.next()?;
        if arg == "--" || launcher.alone.contains(&arg) {
            continue;
        }
        if arg == "-m" && launcher.kind == Kind::Script {
            // A module of Python's.
            return shown(args.next()?, Kind::Package);
        }
        if launcher.followed.contains(&arg) {
            args.next();
        } else if arg.starts_with("--") && arg.contains('=') {
            // Its value comes with it.
        } else if arg.starts_with('-') {
            // What follows may be its value.
            return None;
        } else {
            return shown(arg, launcher.kind);
        }
    }
}

/// `server-memory/dist/index.js`: every other script is an `index.js` below some `dist`.
fn file_name(path: &str) -> &str {
    const COMMON: &[&str] = &["dist", "build", "out", "src", "lib", "bin"];
    let mut start = path.rfind(['/', '\\']).map_or(0, |at| at + 1);
    while start > 1 {
        let above = path[..start - 1].rfind(['/', '\\']).map_or(0, |at| at + 1);
        let folder = &path[above..start - 1];
        if matches!(folder, "" | "." | ".." | "~") {
            break;
        }
        start = above;
        if !COMMON.contains(&folder) {
            break;
        }
    }
    &path[start..]
}

fn shown(arg: &str, kind: Kind) -> Option<String> {
    let is_file = kind == Kind::Script || arg.starts_with(['/', '.', '~']) || arg.contains('\\');
    let name = if is_file { file_name(arg) } else { arg };
    let plain = |c: char| c.is_ascii_alphanumeric() || "@/\\._:-+".contains(c);
    let fits = !name.is_empty() && name.len() <= LONGEST && name.chars().all(plain);
    // `name:password@host` is no package, and neither is an address.
    let is_address = name.contains("://") || name.find(':') < name.rfind('@') && name.contains(':');
    let is_script = kind != Kind::Script || Path::new(name).extension().is_some();
    (fits && !is_address && is_script).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let mut words = line.split(' ').map(str::to_owned);
        let command = words.next().unwrap();
        name(&command, &words.collect::<Vec<_>>())
    }

    #[test]
    fn packages_images_and_scripts_are_named() {
        for (line, expected) in [
            (
                "npx -y @modelcontextprotocol/server-filesystem /home",
                "@modelcontextprotocol/server-filesystem",
            ),
            ("/usr/bin/npx.cmd some-server@1.2.3 --token hunter2", "some-server@1.2.3"),
            ("uvx --from git+https://x mcp-server-git", "mcp-server-git"),
            ("bunx --bun thing", "thing"),
            ("pnpm dlx thing", "thing"),
            ("docker run -i --rm -e KEY=hunter2 ghcr.io/a/b:1 arg", "ghcr.io/a/b:1"),
            ("docker run --env=KEY=hunter2 img", "img"),
            ("node /home/me/server/index.js hunter2", "server/index.js"),
            ("node /x/node_modules/@m/server-memory/dist/index.js", "server-memory/dist/index.js"),
            ("node /dist/index.js", "dist/index.js"),
            ("python3 -u ./server.py", "server.py"),
            ("python -m mcp_server_git --token hunter2", "mcp_server_git"),
            ("python3 server.py", "server.py"),
        ] {
            assert_eq!(of(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_may_be_secret_is_not() {
        for line in [
            "my-server hunter2",
            "npx --unknown hunter2 pkg",
            "npx",
            "python -c hunter2.x",
            "node hunter2",
            "docker exec hunter2",
            "docker run --unknown hunter2 img",
            "npx user:hunter2@host/pkg",
            "npx https://hunter2.example/x.tgz",
            "npx pkg?token=hunter2",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
