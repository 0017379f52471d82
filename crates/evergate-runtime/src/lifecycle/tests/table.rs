//! The whole machine, printed: every state against every event.

use std::fmt::Write;

use super::representative::{states, stimuli};
use super::*;

#[test]
fn state_event_table() {
    let mut table = String::from(
        "Each block is a situation: its name, then the state, then what every event makes of it. Times count from\n\
         the moment the event arrives. The policy is the default one without jitter, `exclusive` where it says so.\n\
         `g1` belongs to an earlier life of the slot; `drain` lets running calls finish, `close` does not. Ignored\n\
         events change nothing and cause nothing; a bare name there stands for all of that name that are not listed above.\n",
    );
    for (name, bench) in states() {
        let before = bench.state();
        writeln!(table, "\n## {name}\n   {before}").unwrap();
        let mut rows = Vec::new();
        let (mut ignored, mut heeded) = (Vec::new(), Vec::new());
        for stimulus in stimuli(&bench) {
            let (after, effects) = stimulus.apply(&bench);
            let (after, effects) = (after.state(), describe::effects(&effects));
            if after != before || !effects.is_empty() {
                heeded.push(stimulus.family());
                rows.push((stimulus.label, effects, after));
            } else {
                ignored.push(stimulus);
            }
        }
        let label_width = width(rows.iter().map(|(label, ..)| label));
        let effects_width = width(rows.iter().map(|(_, effects, _)| effects));
        for (label, effects, after) in rows {
            let after = if after == before { "(unchanged)" } else { &after };
            writeln!(table, "   {label:label_width$} | {effects:effects_width$} | {after}")
                .unwrap();
        }
        // A whole family goes by its name.
        let mut ignored: Vec<&str> = ignored
            .iter()
            .map(|each| if heeded.contains(&each.family()) { &*each.label } else { each.family() })
            .collect();
        ignored.dedup();
        table.push_str(&wrapped("   ignored: ", &ignored));
    }
    insta::assert_snapshot!("state_event_table", table);
}

fn width<'a>(cells: impl Iterator<Item = &'a String>) -> usize {
    cells.map(String::len).max().unwrap_or(0)
}

/// The words after the heading, in lines of a readable length that align with the first.
fn wrapped(heading: &str, words: &[&str]) -> String {
    let mut lines = vec![String::new()];
    for word in words {
        let line = lines.last_mut().unwrap();
        if line.is_empty() {
            line.push_str(word);
        } else if heading.len() + line.len() + word.len() < 110 {
            write!(line, ", {word}").unwrap();
        } else {
            line.push(',');
            lines.push((*word).to_owned());
        }
    }
    let indent = format!("\n{:1$}", "", heading.len());
    format!("{heading}{}\n", lines.join(&indent))
}
