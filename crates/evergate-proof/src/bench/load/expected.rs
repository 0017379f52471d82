//! Whether an answer is the right one, at next to no cost.
//!
//! The first answer to a question is parsed and understood. What it looked like, with a hole where its id was, is kept;
//! an answer that looks the same, or an event that does, is right as well. One that does not is parsed again. Comparison
//! goes along with the reading, so a large answer is kept whole only if it comes as an event.

use std::rc::Rc;
use std::{iter, mem};

use anyhow::{Context as _, Result, bail, ensure};
use evergate_testkit::fast_text;
use memchr::{memchr, memmem};
use serde_json::Value;

/// What an answer must say.
#[derive(Debug, Clone)]
pub struct Expected {
    what: What,
    looks: Option<Rc<Looks>>,
}

#[derive(Debug, Clone)]
enum What {
    Text(String),
    Tools(usize),
}

/// An answer that was right, around its id.
#[derive(Debug, Clone)]
struct Looks {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// One answer on its way in.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// What it has looked like up to here. Others may find out meanwhile that answers can look different.
    like: Option<Rc<Looks>>,
    /// How much of it has been seen to look like that.
    at: usize,
    /// All of it, if it does not.
    whole: Vec<u8>,
    id: [u8; ID],
}

/// Digits of an id.
const ID: usize = 10;

// === impl Expected ===

impl Expected {
    /// A fast server's text.
    pub fn text(bytes: usize) -> Self {
        Self { what: What::Text(fast_text(bytes)), looks: None }
    }

    /// So many tools.
    pub fn tools(tools: usize) -> Self {
        Self { what: What::Tools(tools), looks: None }
    }

    pub(super) fn key(&self) -> String {
        match &self.what {
            What::Text(text) => format!("{} bytes", text.len()),
            What::Tools(tools) => format!("{tools} tools"),
        }
    }

    fn right(&self, message: &Value) -> Result<()> {
        let shown = || message.to_string().chars().take(300).collect::<String>();
        let result = message.get("result").with_context(shown)?;
        ensure!(result["isError"] != true, "{}", shown());
        match &self.what {
            What::Text(text) => ensure!(
                result["content"][0]["text"].as_str() == Some(text),
                "another text than {} bytes of the server's: {}",
                text.len(),
                shown()
            ),
            What::Tools(tools) => {
                // Some products add tools of their own.
                let listed = result["tools"].as_array().into_iter().flatten();
                let listed = listed.filter(|tool| is_of_the_server(tool)).count();
                ensure!(listed == *tools, "{listed} tools instead of {tools}");
            }
        }
        Ok(())
    }
}

/// Whether this is one of a fast-server's tools, whatever a product has put before its name.
fn is_of_the_server(tool: &Value) -> bool {
    let name = tool["name"].as_str().unwrap_or_default();
    name.ends_with("echo") || name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("tool")
}

// === impl Looks ===

impl Looks {
    /// The id of a message that looks like this.
    fn id_of(&self, message: &[u8]) -> Option<u64> {
        let (before, rest) = message.split_at_checked(self.before.len())?;
        let (id, after) = rest.split_at_checked(ID)?;
        let same = before == self.before && after == self.after;
        (same && id.iter().all(u8::is_ascii_digit)).then(|| number(id))
    }
}

// === impl Incoming ===

impl Incoming {
    /// Some bytes of the body.
    pub(super) fn take(&mut self, expected: &Expected, mut bytes: &[u8]) {
        if self.at == 0 && self.whole.is_empty() {
            self.like.clone_from(&expected.looks);
        }
        let Some(looks) = &self.like else {
            self.whole.extend_from_slice(bytes);
            return;
        };
        let head = looks.before.len();
        while !bytes.is_empty() {
            let (part, place) = if self.at < head {
                (&looks.before[self.at..], None)
            } else if self.at < head + ID {
                let digit = self.at - head;
                (&[0_u8; ID][digit..], Some(digit))
            } else {
                (&looks.after[self.at - head - ID..], None)
            };
            let length = part.len().min(bytes.len());
            let (now, later) = bytes.split_at(length);
            let same = match place {
                Some(digit) => {
                    self.id[digit..digit + length].copy_from_slice(now);
                    now.iter().all(u8::is_ascii_digit)
                }
                None => length > 0 && part[..length] == *now,
            };
            if !same {
                self.give_up();
                self.whole.extend_from_slice(bytes);
                return;
            }
            self.at += length;
            bytes = later;
        }
    }

