//! The server on standard input and output: all requests that have come are answered with one write.

use std::io::{self, BufRead as _, BufReader, Read, Write};

use super::{Answer, FastServer};

/// As large as what a pipe holds.
const PIPE: usize = 64 * 1024;

// === impl FastServer ===

impl FastServer {
    /// Answers one message per line until the input ends.
    pub fn serve_stdio(&self, input: impl Read, mut output: impl Write) -> io::Result<()> {
        let mut input = BufReader::with_capacity(PIPE, input);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        while input.read_until(b'\n', &mut line)? > 0 {
            match self.answer(&line) {
                Answer::Response(pieces) | Answer::Initialized(pieces) => {
                    for piece in [&pieces.before[..], &pieces.result, &pieces.after, b"\n"] {
                        out.extend_from_slice(piece);
                    }
                }
                Answer::Nothing | Answer::Unreadable => {}
            }
            line.clear();
            if !input.buffer().contains(&b'\n') || out.len() > PIPE {
                output.write_all(&out)?;
                output.flush()?;
                out.clear();
            }
        }
        Ok(())
    }
}
