//! A page of which parts are generated and the rest is written by people.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The page.
#[derive(Debug)]
pub(super) struct Document {
    path: PathBuf,
    text: String,
}

/// What a new page begins with.
const NEW: &str = include_str!("new_page.md");

// === impl Document ===

impl Document {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(problem) if problem.kind() == std::io::ErrorKind::NotFound => NEW.to_owned(),
            Err(problem) => return Err(problem.into()),
        };
        Ok(Self { path: path.to_owned(), text })
    }

    /// Replaces a generated part. Where there is none of that name it is put at the end.
    pub(super) fn put(&mut self, name: &str, text: &str) -> Result<()> {
        let (start, end) = (format!("<!-- bench: {name} -->"), "<!-- end -->");
        if !self.text.contains(&start) {
            writeln!(self.text, "\n{start}\n{end}")?;
        }
        let (before, rest) = self.text.split_once(&start).context("it was just put there")?;
        let (_, after) = rest
            .split_once(end)
            .with_context(|| format!("{start} without {end} in {}", self.path.display()))?;
        self.text = format!("{before}{start}\n\n{}\n\n{end}{after}", text.trim());
        Ok(())
    }

    pub(super) fn save(&self) -> Result<()> {
        Ok(fs::write(&self.path, &self.text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::Document;

    #[test]
    fn what_people_wrote_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        std::fs::write(&path, "# One\n<!-- bench: a -->\nold\n<!-- end -->\nprose\n").unwrap();
        let mut page = Document::open(&path).unwrap();
        page.put("a", "new").unwrap();
        page.put("b", "more").unwrap();
        page.put("a", "newer\n").unwrap();
        page.save().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = "# One\n<!-- bench: a -->\n\nnewer\n\n<!-- end -->\nprose\n\n<!-- bench: b -->\n\nmore\n\n<!-- end -->\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_part_without_an_end_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        std::fs::write(&path, "<!-- bench: a -->\nprose\n").unwrap();
        assert!(Document::open(&path).unwrap().put("a", "new").is_err());
    }
}
