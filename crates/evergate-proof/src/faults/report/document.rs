//! `docs/fault-matrix.md`.

use std::fmt::Write as _;

use crate::faults::host::GONE;
use crate::faults::mix::Mix;
use crate::faults::pace::{LOOK_EVERY, PAUSE, Pace};
use crate::faults::report::{eras, first_line, in_a_word, pace_of};
use crate::faults::results::{Matrix, Outcome, Row, Way};
use crate::faults::scenario::Scenario;
use crate::faults::script::News;
use crate::faults::verdict::{DID_NOT_RUN, Grade, MAY_HAVE_RUN, Tally};
use crate::faults::witness::TRAVEL;
use crate::product::Product;

/// How much of an error text a table has room for.
const QUOTE_CHARS: usize = 110;

/// Above this, processes wait for each other.
const BUSY: f64 = 1.0;

/// The whole document.
pub fn markdown(matrix: &Matrix) -> String {
    let mut text = String::new();
    let parts = [
        beginning,
        summary,
        overview,
        eras::between,
        imperfect,
        rules,
        details,
        products,
        reproduce,
    ];
    for part in parts {
        text += &part(matrix);
    }
    text
}

fn beginning(_: &Matrix) -> String {
    let mut text = "\
<!-- Written by ./scripts/faults from fault-matrix.json. Do not edit. -->

# What happens to calls when MCP servers die

A real client (the official TypeScript SDK, one long-lived process) calls tools through each product while the servers
behind it are restarted, killed, cut off and hung. The servers count what they really executed. Each cell is one
product, one scenario and one transport of the server; the worst that happened in it gives its grade:

| | grade | meaning |
|---|---|---|
"
    .to_owned();
    for grade in Grade::ALL {
        let _ = writeln!(text, "| {} | {} | {} |", grade.symbol(), grade.word(), grade.meaning());
    }
    text += "| – | n/a | the product is not made for this; no judgement |\n\n";
    text += "![The fault matrix: products as columns, scenarios as rows](fault-matrix.svg)\n\n";
    text
}

fn summary(matrix: &Matrix) -> String {
    let mut text = "\
## In numbers

Sums over all cells of a product. Products have different numbers of cells, because not everyone can do everything.

| product | version | cells | perfect | calls | answered | failed | lost silently | executed twice | ambiguous errors | \
new handshakes | list blinked | orphans |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"
    .to_owned();
    for product in matrix.products() {
        let rows: Vec<&Row> = matrix.comparable().filter(|row| row.product == product).collect();
        let tallies: Vec<&Tally> = rows.iter().filter_map(|row| row.tally()).collect();
        let version = rows.last().map_or("-", |row| row.version.as_str());
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(|tally| of(tally)).sum::<u64>();
        let perfect = tallies.iter().filter(|tally| tally.grade == Grade::Perfect).count();
        let _ = writeln!(
            text,
            "| {product} | {} | {} | {perfect} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            inline(version),
            tallies.len(),
            sum(|tally| tally.calls),
            sum(|tally| tally.answered),
            sum(|tally| tally.failed),
            sum(|tally| tally.lost),
            sum(|tally| tally.twice),
            sum(|tally| tally.ambiguous),
            sum(|tally| tally.reinitialized.into()),
            sum(|tally| u64::from(tally.blinks > 0)),
            sum(|tally| tally.orphans),
        );
    }
    text += "\nA product that fails fast is asked more often in the same time, so compare grades rather than sums.\n\n";
    text += &business(matrix);
    text
}

/// How busy the machine was, since seconds are only worth as much as it was quiet.
fn business(matrix: &Matrix) -> String {
    let mut loads: Vec<f64> =
        matrix.rows.iter().filter(|row| row.tally().is_some()).filter_map(|row| row.load).collect();
    loads.sort_by(f64::total_cmp);
    let (Some(median), Some(most)) = (loads.get(loads.len() / 2), loads.last()) else {
        return String::new();
    };
    let warning = if *most > BUSY {
        " Above 1 processes wait for each other: trust the grades more than the seconds."
    } else {
        ""
    };
    format!(
        "Load of the machine per processor while this was made: {median:.1} (median), {most:.1} (most).{warning}\n\n"
    )
}

fn overview(matrix: &Matrix) -> String {
    let products = matrix.products();
    let mut text =
        format!("## The matrix\n\n| scenario | server | {} |\n|---|---|", products.join(" | "));
    text += &"---|".repeat(products.len());
    text.push('\n');
    for scenario in Scenario::ALL {
        for way in scenario.transports().iter().map(|transport| Way::from(*transport)) {
            let rows: Vec<_> =
                products.iter().map(|name| matrix.find(name, *scenario, way)).collect();
            if rows.iter().all(Option::is_none) {
                continue;
            }
            let cells: Vec<_> =
                rows.into_iter().map(|row| row.map_or_else(|| "not run".into(), short)).collect();
            let anchor = scenario.name();
            let _ = writeln!(
                text,
                "| [{}](#{anchor}) | {} | {} |",
                scenario.title(),
                way.name(),
                cells.join(" | ")
            );
        }
    }
    text += "\nSeconds: from the end of the fault to the first good call, calls that were waiting included.\n\n";
    text
}

