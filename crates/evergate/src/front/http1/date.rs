//! The time for the head of a response.

use std::cell::RefCell;
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evergate_runtime::moment;
use httpdate::HttpDate;
use tokio::time::Instant;

thread_local! {
    /// Until when it is right, and its text.
    static NOW: RefCell<(Option<Instant>, Vec<u8>)> = const { RefCell::new((None, Vec::new())) };
}

/// Adds the time as a header. It is put into words once a second.
pub(super) fn extend(text: &mut Vec<u8>) {
    let now = moment::now();
    NOW.with_borrow_mut(|(until, written)| {
        if until.is_none_or(|until| until <= now) {
            let date = SystemTime::now();
            written.clear();
            // Into memory: it cannot fail.
            let _ = write!(written, "date: {}\r\n", HttpDate::from(date));
            let begun = date.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
            *until = Some(now + Duration::from_secs(1) - Duration::from_nanos(begun.into()));
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
