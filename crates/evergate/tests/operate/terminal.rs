//! On a terminal: colours, its width, a page that is drawn over and put away again.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::shell::{child, on, serving, signal};
use crate::support::{Gateway, until};

/// A command on a terminal of 30 lines of 60 characters, and everything it wrote.
struct Screen {
    child: Child,
    shown: Arc<Mutex<String>>,
}

impl Screen {
    fn start(gateway: &Gateway, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_evergate"));
        command.args(args).arg("--state-dir").arg(gateway.state_dir());
        command.env_remove("NO_COLOR").envs(variables.iter().copied());
        let child =
            command.stdin(Stdio::null()).stdout(slave).stderr(Stdio::null()).spawn().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let sink = shown.clone();
        std::thread::spawn(move || read_all(master, &sink));
        Self { child, shown }
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    async fn shows(&self, text: &str) {
        until(&format!("{text:?} is shown"), async || self.shown().contains(text)).await;
    }

    async fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("it ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().code()
    }
}

fn read_all(master: OwnedFd, sink: &Mutex<String>) {
    let (mut master, mut buffer) = (File::from(master), [0; 4096]);
    // Reading ends with an error when nobody has the terminal any more.
    while let Ok(read) = master.read(&mut buffer)
        && read > 0
    {
        sink.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

#[tokio::test]
async fn a_table_has_colours_unless_they_are_not_wanted_and_keeps_to_the_width() {
    let ghost = json!({ "command": "/a/path/that/is/so/long/that/it/does/not/fit/on/a/line/of/this/terminal" });
    let gateway = serving(json!({ "docs": child(&[]), "ghost": ghost }), &["docs"]).await;
    crate::shell::reaches(&gateway, "ghost", "permanently_failed").await;
    let mut coloured = Screen::start(&gateway, &["status"], &[]);
    assert_eq!(coloured.ended().await, Some(1));
    coloured.shows("\x1b[31m✖\x1b[0m ghost").await;
    coloured.shows("`evergate why ghost` says more").await;
    let mut plain = Screen::start(&gateway, &["status"], &[("NO_COLOR", "1")]);
    assert_eq!(plain.ended().await, Some(1));
    plain.shows("● docs").await;
    let shown = plain.shown();
    assert!(!shown.contains('\x1b'), "{shown:?}");
    let first = shown.lines().find(|line| line.contains("ghost")).unwrap();
    assert!(first.starts_with("✖ ghost"), "{shown}");
    let why = shown.lines().find(|line| line.contains("could not start")).unwrap().trim_end();
    assert!(why.ends_with('…') && why.chars().count() <= 60, "{why}");
}

#[tokio::test]
async fn watching_draws_over_and_puts_the_terminal_back() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let mut watching = Screen::start(&gateway, &["status", "--watch"], &[("NO_COLOR", "1")]);
    watching.shows("● docs").await;
    assert_eq!(on(&gateway, &["disable", "docs"]).code, 0);
    watching.shows("○ docs").await;
    signal(watching.child.id(), Signal::INT);
    assert_eq!(watching.ended().await, Some(0));
    // The page comes first, what was there before comes back, and the last table stays readable.
    watching.shows("\x1b[?1049l").await;
    until("the last table", async || {
        watching.shown().rsplit("\x1b[?1049l").next().is_some_and(|rest| rest.contains("○ docs"))
    })
    .await;
    let shown = watching.shown();
    assert!(shown.starts_with("\x1b[?1049h\x1b[?25l"), "{shown:?}");
    assert!(shown.contains("\x1b[?25h"), "the cursor is back: {shown:?}");
    assert_eq!(shown.matches("\x1b[2J").count(), 1, "nothing flickers: {shown:?}");
}
