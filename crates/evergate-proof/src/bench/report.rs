//! From figures to pages: `docs/performance.md`, `.json` and `.svg`.

mod document;
mod growth_table;
mod instruction_table;
mod plot;
mod ratio_chart;
mod small_tables;
mod tables;
mod targets;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{Measure, Results};
use crate::product::Product;
use document::Document;
pub use instruction_table::{Counts, Kind};
pub use targets::{Target, targets};

const JSON: &str = "performance.json";
const PAGE: &str = "performance.md";

/// What an earlier run left, for those rows that are not measured this time.
pub fn read(folder: &Path) -> Result<Results> {
    match fs::read(folder.join(JSON)) {
        Ok(text) => serde_json::from_slice(&text).context("performance.json is not understood"),
        Err(_) => Ok(Results::default()),
    }
}

/// Writes everything; text between generated parts stays.
pub fn write(folder: &Path, results: &Results) -> Result<()> {
    fs::write(folder.join(JSON), results.to_json()?)?;
    let mut page = Document::open(&folder.join(PAGE))?;
    for (name, text) in parts(results) {
        page.put(name, &text)?;
    }
    page.save()?;
    let plots = [
        ("performance-ratios.svg", ratio_chart::draw(results)),
        ("performance-servers.svg", plot::draw(results, Measure::Servers)),
        ("performance-sessions.svg", plot::draw(results, Measure::Sessions)),
    ];
    for (name, plot) in plots {
        if let Some(plot) = plot {
            fs::write(folder.join(name), plot)?;
        }
    }
    Ok(())
}

/// Puts the instruction counts into the page.
pub fn write_instructions(folder: &Path, counts: &Counts) -> Result<()> {
    let mut page = Document::open(&folder.join(PAGE))?;
    page.put("instructions", &instruction_table::table(counts))?;
    page.save()
}

/// The tables of what was measured, to be read at once.
pub fn print(results: &Results, measures: &[Measure]) -> String {
    let asked_for = |(name, _): &&(&str, String)| {
        *name == "targets" || measures.iter().any(|measure| measure.name() == *name)
    };
    let parts = parts(results);
    let parts = parts.iter().filter(asked_for).map(|(name, text)| format!("## {name}\n\n{text}"));
    let text = parts.collect::<Vec<_>>().join("\n");
    // What a page folds is left out, and what this run says nothing about.
    let mut folded = false;
    let shown = text.lines().filter(|line| {
        let was = folded;
        folded = (folded || line.starts_with("<details")) && !line.starts_with("</details");
        !was && !folded && !line.ends_with("| not measured |")
    });
    shown.flat_map(|line| [line, "\n"]).collect()
}

fn parts(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("machine", small_tables::machine(results)),
        ("targets", targets::table(results)),
        ("json", tables::calls(results, Measure::Json)),
        ("sse", tables::calls(results, Measure::Sse)),
        ("stdio", tables::calls(results, Measure::Stdio)),
        ("list", small_tables::list(results)),
        ("start", small_tables::start(results)),
        ("memory", small_tables::memory(results)),
        ("servers", growth_table::table(results, Measure::Servers)),
        ("sessions", growth_table::table(results, Measure::Sessions)),
        ("settings", small_tables::settings(Product::ALL)),
    ]
}
