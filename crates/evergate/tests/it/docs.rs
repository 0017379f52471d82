//! The documentation is true as far as a program can tell: links lead somewhere, configurations can be used, commands and
//! options exist, and the runbook leaves nothing out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{commands, evergate, stderr, stdout};

/// A page and its text.
struct Page {
    path: PathBuf,
    name: String,
    text: String,
}

/// A block of code and its language.
struct Block<'a> {
    language: &'a str,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All that people read, generated pages included.
fn pages() -> Vec<Page> {
    let root = root();
    let mut paths: Vec<PathBuf> = markdown_in(&root);
    for folder in
        ["docs", "docs/guide", "docs/reference", "docs/decisions", "deploy", "deploy/prometheus"]
    {
        paths.extend(markdown_in(&root.join(folder)));
    }
    paths.push(root.join("examples/configs/README.md"));
    let page = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        Page { text: std::fs::read_to_string(&path).unwrap(), name, path }
    };
    paths.into_iter().map(page).collect()
}

fn markdown_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.sort();
    pages
}

// === impl Page ===

impl Page {
    /// The text without blocks of code, whose brackets are no links.
    fn prose(&self) -> String {
        let mut inside = false;
        let lines = self.text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let mut inside = false;
        for line in self.text.lines() {
            match line.trim_start().strip_prefix("```") {
                Some(language) if !inside => {
                    inside = true;
                    blocks.push(Block { language: language.trim(), text: String::new() });
                }
                Some(_) => inside = false,
                None if inside => blocks.last_mut().unwrap().text.extend([line, "\n"]),
                None => {}
            }
        }
        blocks
    }

    /// The places that can be linked to, as GitHub names them.
    fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for line in self.prose().lines() {
            if let Some((_, rest)) = line.split_once("<a id=\"") {
                anchors.insert(rest.split('"').next().unwrap().to_owned());
            }
            if line.starts_with('#') {
                let slug = slug(line.trim_start_matches('#').trim());
                let again = (1..).map(|n| format!("{slug}-{n}"));
                let name =
                    std::iter::once(slug.clone()).chain(again).find(|name| !anchors.contains(name));
                anchors.extend(name);
            }
        }
        anchors
    }

    /// What `](…)` leads to, and pictures; other sites left out.
    fn links(&self) -> Vec<String> {
        let prose = self.prose();
        let links = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let pictures = ["src=\"", "srcset=\""]
            .into_iter()
            .flat_map(|start| prose.split(start).skip(1).filter_map(|rest| rest.split('"').next()));
        // Made by the tests of the dashboard.
        let are_made = root().join("docs/images").is_dir();
        let targets = links.chain(pictures.filter(|_| are_made));
        let here =
            targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
        here.map(str::to_owned).collect()
    }
}

