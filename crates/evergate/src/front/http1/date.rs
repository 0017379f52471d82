//! The time for the head of a response.

use std::cell::RefCell;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

thread_local! {
    /// The second it is for, and its text.
    static NOW: RefCell<(u64, Vec<u8>)> = const { RefCell::new((0, Vec::new())) };
}

/// Adds the time as a header. It is put into words once a second.
pub(super) fn extend(text: &mut Vec<u8>) {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    NOW.with_borrow_mut(|(written_at, written)| {
        if *written_at != second || written.is_empty() {
            written.clear();
            // Into memory: it cannot fail.
            let _ = write!(written, "date: {}\r\n", HttpDate::from(now));
            *written_at = second;
        }
        text.extend_from_slice(written);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_date_and_now() {
        let mut text = Vec::new();
        extend(&mut text);
        extend(&mut text);
        let text = String::from_utf8(text).unwrap();
        for line in text.lines() {
            let date = httpdate::parse_http_date(line.strip_prefix("date: ").unwrap()).unwrap();
            assert!(date.elapsed().unwrap().as_secs() < 3600);
        }
        assert_eq!(text.lines().count(), 2);
    }
}
