//! A text in which every `${…}` is one character, so that what looks for secrets sees only what the text says itself.

/// In the place of a variable. Nothing that is given to a process can hold it.
pub(super) const HOLE: char = '\0';

pub(super) struct Masked {
    pub(super) text: String,
    references: Vec<String>,
}

// === impl Masked ===

impl Masked {
    pub(super) fn of(text: &str) -> Self {
        let mut masked = Self { text: String::with_capacity(text.len()), references: Vec::new() };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((inner, tail)) = after.split_once('}') else { break };
            masked.text.push_str(&before.replace(HOLE, "\u{fffd}"));
            masked.text.push(HOLE);
            masked.references.push(inner.to_owned());
            rest = tail;
        }
        masked.text.push_str(&rest.replace(HOLE, "\u{fffd}"));
        masked
    }

    /// What is between the brackets of each variable, with what stands before it.
    pub(super) fn references(&mut self) -> impl Iterator<Item = (&str, &mut String)> {
        let ends = self.text.match_indices(HOLE).map(|(at, _)| &self.text[..at]);
        ends.zip(&mut self.references)
    }

    /// The variables back in their places.
    pub(super) fn restored(&self, text: &str) -> String {
        let mut parts = text.split(HOLE);
        let mut restored = parts.next().unwrap_or_default().to_owned();
        for (part, reference) in parts.zip(&self.references) {
            restored.push_str("${");
            restored.push_str(reference);
            restored.push('}');
            restored.push_str(part);
        }
        restored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_come_back_where_they_were() {
        for text in ["", "a", "${A}", "x${A:-b/c}y${B}", "${A}${A}", "${ unclosed"] {
            let masked = Masked::of(text);
            assert_eq!(masked.restored(&masked.text), text);
        }
        let mut masked = Masked::of("a=${A} b=${B}");
        let seen: Vec<_> =
            masked.references().map(|(before, name)| (before.to_owned(), name.clone())).collect();
        assert_eq!(
            seen,
            [("a=".to_owned(), "A".to_owned()), ("a=\0 b=".to_owned(), "B".to_owned())]
        );
    }
}