/// A cell of the overview.
pub(super) fn short(row: &Row) -> String {
    match &row.outcome {
        Outcome::Ran(tally) => {
            let back = tally.recovery_seconds.map(|seconds| format!(" {seconds:.2} s"));
            format!("{} {}{}", tally.grade.symbol(), tally.grade.word(), back.unwrap_or_default())
        }
        Outcome::NotApplicable(_) => "–".into(),
        Outcome::NotInstalled(_) => "not installed".into(),
        Outcome::DidNotStart(_) => "did not start".into(),
        Outcome::RunnerFailed(_) => "(runner failed)".into(),
    }
}

fn imperfect(matrix: &Matrix) -> String {
    let mut text = "\
## Where Evergate is not perfect

"
    .to_owned();
    let ours = matrix.rows.iter().filter(|row| row.product == Product::Evergate.name());
    let less = ours.filter(|row| match &row.outcome {
        Outcome::Ran(tally) => tally.grade != Grade::Perfect,
        Outcome::NotApplicable(_) => false,
        _ => true,
    });
    let lines: Vec<_> = less
        .map(|row| {
            let said = row.tally().and_then(|tally| tally.errors.first());
            let said = said.map(|(text, _)| format!(": `{}`", inline(text))).unwrap_or_default();
            let (scenario, way) = (row.scenario.title(), row.transport.name());
            let mix = if row.eras == Mix::default() {
                String::new()
            } else {
                format!(", {}", row.eras.title())
            };
            format!("- {scenario} ({way}{mix}): {}{said}\n", in_a_word(row))
        })
        .collect();
    if lines.is_empty() {
        text += "Nowhere in this run.\n\n";
    } else {
        text += &lines.concat();
        text.push('\n');
    }
    text
}

fn rules(matrix: &Matrix) -> String {
    let any_short = matrix.comparable().any(|row| row.short);
    let pace = matrix.rows.first().map_or(Pace::FULL, pace_of);
    let words =
        |list: &[&str]| list.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "\
## The rules

The same for every product.

- **The client** waits {deadline} s for an answer. Products that have a setting for how long a call may take are given \
{timeout} s, so that they can say what became of it first. A caller calls again {pause} ms after its last call ended; \
the tool list is looked at {look} ms after the last look.
- **Outage** {outage} s, **flapping** {flapping} s, **slow start** {slow} s. After the fault a product has {window} s \
to get a call through, plus the time that calls take which are waiting by then. Where calls were made all along, one \
more caller begins at the end of the fault, so that a call that is stuck does not hide that others work.
- **Re-initialize**: the client keeps its connection until the SDK says that it is closed, or a request fails with \
HTTP 404 or with one of these: {gone}. Then it makes a new one, and that is counted. An error that comes as the result \
of a tool (`isError`) is for the model, and no host reconnects because of it. A client without a handshake has nothing \
to begin again but what it listens on for changes; when that ends although the product was there, it is counted in the \
same way.
- **Answered**: the call's own result came. **Lost silently**: nothing came until the client's own deadline, or \
somebody else's result did.
- **Executed twice**: the server counted more than one execution of a call to a tool without annotations. A second \
execution of a tool with `idempotentHint` is noted and is no fault.
- **Ambiguous**: an error, for a call to a tool without annotations, that does not tell whether it ran. It tells if \
its message, data or causes contain one of {ran}; or one of {not_ran}. If it says that the call did not run and the \
server executed it, it counts as ambiguous too.
- **Inevitable**: a failed call that nobody in the product's place could have answered: its server was dead for good, \
or silent from its beginning to its end; or the product itself was away; or it must not be repeated and was under way \
when the fault struck (or in the {travel} ms after, in which nobody can know), which a call that says that it did not \
run was not. Such a call does not spoil a cell if its \
error is clear.
- **List blinked**: a look at the tool list that failed or lacked tools while the product was running.
- **Orphans**: processes that are alive after the client and then the product were ended in order (SIGTERM).
",
        deadline = pace.deadline.as_secs(),
        timeout = pace.product_timeout.as_secs(),
        pause = PAUSE.as_millis(),
        look = LOOK_EVERY.as_millis(),
        outage = pace.outage.as_secs(),
        flapping = pace.flapping.as_secs(),
        travel = TRAVEL.as_millis(),
        slow = pace.slow_start.as_secs_f64(),
        window = pace.window.as_secs(),
        gone = words(GONE),
        ran = words(MAY_HAVE_RUN),
        not_ran = words(DID_NOT_RUN),
    );
    if any_short {
        text += "- Rows marked *short* were made with the short form (`--short`): the same with shorter times.\n";
    }
    text.push('\n');
    text
}

