//! What commands say of times, states and texts of others.

use crate::admin::model::{Breaker, ServerReport, ServerState};
use crate::cli::terminal::Colour;

/// How a server's state is shown: never by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) symbol: char,
    pub(super) word: &'static str,
    pub(super) colour: Colour,
    /// What needs looking at comes first.
    pub(super) rank: u8,
}

/// The last rank that needs looking at.
const LAST_TROUBLE: u8 = 4;
const WELL: u8 = 5;

pub(super) fn look(server: &ServerReport) -> Look {
    if server.state == ServerState::Connected && refusing(server).is_some() {
        return Look {
            symbol: '◐',
            word: "rate limited",
            colour: Colour::Yellow,
            rank: LAST_TROUBLE,
        };
    }
    let may_fail = matches!(server.state, ServerState::Connected | ServerState::PerClient);
    if may_fail && server.degraded {
        return Look { symbol: '◐', word: "failing", colour: Colour::Yellow, rank: LAST_TROUBLE };
    }
    let look = state_look(server.state);
    // One that has just been started is not in trouble.
    if server.starting { Look { rank: WELL, ..look } } else { look }
}

pub(super) fn state_look(state: ServerState) -> Look {
    let (symbol, colour, rank) = match state {
        ServerState::Unusable | ServerState::PermanentlyFailed => ('✖', Colour::Red, 0),
        ServerState::Disconnected => ('✖', Colour::Red, 1),
        ServerState::Reconnecting => ('◐', Colour::Yellow, 2),
        ServerState::Connecting => ('◐', Colour::Yellow, 3),
        // Whether that is trouble its gateway knows.
        ServerState::Unknown => ('?', Colour::Yellow, WELL),
        ServerState::Connected | ServerState::PerClient => ('●', Colour::Green, WELL),
        ServerState::Disabling => ('○', Colour::Dim, 6),
        ServerState::Disabled => ('○', Colour::Dim, 7),
    };
    Look { symbol, word: state.word(), colour, rank }
}

/// Why calls to it are refused now, if they are.
pub(super) fn refusing(server: &ServerReport) -> Option<&Breaker> {
    server.breaker.as_ref().filter(|breaker| breaker.open)
}

/// Whether a person should look at it.
pub(super) fn is_troubled(server: &ServerReport) -> bool {
    look(server).rank <= LAST_TROUBLE
}

/// `4 s`, `3 min 20 s`, `12 min`, `2 h 3 min`, `5 d 4 h`.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: u64, name: &str, small: u64, small_name: &str| match small {
        0 => format!("{large} {name}"),
        small => format!("{large} {name} {small} {small_name}"),
    };
    match () {
        () if seconds < 60 => format!("{seconds} s"),
        () if minutes < 10 => two(minutes, "min", seconds % 60, "s"),
        () if hours < 1 => format!("{minutes} min"),
        () if days < 1 => two(hours, "h", minutes % 60, "min"),
        () => two(days, "d", hours % 24, "h"),
    }
}

/// How long until something: rounded up, for nobody believes "in 0 s".
pub(super) fn countdown(ms: u64) -> String {
    if ms == 0 { "now".to_owned() } else { format!("in {}", span(ms.div_ceil(1000) * 1000)) }
}

/// In the same form as the gateway's logs: `2026-07-31T12:03:44.123Z`.
pub(super) fn moment(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (days, of_day) = (seconds / 86400, seconds % 86400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The Gregorian calendar, counted in years that begin in March, so that the leap day is the last.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days_since_1970 + 719_468;
    let (era, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day - first + 1)
}

/// `1 call`, `2 calls`.
pub(super) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// On one line, without anything that a terminal would obey or that would reorder what is around it: servers write what
/// they like, colours included.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => skip_sequence(&mut chars),
            '\t' | '\n' => out.push(' '),
            c if c.is_control() => {}
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => out.push(c),
        }
    }
    out
}

fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        // Up to its final character.
        Some('[') => drop(chars.find(|c| ('\x40'..='\x7e').contains(c))),
        // A title or a link: up to a bell, or an escape with a backslash.
        Some(']') if chars.find(|c| matches!(c, '\x07' | '\x1b')) == Some('\x1b') => {
            chars.next();
        }
        _ => {}
    }
}

/// The beginning, if the whole is too long.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// In lines of at most this width, broken between words where that is possible.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let space = usize::from(used > 0);
            let Some(line) = lines.last_mut() else { break };
            if used + space + word.len() <= width {
                line.extend(std::iter::repeat_n(' ', space).chain(word.iter().copied()));
                used += space + word.len();
                break;
            }
            if used == 0 {
                line.extend(word.drain(..width));
            }
            lines.push(String::new());
            used = 0;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_read_well() {
        let texts =
            [0, 4_999, 60_000, 200_000, 720_000, 3_600_000, 7_380_000, 86_400_000, 446_400_000];
        let spans = texts.map(span);
        let expected =
            ["0 s", "4 s", "1 min", "3 min 20 s", "12 min", "1 h", "2 h 3 min", "1 d", "5 d 4 h"];
        assert_eq!(spans, expected);
        assert_eq!([0, 1, 1000, 1001].map(countdown), ["now", "in 1 s", "in 1 s", "in 2 s"]);
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(moment(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(moment(1_785_499_424_123), "2026-07-31T12:03:44.123Z");
        assert_eq!(moment(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        assert_eq!(moment(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(clean("\x1b[31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;a\x1b\\y\x1b(B"), "red xyB");
        assert_eq!(clean("a\tb\r\nc\u{202e}d\u{9b}"), "a b cd");
        assert_eq!(clean("\x1b["), "");
    }

    #[test]
    fn what_is_too_long_is_cut_or_wrapped() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("longer", 5), "long…");
        assert_eq!(shorten("two words", 5), "two…");
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 4), ["unbr", "eaka", "ble"]);
        assert_eq!(wrap("", 4), [""]);
    }

    proptest! {
        #[test]
        fn wrapping_loses_nothing_and_keeps_the_width(text in "[a-zäß ]{0,60}", width in 1_usize..20) {
            let lines = wrap(&text, width);
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width));
        }

        #[test]
        fn cleaning_leaves_no_control(text in ".*") {
            prop_assert!(!clean(&text).chars().any(char::is_control));
        }
    }
}
