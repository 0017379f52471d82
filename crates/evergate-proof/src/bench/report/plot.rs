//! A line: the price of a call as something grows.

use std::fmt::Write as _;

use crate::bench::{Measure, Results, Spread};

/// Readable on light and dark pages.
pub(super) const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}.quiet{fill:#656d76;font-size:12px}.bar{fill:#afb8c1}.ours,.dot{fill:#1a7f37}.line{fill:none;stroke:#1a7f37;stroke-width:2.5}.band{fill:#1a7f37;opacity:.18}.grid{stroke:#d0d7de;stroke-width:1}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#8d96a0}.bar{fill:#57606a}.ours,.dot{fill:#3fb950}.line{stroke:#3fb950}.band{fill:#3fb950}.grid{stroke:#30363d}}";

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 44.0;

/// Processor time per call over the number of servers or sessions, which grows tenfold from mark to mark.
pub(super) fn draw(results: &Results, measure: Measure) -> Option<String> {
    let name = measure.name();
    let points: Vec<(f64, Spread)> = results
        .cases(name)
        .into_iter()
        .filter_map(|case| {
            let cpu = results.get(name, case, "evergate")?.figure("cpu")?;
            Some((case.parse().ok()?, cpu))
        })
        .collect();
    let (first, last) = (points.first()?.0, points.last()?.0);
    let most = points.iter().map(|(_, cpu)| cpu.high).fold(0.0, f64::max) * 1.15;
    let x = |number: f64| {
        LEFT + (WIDTH - LEFT - RIGHT) * (number / first).ln() / (last / first).ln().max(0.01)
    };
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="Processor time per call over the number of {name}">
<style>{STYLE}</style>
<text class="title" x="12" y="24">Processor time of a call with more {name}</text>
<text class="quiet" x="12" y="44">µs, median and range over the rounds; small results, 16 calls at once</text>
"#
    );
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let at = y(value);
        let _ = writeln!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{}" y1="{at:.1}" y2="{at:.1}"/><text class="quiet" x="{}" y="{:.1}" text-anchor="end">{value:.0}</text>"#,
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    let at = |number: f64, value: f64| format!("{:.1},{:.1}", x(number), y(value));
    let there = points.iter().map(|(number, cpu)| at(*number, cpu.high));
    let back = points.iter().rev().map(|(number, cpu)| at(*number, cpu.low));
    let band: Vec<String> = there.chain(back).collect();
    let line: Vec<String> = points.iter().map(|(number, cpu)| at(*number, cpu.middle)).collect();
    let _ = writeln!(
        svg,
        r#"<polygon class="band" points="{}"/><polyline class="line" points="{}"/>"#,
        band.join(" "),
        line.join(" ")
    );
    for (number, cpu) in &points {
        let _ = writeln!(
            svg,
            r#"<circle class="dot" cx="{:.1}" cy="{:.1}" r="4"/><text class="quiet" x="{0:.1}" y="{:.1}" text-anchor="middle">{number}</text>"#,
            x(*number),
            y(cpu.middle),
            HEIGHT - BOTTOM + 18.0,
        );
    }
    let _ = writeln!(
        svg,
        r#"<text class="quiet" x="{:.1}" y="{:.1}" text-anchor="middle">{name}</text>"#,
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 8.0
    );
    svg.push_str("</svg>\n");
    Some(svg)
}
