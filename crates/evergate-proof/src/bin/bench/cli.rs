//! The command line.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use evergate_proof::bench::{Bench, Measure, Results, instructions, report, say};
use evergate_proof::product::{Places, Product};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::single_load::SingleLoad;

/// Measures what Evergate and its peers cost, side by side in the same minutes.
///
/// Every product is put in front of the same fast server, one after the other is called for a fraction of a second,
/// and so on for some rounds; ratios are taken within a round, so that whatever else the machine does hits all alike.
/// Every answer is checked. Results go to docs/performance.md, docs/performance.json and docs/performance-*.svg; text
/// in performance.md outside the generated parts stays.
///
/// Products that are not installed are told of and left out. Ctrl-C keeps what was measured up to then.
#[derive(Debug, Parser)]
#[command(name = "bench", after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only this product (again for more); direct and nginx are measured as well, since ratios need them
    #[arg(long = "product", value_name = "NAME")]
    products: Vec<Product>,
    /// Only this measure (again for more)
    #[arg(long = "measure", value_name = "NAME")]
    measures: Vec<Measure>,
    /// How often every figure is taken
    #[arg(long, default_value_t = 7, default_value_if("short", "true", "3"))]
    rounds: usize,
    /// A few seconds of everything, with direct, nginx and Evergate only; prints and writes nothing
    #[arg(long)]
    short: bool,
    /// Print the tables and write nothing
    #[arg(long)]
    print: bool,
    /// Say which products and measures there are
    #[arg(long)]
    list: bool,
    /// The evergate program [default: beside this one]
    #[arg(long, value_name = "FILE")]
    evergate: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Counts the instructions of a call inside Evergate (needs valgrind) and says how they changed
    ///
    /// Writes docs/instructions.json and the table in docs/performance.md.
    Instructions {
        /// Say it and write nothing
        #[arg(long)]
        print: bool,
        /// Instructions only; allocations take as long again
        #[arg(long)]
        no_allocations: bool,
    },
    /// Calls a fast-server behind a URL and does nothing else, to be looked at by a profiler
    Load(SingleLoad),
}

const EXAMPLES: &str = "\
Examples:
  ./scripts/bench                                        everything; see --list
  ./scripts/bench --product evergate --measure json      one question
  ./scripts/bench --short                                does it work?
  fast-server & bench load http://127.0.0.1:PORT/mcp     what the load itself can do";

const DOCS: &str = "docs";

/// Long enough for thousands of small calls, short enough that a machine's mood does not change within a round.
const SLICE: Duration = Duration::from_millis(250);
const SHORT_SLICE: Duration = Duration::from_millis(60);

// === impl Cli ===

impl Cli {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match &self.command {
            Some(Command::Load(load)) => {
                load.run().await?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(Command::Instructions { print, no_allocations }) => {
                let counts = instructions::count(&self.places()?, !no_allocations).await?;
                let path = Path::new(DOCS).join("instructions.json");
                let old = std::fs::read(&path).ok();
                let old = old.and_then(|text| serde_json::from_slice(&text).ok());
                let told = instructions::compared(&old.unwrap_or_default(), &counts);
                std::io::stdout().write_all(told.as_bytes())?;
                if !print {
                    std::fs::write(path, serde_json::to_string_pretty(&counts)? + "\n")?;
                    report::write_instructions(Path::new(DOCS), &counts)?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            None => {}
        }
        if self.list {
            return Ok(list());
        }
        let bench = self.bench()?;
        // Thousands of sessions have connections at both ends. What is started inherits the limit.
        let files = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files })?;
        let folder = Path::new(DOCS);
        let written = !self.short && !self.print;
        // What is not measured this time stays as it was.
        let mut results = if written { report::read(folder)? } else { Results::default() };
        bench.describe(&mut results);
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let interrupted = tokio::select! {
            () = bench.run(&mut results) => false,
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
        };
        write!(std::io::stdout(), "\n{}", report::print(&results, &bench.measures))?;
        if written {
            report::write(folder, &results)?;
            say("written: docs/performance.md, docs/performance.json, docs/performance-*.svg");
        }
        if interrupted {
            say("interrupted: what was measured up to then is kept");
            return Ok(ExitCode::from(130));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn places(&self) -> anyhow::Result<Places> {
        let beside = std::env::current_exe()?.with_file_name("evergate");
        let peers = std::env::var_os("EVERGATE_PEERS_DIR").unwrap_or_else(|| ".peers".into());
        Ok(Places {
            evergate: std::path::absolute(self.evergate.clone().unwrap_or(beside))?,
            peers: std::path::absolute(PathBuf::from(peers))?,
        })
    }

    fn bench(&self) -> anyhow::Result<Bench> {
        let places = self.places()?;
        let wanted = |product: &Product| match product {
            Product::Direct | Product::Nginx => true,
            Product::Evergate if self.short => true,
            _ if self.products.is_empty() => !self.short,
            product => self.products.contains(product),
        };
        Ok(Bench {
            places,
            products: Product::ALL.iter().copied().filter(wanted).collect(),
            measures: if self.measures.is_empty() {
                Measure::ALL.to_vec()
            } else {
                self.measures.clone()
            },
            rounds: self.rounds,
            slice: if self.short { SHORT_SLICE } else { SLICE },
            short: self.short,
        })
    }
}

fn list() -> ExitCode {
    for product in Product::ALL {
        say(&format!("product {product}"));
    }
    for measure in Measure::ALL {
        say(&format!("measure {:10} {}", measure.name(), measure.about()));
    }
    ExitCode::SUCCESS
}
