//! The page for operators, inside the binary: it needs no files beside the program, no build step and no network but the
//! gateway's own.
//!
//! It is served without a key, for it knows nothing; what it shows it asks the admin API for, with the key of whoever looks
//! at it. Names, descriptions and log lines come from servers that nobody vouches for. The page writes them as text only,
//! and the [policy](POLICY) would not let the browser run or load anything even if it did otherwise.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use crate::hex::hex;

/// One file of the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    pub(crate) content_type: &'static str,
    pub(crate) content: &'static str,
    /// Changes with any of the files: a page must not be made of parts of two versions.
    pub(crate) etag: &'static str,
}

/// Nothing but the page's own files, and pictures that tools return.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Path, content type, content.
type Entry = (&'static str, &'static str, &'static str);

macro_rules! entry {
    ($content_type:ident, $name:literal) => {
        (concat!("/dashboard/", $name), $content_type, include_str!(concat!("dashboard/", $name)))
    };
}

const FILES: &[Entry] = &[
    ("/", HTML, include_str!("dashboard/index.html")),
    entry!(STYLE, "style.css"),
    entry!(SCRIPT, "actions.js"),
    entry!(SCRIPT, "announce.js"),
    entry!(SCRIPT, "api.js"),
    entry!(SCRIPT, "app.js"),
    entry!(SCRIPT, "calls.js"),
    entry!(SCRIPT, "catalog.js"),
    entry!(SCRIPT, "detail.js"),
    entry!(SCRIPT, "dialog.js"),
    entry!(SCRIPT, "dom.js"),
    entry!(SCRIPT, "feed.js"),
    entry!(SCRIPT, "fields.js"),
    entry!(SCRIPT, "format.js"),
    entry!(SCRIPT, "live.js"),
    entry!(SCRIPT, "locked.js"),
    entry!(SCRIPT, "log.js"),
    entry!(SCRIPT, "parts.js"),
    entry!(SCRIPT, "result.js"),
    entry!(SCRIPT, "servers.js"),
    entry!(SCRIPT, "sessions.js"),
    entry!(SCRIPT, "states.js"),
    entry!(SCRIPT, "store.js"),
    entry!(SCRIPT, "summary.js"),
    entry!(SCRIPT, "theme.js"),
    entry!(SCRIPT, "theme_button.js"),
    entry!(SCRIPT, "timeline.js"),
    entry!(SCRIPT, "try_it.js"),
];

static ETAG: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (path, _, content) in FILES {
        hash.update(path);
        hash.update(content);
    }
    format!("\"{}\"", hex(&hash.finalize()[..12]))
});

/// What is at this path, if it is one of ours.
pub(crate) fn file(path: &str) -> Option<File> {
    // Asked of every request, and nearly all are calls.
    if path != "/" && !path.starts_with("/dashboard/") {
        return None;
    }
    let (_, content_type, content) = *FILES.iter().find(|(known, ..)| *known == path)?;
    Some(File { content_type, content, etag: &ETAG })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard");
        let mut there = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path =
                if name == "index.html" { "/".to_owned() } else { format!("/dashboard/{name}") };
            assert!(file(&path).is_some(), "{name} is not served");
            there += 1;
        }
        assert_eq!(there, FILES.len());
    }

    #[test]
    fn every_import_is_served() {
        for (path, _, content) in FILES {
            for line in content.lines().filter(|line| line.starts_with("import ")) {
                let imported = line.split('"').nth(1).unwrap();
                let imported = imported.strip_prefix("./").expect("relative");
                assert!(file(&format!("/dashboard/{imported}")).is_some(), "{path}: {line}");
            }
        }
    }

    /// Most of what is shown was written by servers.
    #[test]
    fn no_script_makes_markup_of_data() {
        let markup = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
        ];
        for (path, _, content) in FILES {
            for way in markup {
                assert!(!content.contains(way), "{path} uses {way}");
            }
        }
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for (path, _, content) in FILES {
            for (at, _) in content.match_indices("://") {
                let begin = content[..at].rfind(['"', '\'', '(', ' ']).map_or(0, |quote| quote + 1);
                let address = &content[begin..];
                // The name of SVG's elements, which is no address.
                assert!(address.starts_with("http://www.w3.org/2000/svg"), "{path}: {address:.60}");
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_not_there() {
        for path in ["", "/dashboard", "/dashboard/", "/dashboard/../front.rs", "/index.html"] {
            assert!(file(path).is_none(), "{path}");
        }
    }
}
