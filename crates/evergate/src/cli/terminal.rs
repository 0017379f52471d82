//! What standard output is: how wide, whether colours make sense, and whether anybody still reads it.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use crate::exit_code::Failure;

/// How to write for whoever reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// Longer lines are shortened; `None` where nobody minds, as in a file.
    pub(super) width: Option<usize>,
    pub(super) height: Option<usize>,
    pub(super) colour: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

/// While it exists, the terminal shows another page without a cursor, to be drawn over; then what was there before.
#[derive(Debug)]
pub(super) struct Screen(());

/// Text that a person reads is not wider than this, however wide the terminal is.
pub(super) const COMFORTABLE: usize = 100;

/// How often to look whether anybody still reads: soon enough for `| head` to seem immediate.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The other page, no cursor, and lines that are cut at the edge.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Resolves once whoever read standard output has gone away, so that `evergate events | head` ends by itself.
pub(super) async fn reader_gone() {
    while !is_closed() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Resolves when somebody presses Ctrl-C, or ends the process otherwise: time to tidy up.
pub(super) async fn told_to_end() {
    #[cfg(unix)]
    if let Ok(mut terminate) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdout = std::io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let answered = poll(&mut asked, Some(&now));
    answered.is_ok() && asked[0].revents().contains(PollFlags::ERR)
}

#[cfg(not(unix))]
fn is_closed() -> bool {
    false
}

#[cfg(unix)]
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    let given = |number: u16| usize::from(number);
    // A terminal that does not know says zero.
    (size.ws_col > 0 && size.ws_row > 0).then(|| (given(size.ws_col), given(size.ws_row)))
}

#[cfg(not(unix))]
fn size() -> Option<(usize, usize)> {
    None
}

// === impl Style ===

impl Style {
    /// For standard output as it is now; a window may have another size the next time.
    pub(super) fn of_stdout() -> Self {
        let terminal = is_terminal();
        let size = if terminal { size() } else { None };
        let columns = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0);
        let usual = || terminal.then_some(80);
        Self {
            width: size.map(|(width, _)| width).or_else(columns).or_else(usual),
            height: size.map(|(_, height)| height),
            colour: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    pub(super) fn paint(&self, colour: Colour, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Bold => 1,
            Colour::Dim => 2,
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

// === impl Screen ===

impl Screen {
    pub(super) fn enter() -> Result<Self, Failure> {
        write(ENTER)?;
        Ok(Self(()))
    }

    /// Draws over what is there, line by line and in one piece, so that nothing flickers.
    #[expect(clippy::unused_self, reason = "there must be one to draw on")]
    pub(super) fn draw(&self, lines: &[String], style: Style) -> Result<(), Failure> {
        let height = style.height.unwrap_or(24).max(2);
        let mut frame = String::from("\x1b[H");
        let fits = lines.len() <= height;
        let shown = if fits { lines.len() } else { height - 1 };
        let more = format!("… and {} more lines: make the window taller", lines.len() - shown);
        let last = (!fits).then_some(&more);
        for (n, line) in lines[..shown].iter().chain(last).enumerate() {
            if n > 0 {
                frame.push_str("\r\n");
            }
            frame.push_str(line);
            frame.push_str("\x1b[K");
        }
        frame.push_str("\x1b[J");
        write(&frame)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to tidy up.
        let _ = write(LEAVE);
    }
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}
