//! The matrix as a picture: products as columns, scenarios as rows, a grade per cell.
//!
//! Each grade has a colour, a shape and a word, so that none of them is needed to read it. Colours follow the reader's
//! light or dark mode.

use std::fmt::Write as _;

use crate::faults::results::{Matrix, Outcome, Row, Way};
use crate::faults::scenario::Scenario;
use crate::faults::verdict::Grade;

const LABEL: usize = 292;
const COLUMN: usize = 108;
const ROW: usize = 21;
const TOP: usize = 92;
const GAP: usize = 6;

const STYLE: &str = "
  text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 } .head { font-size: 11px; font-weight: 600; text-anchor: middle } .quiet { fill: #59636e }
  .word { font-size: 11px } .back { fill: #ffffff } .line { stroke: #d1d9e0 }
  .perfect rect { fill: #dafbe1 } .perfect path { fill: #1a7f37 }
  .noticed rect { fill: #ddf4ff } .noticed path { fill: #0969da }
  .ambiguous rect { fill: #fff8c5 } .ambiguous path { fill: #9a6700 }
  .lost rect { fill: #ffebe9 } .lost path { fill: #cf222e }
  .never rect { fill: #ffd8d3 } .never path { fill: #82071e }
  .none rect { fill: #f6f8fa } .none text { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .back { fill: #0d1117 } .line { stroke: #3d444d }
    .perfect rect { fill: #12361f } .perfect path { fill: #3fb950 }
    .noticed rect { fill: #10294a } .noticed path { fill: #58a6ff }
    .ambiguous rect { fill: #3a2d0a } .ambiguous path { fill: #d29922 }
    .lost rect { fill: #4a1618 } .lost path { fill: #ff7b72 }
    .never rect { fill: #5c0f14 } .never path { fill: #ffa198 }
    .none rect { fill: #151b23 } .none text { fill: #9198a1 }
  }
";

/// The picture.
pub fn svg(matrix: &Matrix) -> String {
    let products = matrix.products();
    let lines: Vec<(Scenario, Way)> = Scenario::ALL
        .iter()
        .flat_map(|scenario| scenario.transports().iter().map(|way| (*scenario, Way::from(*way))))
        .filter(|(scenario, way)| {
            products.iter().any(|name| matrix.find(name, *scenario, *way).is_some())
        })
        .collect();
    let groups =
        Scenario::ALL.iter().filter(|one| lines.iter().any(|(scenario, _)| scenario == *one));
    let width = LABEL + COLUMN * products.len().max(4) + 12;
    let height = TOP + ROW * lines.len() + GAP * groups.count() + 12;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"What happens to calls when MCP servers die, by product and scenario\">\n\
         <style>{STYLE}</style>\n<rect class=\"back\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"12\" y=\"24\">What happens to calls when MCP servers die</text>\n"
    );
    legend(&mut svg);
    for (at, name) in products.iter().enumerate() {
        let x = LABEL + COLUMN * at + COLUMN / 2;
        let _ = writeln!(
            svg,
            "<text class=\"head\" x=\"{x}\" y=\"{}\">{}</text>",
            TOP - 10,
            escape(name)
        );
    }
    let mut y = TOP;
    let mut last = None;
    for (scenario, way) in lines {
        if last != Some(scenario) {
            let _ = writeln!(svg, "<path class=\"line\" d=\"M12 {y}H{}\"/>", width - 12);
            y += GAP;
            let _ = writeln!(
                svg,
                "<text x=\"12\" y=\"{}\">{}</text>",
                y + 14,
                escape(scenario.title())
            );
            last = Some(scenario);
        }
        let _ = writeln!(
            svg,
            "<text class=\"quiet\" x=\"{}\" y=\"{}\">{}</text>",
            LABEL - 44,
            y + 14,
            way.name()
        );
        for (at, name) in products.iter().enumerate() {
            cell(&mut svg, LABEL + COLUMN * at, y, matrix.find(name, scenario, way));
        }
        y += ROW;
    }
    svg += "</svg>\n";
    svg
}

fn legend(svg: &mut String) {
    let mut x = 12;
    for grade in Grade::ALL {
        let _ = writeln!(
            svg,
            "<g class=\"{}\">{}<text class=\"word quiet\" x=\"{}\" y=\"52\">{}</text></g>",
            grade.word(),
            shape(*grade, x, 42),
            x + 17,
            in_words(*grade),
        );
        x += 17 + 7 * in_words(*grade).len() + 14;
    }
}

fn in_words(grade: Grade) -> &'static str {
    match grade {
        Grade::Perfect => "perfect",
        Grade::Noticed => "client noticed",
        Grade::Ambiguous => "ambiguous error",
        Grade::Lost => "lost or twice",
        Grade::NeverRecovered => "never recovered",
    }
}

fn cell(svg: &mut String, x: usize, y: usize, row: Option<&Row>) {
    let (x, width, height) = (x + 2, COLUMN - 4, ROW - 3);
    let tally = row.and_then(Row::tally);
    let (class, drawn, word) = match (row.map(|row| &row.outcome), tally) {
        (_, Some(tally)) => {
            (tally.grade.word(), shape(tally.grade, x + 5, y + 4), tally.grade.word())
        }
        (Some(Outcome::NotApplicable(_)), _) => ("none", String::new(), "n/a"),
        (Some(Outcome::NotInstalled(_)), _) => ("none", String::new(), "not installed"),
        (Some(Outcome::DidNotStart(_)), _) => ("none", String::new(), "no start"),
        _ => ("none", String::new(), "not run"),
    };
    let _ = writeln!(
        svg,
        "<g class=\"{class}\"><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"3\"/>{drawn}\
         <text class=\"word\" x=\"{}\" y=\"{}\">{word}</text></g>",
        x + 21,
        y + 13,
    );
}

/// A shape per grade, in a box of 10 by 10.
fn shape(grade: Grade, x: usize, y: usize) -> String {
    let path = match grade {
        // a tick, a disc, a triangle, a cross, a bar
        Grade::Perfect => "m0 5 1.6-1.6L4 5.8 8.4 1.4 10 3 4 9z",
        Grade::Noticed => "m5 0a5 5 0 1 1 0 10 5 5 0 1 1 0-10z",
        Grade::Ambiguous => "m5 0 5 10H0z",
        Grade::Lost => {
            "m1.5 0L5 3.5 8.5 0 10 1.5 6.5 5 10 8.5 8.5 10 5 6.5 1.5 10 0 8.5 3.5 5 0 1.5z"
        }
        Grade::NeverRecovered => "m0 0h10v10H0zm2 4v2h6V4z",
    };
    format!("<path transform=\"translate({x} {y})\" fill-rule=\"evenodd\" d=\"{path}\"/>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