    /// What was there up to here is kept from now on.
    fn give_up(&mut self) {
        if let Some(looks) = self.like.take() {
            let seen = looks.before.iter().chain(&self.id).chain(&looks.after);
            self.whole.extend(seen.take(self.at));
        }
    }

    /// The answer is complete: it must be right. Returns its id, and is ready for the next.
    pub(super) fn finish(&mut self, expected: &mut Expected) -> Result<u64> {
        if let Some(looks) = &self.like
            && self.at == looks.before.len() + ID + looks.after.len()
        {
            self.at = 0;
            return Ok(number(&self.id));
        }
        self.give_up();
        self.at = 0;
        let id = understand(&self.whole, expected);
        self.whole.clear();
        id
    }
}

/// The slow way.
fn understand(body: &[u8], expected: &mut Expected) -> Result<u64> {
    let looks = expected.looks.as_deref();
    if let Some(id) = looks.and_then(|looks| events(body).find_map(|event| looks.id_of(event))) {
        return Ok(id);
    }
    let message = response(body)?;
    expected.right(&message)?;
    let id = message["id"].as_u64().context("an answer without an id")?;
    if expected.looks.is_none() {
        let digits = id.to_string();
        let message = events(body).find(|event| memmem::find(event, b"\"result\"").is_some());
        let message = message.unwrap_or(body);
        let mut found = memmem::find_iter(message, &digits);
        if let (Some(at), None, ID) = (found.next(), found.next(), digits.len()) {
            let (before, after) = (message[..at].to_vec(), message[at + ID..].to_vec());
            expected.looks = Some(Rc::new(Looks { before, after }));
        }
    }
    Ok(id)
}

/// The data of events, as far as each is one line.
fn events(mut body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = iter::from_fn(move || {
        // Some are a million bytes long.
        let end = memchr(b'\n', body)?;
        let (line, rest) = body.split_at(end);
        body = &rest[1..];
        Some(line)
    });
    lines.filter_map(|line| Some(line.strip_prefix(b"data:")?.trim_ascii()))
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit.wrapping_sub(b'0')))
}

