//! The other tables.

use std::fmt::Write as _;

use super::tables::{absent, names, number};
use crate::bench::measure::{FIRST_CALL, LIST_CASES, MEMORY_CASE, READY, ready_case};
use crate::bench::{Results, Spread};
use crate::product::Product;

pub(super) fn machine(results: &Results) -> String {
    let mut text =
        format!("Measured on {}, {}.\n\n| | version |\n|---|---|\n", results.date, results.machine);
    for product in Product::ALL {
        if let Some(version) = results.products.get(product.name()) {
            let _ = writeln!(text, "| {product} | {version} |");
        }
    }
    text
}

pub(super) fn list(results: &Results) -> String {
    let mut text = String::from(
        "| | at once | lists/s | p50 µs | p50 of nginx's (file) | p99 µs | CPU µs |\n|---|---|---|---|---|---|---|\n",
    );
    for product in names(results, "list") {
        for (case, callers) in LIST_CASES {
            let Some(row) = results.get("list", case, product) else { continue };
            if let (None, Some(note)) = (row.figure("rate"), &row.note) {
                let _ = writeln!(text, "| {product} | {callers} | {note} | | | | |");
                continue;
            }
            let figure = |name: &str| row.figure(name).map_or("-".to_owned(), |f| number(f.middle));
            let to_file = super::targets::to_file(results, case, product);
            let to_file = to_file.map_or("-".to_owned(), Spread::shown);
            let (rate, p50, p99) = (figure("rate"), figure("p50"), figure("p99"));
            let _ = writeln!(
                text,
                "| {product} | {callers} | {rate} | {p50} | {to_file} | {p99} | {} |",
                figure("cpu")
            );
        }
    }
    text.push_str(&absent(results, "list"));
    text
}

pub(super) fn start(results: &Results) -> String {
    let mut text = String::from("| | until | ms | resident MiB then |\n|---|---|---|---|\n");
    let ready = READY.map(ready_case);
    let cases = std::iter::once(FIRST_CALL).chain(ready.iter().map(String::as_str));
    for case in cases {
        for product in names(results, "start") {
            let Some(row) = results.get("start", case, product) else { continue };
            let time = row
                .figure("ms")
                .map(|ms| format!("{:.1} ({:.1} to {:.1})", ms.middle, ms.low, ms.high));
            let time = time.or(row.note.clone()).unwrap_or_default();
            let memory = row.figure("resident").map(|bytes| mebibytes(bytes.middle));
            let memory = memory.filter(|_| product != "direct").unwrap_or_default();
            let _ = writeln!(text, "| {product} | {case} | {time} | {memory} |");
        }
    }
    text
}

pub(super) fn memory(results: &Results) -> String {
    let mut text = String::from(
        "| | idle MiB | sessions opened | KiB per session | KiB per listening session | KiB per 1 MiB result in flight | soak calls | MiB at half | MiB at end |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for product in names(results, "memory") {
        let Some(row) = results.get("memory", MEMORY_CASE, product) else { continue };
        let figure = |name: &str, shown: fn(f64) -> String| {
            row.figure(name).map_or("-".to_owned(), |figure| shown(figure.middle))
        };
        let whole = |value: f64| number(value.round().max(10.0));
        let cells = [
            figure("idle", mebibytes),
            figure("sessions", whole),
            figure("per session", kibibytes),
            figure("per listening session", kibibytes),
            figure("per large call", kibibytes),
            figure("soak calls", whole),
            figure("soak half", mebibytes),
            figure("soak end", mebibytes),
        ];
        let note = row.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        let _ = writeln!(text, "| {product}{note} | {} |", cells.join(" | "));
    }
    text
}

pub(super) fn settings(products: &[Product]) -> String {
    let mut text = String::from("| | setting | why |\n|---|---|---|\n");
    for product in products {
        for choice in product.docs() {
            let _ = writeln!(
                text,
                "| {product} | [`{}`]({}) | {} |",
                choice.setting, choice.url, choice.why
            );
        }
    }
    text
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1_048_576.0)
}

fn kibibytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1024.0)
}
