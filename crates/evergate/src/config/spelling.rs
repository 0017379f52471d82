//! Which word a mistyped one was meant to be.

/// The known word that a mistyped one is closest to, if it is close at all.
pub(crate) fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let close = known.map(|candidate| (distance(key, candidate), candidate));
    close.filter(|(distance, _)| *distance <= 2).min().map(|(_, candidate)| candidate)
}

/// Edits that lead from one word to the other, in letters regardless of case.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.chars().count()]
}
