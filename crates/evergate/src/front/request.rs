//! A client's request over HTTP.

use std::ops::Range;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use smallvec::SmallVec;

/// A request, whose body may still be on its way.
#[derive(Debug)]
pub(crate) struct Request<B> {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    /// HTTP/1.0, which knows no chunks.
    pub(crate) is_old: bool,
    pub(crate) headers: Headers,
    pub(crate) body: B,
}

/// The headers of a request, where they came in. There are few, and each is looked for once or never: going through them takes
/// less than putting them into a map.
#[derive(Clone, Default)]
pub(crate) struct Headers {
    text: Bytes,
    fields: SmallVec<[Field; USUAL]>,
}

/// Where a header is in the text.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: Span,
    value: Span,
}

/// A part of a text that is no longer than 64 KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    start: u16,
    end: u16,
}

/// As many headers as most clients send, or more.
const USUAL: usize = 12;

/// The text of a header, if all of it can be seen.
pub(crate) fn visible(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    // All of them, also after one that cannot: many at a time are looked at in less than one by one.
    let is_visible = |all, byte: &u8| all & matches!(byte, b'\t' | b' '..=b'~');
    value.iter().fold(true, is_visible).then_some(text)
}

// === impl Span ===

impl Span {
    /// Where a part of `whole` is in it; `None` if that is too far.
    pub(super) fn of(part: &[u8], whole: &[u8]) -> Option<Self> {
        let start = part.as_ptr().addr() - whole.as_ptr().addr();
        let end = u16::try_from(start + part.len()).ok()?;
        // It comes before the end.
        Some(Self { start: u16::try_from(start).ok()?, end })
    }

    pub(super) fn slice(self, whole: &Bytes) -> Bytes {
        whole.slice(usize::from(self.start)..self.end.into())
    }

    fn within(self, whole: &[u8]) -> &[u8] {
        &whole[self.start.into()..self.end.into()]
    }
}

// === impl Headers ===

impl Headers {
    /// Adds one that is in the text which is to follow.
    pub(super) fn add(&mut self, name: Span, value: Span) {
        self.fields.push(Field { name, value });
    }

    /// The text in which those that were added are.
    pub(super) fn set_text(&mut self, text: Bytes) {
        self.text = text;
    }

    /// The text in which they are.
    pub(super) fn all_text(&self) -> &[u8] {
        &self.text
    }

    /// Where in it the value of the first of that name is.
    pub(super) fn place_of(&self, name: &str) -> Option<Range<usize>> {
        let field = self.fields.iter().find(|field| self.is_called(**field, name))?;
        Some(field.value.start.into()..field.value.end.into())
    }

    pub(super) fn without_text(&self) -> Self {
        Self { text: Bytes::new(), fields: self.fields.clone() }
    }

    /// The same in a text that has another number of digits in one place, and is otherwise the same.
    pub(super) fn moved_to(&self, text: Bytes, place: &Range<usize>, digits: usize) -> Self {
        let mut fields = SmallVec::from_slice(&self.fields);
        if digits != place.len() {
            let moved = |at: u16| {
                let from = usize::from(at);
                let at = if from >= place.end { from + digits - place.len() } else { from };
                // Heads that are kept are short.
                u16::try_from(at).unwrap_or_default()
            };
            for Field { name, value } in &mut fields {
                *name = Span { start: moved(name.start), end: moved(name.end) };
                *value = Span { start: moved(value.start), end: moved(value.end) };
            }
        }
        Self { text, fields }
    }

    /// The first of that name, which is in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        let field = self.fields.iter().find(|field| self.is_called(**field, name))?;
        Some(field.value.within(&self.text))
    }

    /// Its text, if it can be seen.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(visible)
    }

    pub(crate) fn get_all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let called = self.fields.iter().filter(move |field| self.is_called(**field, name));
        called.map(|field| field.value.within(&self.text))
    }

    /// The only one of that name; an error if there are several.
    pub(crate) fn only<E>(&self, name: &str, several: E) -> Result<Option<&[u8]>, E> {
        let mut only = None;
        for field in self.fields.iter().filter(|field| self.is_called(**field, name)) {
            if only.replace(field.value).is_some() {
                return Err(several);
            }
        }
        Ok(only.map(|value| value.within(&self.text)))
    }

    /// Takes those of that name out which are not to be kept.
    pub(crate) fn retain(&mut self, name: &str, keep: impl Fn(&[u8]) -> bool) {
        let mut fields = std::mem::take(&mut self.fields);
        fields
            .retain(|field| !self.is_called(*field, name) || keep(field.value.within(&self.text)));
        self.fields = fields;
    }

    /// In memory of their own, for those who keep them: all of the request would stay with them. Nothing that a client sends
    /// along prints.
    pub(crate) fn to_map(&self) -> HeaderMap {
        self.to_map_of(|_| true)
    }

    /// The same of some of them.
    pub(crate) fn to_map_of(&self, wanted: impl Fn(&HeaderName) -> bool) -> HeaderMap {
        let copy = |field: &Field| {
            let name = HeaderName::from_bytes(field.name.within(&self.text)).ok()?;
            let mut value = HeaderValue::from_bytes(field.value.within(&self.text)).ok()?;
            value.set_sensitive(true);
            wanted(&name).then_some((name, value))
        };
        let mut map = HeaderMap::new();
        for (name, value) in self.fields.iter().filter_map(copy) {
            map.append(name, value);
        }
        map
    }

    fn is_called(&self, field: Field, name: &str) -> bool {
        // Nearly all that are not meant are of another length.
        let (start, end) = (usize::from(field.name.start), usize::from(field.name.end));
        if end - start != name.len() {
            return false;
        }
        let (own, name) = (&self.text[start..end], name.as_bytes());
        // As most write it, which is seen at once.
        own == name || own.eq_ignore_ascii_case(name)
    }
}

impl std::fmt::Debug for Headers {
    /// There are keys among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} headers", self.fields.len())
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut text = Vec::new();
        let mut place = |part: &[u8]| {
            let start = text.len();
            text.extend_from_slice(part);
            Span::of(&text[start..], &text)
        };
        let mut fields = SmallVec::new();
        for (name, value) in pairs {
            if let (Some(name), Some(value)) = (place(name.as_ref()), place(value.as_ref())) {
                fields.push(Field { name, value });
            }
        }
        Self { text: text.into(), fields }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_whatever_their_case() {
        let mut headers = Headers::from_iter([
            ("Accept", "a"),
            ("x-key", "1"),
            ("ACCEPT", "b"),
            ("X-Key", "2"),
            ("accep", "no"),
            ("odd", "\u{e4}"),
        ]);
        assert_eq!(headers.get("accept"), Some(&b"a"[..]));
        assert_eq!(headers.get_all("accept").collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!((headers.get("host"), headers.text("odd")), (None, None));
        assert_eq!((headers.only("accept", ()), headers.only("host", ())), (Err(()), Ok(None)));
        headers.retain("x-key", |value| value != b"1");
        assert_eq!(headers.only("x-key", ()), Ok(Some(&b"2"[..])));
        let map = headers.to_map();
        assert_eq!(map.get_all("accept").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((map.len(), map["x-key"].is_sensitive()), (5, true));
        assert_eq!(headers.to_map_of(|name| name == "accep").len(), 1);
    }
}
