//! Tables of calls.

use std::fmt::Write as _;

use crate::bench::measure::{CALLERS, SIZES, case, size_name};
use crate::bench::{Measure, Results, Row, Spread};
use crate::product::Product;

/// For each size: calls per second in relation to direct ones at a glance, and everything to unfold.
pub(super) fn calls(results: &Results, measure: Measure) -> String {
    let name = measure.name();
    let mut text = String::new();
    for bytes in SIZES {
        let get = |product: &str, callers| results.get(name, &case(bytes, callers), product);
        let callers: Vec<usize> =
            CALLERS.into_iter().filter(|callers| get("direct", *callers).is_some()).collect();
        if callers.is_empty() {
            continue;
        }
        let heads: Vec<String> = callers.iter().map(|n| format!("{n} at once")).collect();
        let _ = writeln!(
            text,
            "{} results, calls per second of direct:\n\n| | {} |\n|---{}|",
            size_name(bytes),
            heads.join(" | "),
            "|---".repeat(heads.len())
        );
        for product in names(results, name) {
            let cells: Vec<String> = callers
                .iter()
                .map(|callers| match get(product, *callers) {
                    Some(row) if product == "direct" => rate(row),
                    Some(row) => ratio(row),
                    None => "-".to_owned(),
                })
                .collect();
            let _ = writeln!(text, "| {product} | {} |", cells.join(" | "));
        }
        let _ = writeln!(text, "\n<details><summary>all figures</summary>\n");
        let _ = writeln!(
            text,
            "| | at once | calls/s | of direct | of nginx | p50 µs | p99 µs | CPU s per 10,000 |\n|---|---|---|---|---|---|---|---|"
        );
        for product in names(results, name) {
            for &callers in &callers {
                if let Some(row) = get(product, callers) {
                    let _ = writeln!(text, "| {product} | {callers} | {} |", all(row));
                }
            }
        }
        let _ = writeln!(text, "\n</details>\n");
    }
    text.push_str(&absent(results, name));
    text
}

/// Those that were measured, in the usual order.
pub(super) fn names<'a>(results: &'a Results, measure: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in results.rows.iter().filter(|row| row.measure == measure && !row.case.is_empty()) {
        if !names.contains(&&*row.product) {
            names.push(&row.product);
        }
    }
    let place = |name: &str| Product::ALL.iter().position(|product| product.name() == name);
    names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    names
}

/// Why some are missing.
pub(super) fn absent(results: &Results, measure: &str) -> String {
    let rows = results.rows.iter().filter(|row| row.measure == measure && row.case.is_empty());
    let rows = rows.filter_map(|row| Some(format!("{} ({})", row.product, row.note.as_ref()?)));
    let absent: Vec<String> = rows.collect();
    if absent.is_empty() {
        String::new()
    } else {
        format!("\nNot measured: {}.\n", absent.join("; "))
    }
}

fn ratio(row: &Row) -> String {
    match (row.to_direct.get("rate").and_then(|ratios| Spread::of(ratios)), &row.note) {
        (Some(spread), _) => spread.shown(),
        (None, Some(note)) => note.clone(),
        (None, None) => rate(row),
    }
}

fn rate(row: &Row) -> String {
    row.figure("rate").map_or("-".to_owned(), |rate| format!("{}/s", number(rate.middle)))
}

fn all(row: &Row) -> String {
    if let (None, Some(note)) = (row.figure("rate"), &row.note) {
        return format!("{note} | | | | |");
    }
    let figure = |name: &str| row.figure(name).map_or("-".to_owned(), |f| number(f.middle));
    let of = |ratios: Option<&Vec<f64>>| {
        ratios.and_then(|ratios| Spread::of(ratios)).map_or("-".to_owned(), Spread::shown)
    };
    // Microseconds of one call are hundredths of a second of ten thousand.
    let cpu = row.figure("cpu").map_or("-".to_owned(), |cpu| format!("{:.3}", cpu.middle / 100.0));
    [
        figure("rate"),
        of(row.to_direct.get("rate")),
        of(row.to_nginx.get("rate")),
        figure("p50"),
        figure("p99"),
        cpu,
    ]
    .join(" | ")
}

/// As many digits as mean something.
pub(super) fn number(value: f64) -> String {
    if value < 10.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

// === impl Spread ===

impl Spread {
    /// The middle, and how far the others are from it.
    pub fn shown(self) -> String {
        let digits = match self.middle {
            middle if middle < 0.001 => 5,
            middle if middle < 0.1 => 4,
            _ => 2,
        };
        format!("{:.digits$} ({:.digits$} to {:.digits$})", self.middle, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(1_234_567.8), "1,234,568");
        assert_eq!(number(123.4), "123");
        assert_eq!(number(1.234), "1.23");
        assert_eq!(number(12_345.0), "12,345");
    }
}