fn details(matrix: &Matrix) -> String {
    let mut text = "## Scenario by scenario\n\n".to_owned();
    for scenario in Scenario::ALL {
        let rows: Vec<_> = matrix.comparable().filter(|row| row.scenario == *scenario).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "<a id=\"{}\"></a>\n\n### {}\n\n{}\n\n\
             | product | server | grade | calls | answered | failed (inevitable) | lost | twice (harmless) | ambiguous | \
             back after | longest error | new handshakes | list blinks | orphans | remarks |\n\
             |---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n",
            scenario.name(),
            title_case(scenario.title()),
            scenario.story(),
        );
        for row in rows {
            text += &detail(row);
        }
        text.push('\n');
    }
    text
}

fn detail(row: &Row) -> String {
    let (product, way) = (&row.product, row.transport.name());
    let Some(tally) = row.tally() else {
        let why = inline(first_line(&in_a_word(row)));
        return format!("| {product} | {way} | {why} | | | | | | | | | | | | |\n");
    };
    let seconds = |value: Option<f64>| {
        value.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.2} s"))
    };
    let mut remarks = Vec::new();
    if row.short {
        remarks.push("*short*".to_owned());
    }
    match tally.news {
        Some(News::Told) => remarks.push("told of the new tool".into()),
        Some(News::WhenAsked) => remarks.push("new tool only found by asking".into()),
        Some(News::Never) => remarks.push("list never changed".into()),
        None => {}
    }
    match tally.cured_by_new_client {
        Some(true) => remarks.push("a new client works".into()),
        Some(false) => remarks.push("a new client fails too".into()),
        None => {}
    }
    if let Some((said, count)) = tally.errors.first() {
        remarks.push(format!("{count} × `{}`", inline(said)));
    }
    format!(
        "| {product} | {way} | {} {} | {} | {} | {} ({}) | {} | {} ({}) | {} | {} | {} | {} | {} | {} | {} |\n",
        tally.grade.symbol(),
        tally.grade.word(),
        tally.calls,
        tally.answered,
        tally.failed,
        tally.inevitable,
        tally.lost,
        tally.twice,
        tally.repeated,
        tally.ambiguous,
        seconds(tally.recovery_seconds),
        seconds(tally.slowest_error_seconds),
        tally.reinitialized,
        tally.blinks,
        tally.orphans,
        remarks.join("; "),
    )
}

fn products(matrix: &Matrix) -> String {
    let mut text = "## The products and how they were set up\n\n".to_owned();
    for name in matrix.products() {
        let rows: Vec<&Row> = matrix.rows.iter().filter(|row| row.product == name).collect();
        let version = rows.last().map_or("-", |row| row.version.as_str());
        let date = rows.iter().map(|row| row.date.as_str()).max().unwrap_or("-");
        let _ = writeln!(text, "### {name}\n\nVersion {}, measured {date}.\n", inline(version));
        let product = Product::ALL.iter().find(|product| product.name() == name);
        for choice in product.into_iter().flat_map(|product| product.docs()) {
            let _ = writeln!(
                text,
                "- `{}`: {} ([documentation]({}))",
                choice.setting, choice.why, choice.url
            );
        }
        let mut reasons: Vec<&str> = rows
            .iter()
            .filter_map(|row| match &row.outcome {
                Outcome::NotApplicable(why) => Some(why.as_str()),
                _ => None,
            })
            .collect();
        reasons.sort_unstable();
        reasons.dedup();
        if !reasons.is_empty() {
            let _ = writeln!(text, "- n/a: {}", reasons.join("; "));
        }
        text.push('\n');
    }
    text
}

fn reproduce(_: &Matrix) -> String {
    "\
## Make it again

```sh
./scripts/faults                                    # everything
./scripts/faults --peer evergate --scenario outage  # one product, one scenario: replaces only those rows
./scripts/faults --peer evergate --eras modern-modern  # only that mix of revisions
./scripts/faults --list                             # what there is
```

It needs what `./scripts/test` needs. Peers are installed into `.peers/`. The rows are in
[fault-matrix.json](fault-matrix.json), each with the product's version and the day; the scenarios are in
`crates/evergate-proof/src/faults`. CI plays all of them in the short form with Evergate and fails on the first call that
is lost, executed twice or left unclear.
"
    .to_owned()
}

/// Text that does not break a table.
fn inline(text: &str) -> String {
    let text: String =
        text.replace('`', "'").replace('|', "/").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = text.chars().take(QUOTE_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn title_case(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