/// The JSON-RPC response in a body, be it JSON or an event stream.
pub(super) fn response(body: &[u8]) -> Result<Value> {
    if let Ok(message) = serde_json::from_slice(body) {
        return Ok(message);
    }
    let body = String::from_utf8_lossy(body);
    let mut data = String::new();
    for line in body.lines() {
        if let Some(more) = line.strip_prefix("data:") {
            data.push_str(more.strip_prefix(' ').unwrap_or(more));
        } else if line.is_empty() {
            match serde_json::from_str::<Value>(&mem::take(&mut data)) {
                Ok(message) if message.get("id").is_some() && message.get("method").is_none() => {
                    return Ok(message);
                }
                // A comment, something to begin with, or a notification.
                _ => {}
            }
        }
    }
    bail!("no answer in {:?}", body.chars().take(300).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Expected, Incoming};

    fn answer(id: u64, text: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    }

    fn take(
        expected: &mut Expected,
        body: &str,
        step: usize,
        incoming: &mut Incoming,
    ) -> anyhow::Result<u64> {
        for piece in body.as_bytes().chunks(step) {
            incoming.take(expected, piece);
        }
        incoming.finish(expected)
    }

    #[test]
    fn answers_that_look_like_the_first_are_right_in_pieces_of_any_size() {
        let text = evergate_testkit::fast_text(100);
        let (mut expected, mut incoming) = (Expected::text(100), Incoming::default());
        for step in [1000, 1, 3, 7, 40, 1000] {
            let id = 1_000_000_000 + step as u64;
            let body = answer(id, &text);
            assert_eq!(take(&mut expected, &body, step, &mut incoming).unwrap(), id);
        }
        assert!(expected.looks.is_some());
    }

    #[test]
    fn an_answer_that_looks_different_and_says_the_same_is_right() {
        let text = evergate_testkit::fast_text(100);
        let (mut expected, mut incoming) = (Expected::text(100), Incoming::default());
        let mut check = |body: &str| take(&mut expected, body, 11, &mut incoming).unwrap();
        assert_eq!(check(&answer(1_000_000_001, &text)), 1_000_000_001);
        let event = format!(": hello\n\nid: 7\ndata: {}\n\n", answer(1_000_000_002, &text));
        assert_eq!(check(&event), 1_000_000_002);
        assert_eq!(check(&answer(1_000_000_003, &text)), 1_000_000_003);
    }

    #[test]
    fn a_stream_is_understood_first_and_compared_later() {
        let text = evergate_testkit::fast_text(100);
        let (mut expected, mut incoming) = (Expected::text(100), Incoming::default());
        for id in 1_000_000_001..1_000_000_009 {
            let event = format!("id: {id}\nretry: 5\ndata: \n\ndata: {}\n\n", answer(id, &text));
            assert_eq!(take(&mut expected, &event, 50, &mut incoming).unwrap(), id);
            assert!(expected.looks.is_some());
        }
        let wrong = format!("data: {}\n\n", answer(1_000_000_009, "another"));
        assert!(take(&mut expected, &wrong, 50, &mut incoming).is_err());
    }

    #[test]
    fn every_tool_of_the_servers_must_be_listed_once_and_others_may_be() {
        let listed = |names: &[&str]| {
            let tools: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "jsonrpc": "2.0", "id": 1_000_000_001, "result": { "tools": tools } })
                .to_string()
        };
        let check = |names: &[&str]| {
            take(&mut Expected::tools(3), &listed(names), 40, &mut Incoming::default())
        };
        check(&["s0__echo", "s0__tool1", "s1__tool12", "proxy__config"]).unwrap();
        check(&["s0__echo", "s0__tool1", "proxy__config"]).unwrap_err();
        check(&["s0__echo", "s0__tool1", "s0__tool1", "s1__tool12"]).unwrap_err();
    }

    #[test]
    fn answers_may_begin_to_look_different_while_one_is_on_its_way() {
        let text = evergate_testkit::fast_text(100);
        let mut expected = Expected::text(100);
        let (mut first, mut second) = (Incoming::default(), Incoming::default());
        let body = answer(1_000_000_001, &text);
        first.take(&expected, &body.as_bytes()[..50]);
        take(&mut expected, &answer(1_000_000_002, &text), 1000, &mut second).unwrap();
        first.take(&expected, &body.as_bytes()[50..]);
        assert_eq!(first.finish(&mut expected).unwrap(), 1_000_000_001);
    }

    #[test]
    fn one_wrong_missing_or_additional_byte_is_noticed() {
        let text = evergate_testkit::fast_text(100);
        let right = answer(1_000_000_001, &text);
        for wrong in [
            right.replacen(&text[50..52], "!!", 1),
            right[..right.len() - 1].to_owned(),
            format!("{right}}}"),
            right.replace("result", "error"),
            String::new(),
        ] {
            for known in [false, true] {
                let (mut expected, mut incoming) = (Expected::text(100), Incoming::default());
                if known {
                    take(&mut expected, &right, 1000, &mut incoming).unwrap();
                }
                assert!(take(&mut expected, &wrong, 9, &mut incoming).is_err(), "{wrong}");
            }
        }
    }
}