/// GitHub's: small letters, no punctuation, hyphens for blanks.
fn slug(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut broken = Vec::new();
    for page in &pages {
        for link in page.links() {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                page.path.clone()
            } else {
                page.path.parent().unwrap().join(file)
            };
            let Ok(target) = target.canonicalize() else {
                broken.push(format!("{}: {link}", page.name));
                continue;
            };
            let known = pages.iter().find(|other| other.path == target);
            if !anchor.is_empty() && !known.is_some_and(|other| other.anchors().contains(anchor)) {
                broken.push(format!("{}: {link} (no such heading)", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_can_be_found() {
    let pages = pages();
    let linked: BTreeSet<PathBuf> = pages
        .iter()
        .flat_map(|page| {
            page.links().into_iter().filter_map(|link| {
                let file = link.split('#').next().unwrap().to_owned();
                page.path.parent().unwrap().join(file).canonicalize().ok()
            })
        })
        .collect();
    for page in pages
        .iter()
        .filter(|page| page.name.starts_with("docs/") && !page.name.contains("decisions/"))
    {
        assert!(linked.contains(&page.path), "no page links to {}", page.name);
    }
}

/// Whether `evergate check` takes it; variables are set.
fn check(text: &str) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
    command.args(["check", "--config-stdin"]).env_remove("RUST_LOG").stdin(Stdio::piped());
    for name in text.split("${").skip(1).filter_map(|rest| rest.split([':', '}']).next()) {
        command.env(name, format!("a-long-value-for-{name}"));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stdout(&output) + &stderr(&output);
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn every_configuration_in_the_documentation_can_be_used() {
    let mut seen = 0;
    for page in pages() {
        for block in page.blocks() {
            let is_config = match block.language {
                "json" => serde_json::from_str::<Value>(&block.text).is_ok_and(|value| {
                    value.get("mcpServers").is_some() || value.get("gateway").is_some()
                }),
                "toml" => ["[mcpServers", "[gateway"].iter().any(|part| block.text.contains(part)),
                _ => false,
            };
            // Gemini's own key; `evergate import` knows it.
            if is_config && !block.text.contains("httpUrl") {
                seen += 1;
                // Files that are named in examples are not there.
                let text = block
                    .text
                    .replace("\"key_file\": \"/run/secrets/ci\"", "\"key\": \"a-long-enough-key\"");
                if let Err(said) = check(&text) {
                    panic!("{}:\n{}\n{said}", page.name, block.text);
                }
            }
        }
    }
    assert!(seen >= 10, "{seen}");
}

/// Those that are part of what this page is about.
fn lines_with_commands(page: &Page) -> Vec<String> {
    let blocks = page.blocks().into_iter().filter(|block| block.language == "sh");
    let lines = blocks.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>());
    // One after the other, without remarks.
    let steps = lines.flat_map(|line| {
        let line = line.split(" #").next().unwrap().to_owned();
        line.split("&&").map(|step| step.trim().to_owned()).collect::<Vec<_>>()
    });
    let spans = page.prose();
    let spans = spans.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    steps.chain(spans).filter(|line| line.starts_with("evergate ")).collect()
}

#[test]
fn every_command_in_the_documentation_exists() {
    let commands = commands();
    let whole = stdout(&evergate(&["--help"]));
    let mut wrong = BTreeSet::new();
    for page in pages() {
        // Speaks of what was, or may be.
        if page.name == "CHANGELOG.md" || page.name.contains("decisions/") {
            continue;
        }
        for line in lines_with_commands(&page) {
            // What follows is another program's.
            let own = line.split(" -- ").next().unwrap();
            let mut words = own.split_whitespace().skip(1);
            let Some(first) = words.next() else { continue };
            let is_command = commands.iter().any(|command| command == first);
            let is_placeholder = first.starts_with(['[', '<', '{', '…', '.']);
            if !is_command && !is_placeholder && !first.starts_with('-') {
                wrong.insert(format!("{}: {line}", page.name));
                continue;
            }
            let help =
                if is_command { stdout(&evergate(&[first, "--help"])) } else { whole.clone() };
            let all = std::iter::once(first).chain(words);
            for option in all.filter(|word| word.starts_with("--")) {
                let option = option.trim_end_matches([']', '.', ',']).split('=').next().unwrap();
                if !help.contains(option) {
                    wrong.insert(format!("{}: {line} ({option})", page.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

/// The names of the variants of an enum, as JSON has them.
fn names_in(source: &str, function: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(source)).unwrap();
    let (_, body) = text.split_once(function).unwrap();
    let body = body.split("\n    }\n").next().unwrap();
    let names = body.lines().filter_map(|line| line.split_once("=> \"")?.1.split('"').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_runbook_has_every_state_reason_code_and_alert() {
    let runbook = std::fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let has = |name: &str| runbook.contains(&format!("`{name}`"));
    let lifecycle = "crates/evergate-runtime/src/lifecycle";
    let reasons = names_in(&format!("{lifecycle}/reason.rs"), "fn as_str(");
    assert!(reasons.len() >= 15, "{reasons:?}");
    let states = names_in(&format!("{lifecycle}/state.rs"), "fn as_str(");
    assert!(states.len() >= 7, "{states:?}");
    let missing: Vec<&String> = reasons.iter().chain(&states).filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let errors = std::fs::read_to_string(root().join("docs/reference/errors.md")).unwrap();
    for row in errors.lines().filter(|line| line.starts_with("| -3")) {
        let code = row.split('|').nth(1).unwrap().trim();
        assert!(runbook.contains(&format!("| {code} |")), "{code}");
    }
    for row in errors.lines().filter(|line| line.starts_with("| 4") || line.starts_with("| 5")) {
        let answer = row.split('|').nth(1).unwrap().trim();
        let rows = runbook.lines().filter(|line| line.starts_with('|'));
        let mut first = rows.filter_map(|line| line.split('|').nth(1));
        assert!(first.any(|cell| cell.split(',').any(|part| part.trim() == answer)), "{answer}");
    }
    // Those that come with the gateway.
    let rules = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(has(alert), "{alert}");
    }
}
