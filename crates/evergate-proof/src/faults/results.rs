//! The rows of the matrix on disk, kept one by one.
//!
//! A run replaces the rows that it ran and leaves all others, so that one product can be measured again. The file is
//! written whole and renamed into place after every row: whenever a run is interrupted, what it finished is there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::faults::mix::Mix;
use crate::faults::scenario::Scenario;
use crate::faults::verdict::Tally;
use crate::product::Transport;

/// What one cell came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The product's name.
    pub product: String,
    /// The scenario.
    pub scenario: Scenario,
    /// How the server was reached.
    pub transport: Way,
    /// Which revisions both sides spoke.
    #[serde(default)]
    pub eras: Mix,
    /// The product's version when it ran.
    pub version: String,
    /// The day, as `2026-11-15`.
    pub date: String,
    /// Whether it was the short form.
    pub short: bool,
    /// How long the cell took, setting up and cleaning up included.
    pub took_seconds: f64,
    /// How busy the machine was at its end: processes that wanted to run, averaged over a minute, per processor.
    #[serde(default)]
    pub load: Option<f64>,
    /// What came out.
    pub outcome: Outcome,
}

/// [`Transport`] as it is written.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Streamable HTTP.
    Http,
    /// The 2024-11-05 transport.
    Sse,
    /// A child process.
    Stdio,
}

/// What came out of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was played to its end.
    Ran(Box<Tally>),
    /// The product is not made for this.
    NotApplicable(String),
    /// The product is missing.
    NotInstalled(String),
    /// The product did not get as far as a first good call.
    DidNotStart(String),
    /// The runner failed, which says nothing about the product.
    RunnerFailed(String),
}

/// All rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Sorted by product as listed, scenario, transport, eras.
    pub rows: Vec<Row>,
}

/// A matrix and the file it is kept in.
#[derive(Debug)]
pub struct Results {
    file: PathBuf,
    matrix: Matrix,
}

// === impl Way ===

impl Way {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Stdio => "stdio",
        }
    }

    /// As products know it.
    pub fn transport(self) -> Transport {
        match self {
            Self::Http => Transport::Http,
            Self::Sse => Transport::Sse,
            Self::Stdio => Transport::Stdio,
        }
    }
}

impl From<Transport> for Way {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Http => Self::Http,
            Transport::Sse => Self::Sse,
            Transport::Stdio => Self::Stdio,
        }
    }
}

// === impl Row ===

impl Row {
    /// What it says, if it was played to its end.
    pub fn tally(&self) -> Option<&Tally> {
        match &self.outcome {
            Outcome::Ran(tally) => Some(tally),
            _ => None,
        }
    }
}

// === impl Matrix ===

impl Matrix {
    /// The row of a cell with revisions that every product knows.
    pub fn find(&self, product: &str, scenario: Scenario, way: Way) -> Option<&Row> {
        self.find_between(Mix::LegacyLegacy, product, scenario, way)
    }

    /// The row of a cell.
    pub fn find_between(
        &self,
        mix: Mix,
        product: &str,
        scenario: Scenario,
        way: Way,
    ) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.eras == mix
                && row.product == product
                && row.scenario == scenario
                && row.transport == way
        })
    }

    /// The rows in which products can be compared: with revisions that all of them know.
    pub fn comparable(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.eras == Mix::LegacyLegacy)
    }

    /// Adds a row, in the place of an older one of the same cell.
    pub fn put(&mut self, row: Row) {
        let same = |other: &Row| {
            other.product == row.product
                && other.scenario == row.scenario
                && other.transport == row.transport
                && other.eras == row.eras
        };
        self.rows.retain(|other| !same(other));
        self.rows.push(row);
        self.rows.sort_by(|a, b| {
            let key = |row: &Row| {
                let product = (rank(&row.product), row.product.clone());
                (product, row.scenario, row.transport, row.eras)
            };
            key(a).cmp(&key(b))
        });
    }

    /// The names of the products that have rows, as listed.
    pub fn products(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.rows.iter().map(|row| row.product.as_str()).collect();
        names.dedup();
        names
    }
}

/// The place of a product in tables: Evergate, then the client alone, then the others as they are listed.
fn rank(product: &str) -> usize {
    let listed = crate::product::Product::ALL.iter().position(|known| known.name() == product);
    match product {
        "evergate" => 0,
        "direct" => 1,
        _ => 2 + listed.unwrap_or(usize::MAX - 2),
    }
}

// === impl Results ===

impl Results {
    /// What the file holds, or nothing yet.
    pub fn open(file: PathBuf) -> anyhow::Result<Self> {
        let matrix = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{} is not what this program wrote", file.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Matrix::default(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        Ok(Self { file, matrix })
    }

    /// All rows.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Keeps a row, on disk when this returns.
    pub fn keep(&mut self, row: Row) -> anyhow::Result<()> {
        self.matrix.put(row);
        let mut text = serde_json::to_string_pretty(&self.matrix)?;
        text.push('\n');
        replace(&self.file, &text)
    }
}

/// Writes a file so that a reader sees the old one or the new one, never a part.
pub fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let put = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let unfinished = file.with_extension("unfinished");
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, file)
    };
    put().with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests;
