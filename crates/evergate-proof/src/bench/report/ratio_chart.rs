//! A bar for each product: how much of what a direct client can do is left.

use std::fmt::Write as _;

use super::plot::STYLE;
use super::tables::names;
use crate::bench::measure::{SIZES, case};
use crate::bench::{Results, Spread};

const WIDTH: usize = 760;
const ROW: usize = 30;
const LABELS: f64 = 190.0;
const BARS: f64 = 400.0;

/// Small calls, 64 at once: over HTTP where the product can, else with a child process. Products too slow for that are
/// shown with the most callers they could serve.
pub(super) fn draw(results: &Results) -> Option<String> {
    let mut bars: Vec<(String, f64, f64)> = Vec::new();
    for measure in ["json", "stdio"] {
        for product in names(results, measure) {
            let with = |callers| {
                let row = results.get(measure, &case(SIZES[0], callers), product)?;
                let ratio = Spread::of(row.to_direct.get("rate")?)?;
                Some((row, ratio))
            };
            let found = [64, 16, 1].into_iter().find_map(with);
            let Some((row, ratio)) = found.filter(|_| product != "direct") else { continue };
            let label = if measure == "stdio" {
                format!("{product} → child")
            } else {
                product.to_owned()
            };
            let known = bars.iter().any(|(known, ..)| known == product);
            if measure == "json" || !known || product == "evergate" {
                let cpu = row.figure("cpu").map_or(0.0, |cpu| cpu.middle);
                bars.push((label, ratio.middle, cpu));
            }
        }
    }
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));
    let height = 64 + ROW * bars.len();
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="Calls per second in relation to a direct client">
<style>{STYLE}</style>
<text class="title" x="12" y="24">Calls per second that are left of a direct client's</text>
<text class="quiet" x="12" y="44">small results, 64 calls at once; in brackets the processor time of one call</text>
"#
    );
    let most = bars.first()?.1.max(0.01);
    for (at, (label, ratio, cpu)) in bars.iter().enumerate() {
        let y = 58 + at * ROW;
        let class = if label.starts_with("evergate") { "ours" } else { "bar" };
        let width = (ratio / most * BARS).max(1.0);
        let shown = if *ratio < 0.01 { format!("{ratio:.4}") } else { format!("{ratio:.2}") };
        let _ = writeln!(
            svg,
            r#"<text x="{:.0}" y="{}" text-anchor="end">{label}</text><rect class="{class}" x="{LABELS:.0}" y="{y}" width="{width:.1}" height="{}" rx="3"/><text x="{:.1}" y="{}">{shown} <tspan class="quiet">({cpu:.0} µs)</tspan></text>"#,
            LABELS - 8.0,
            y + 15,
            ROW - 9,
            LABELS + width + 8.0,
            y + 15,
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}
