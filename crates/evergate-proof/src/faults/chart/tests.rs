use super::*;
use crate::faults::sample::matrix;

/// Every element is closed by its own end, and no text has a bare special character.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in xml.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag that does not end");
        assert!(!text.contains('>') || open.last() == Some(&"style"), "{text}");
        let entities = ["&amp;", "&lt;", "&quot;"];
        let bare = text
            .match_indices('&')
            .any(|(at, _)| !entities.iter().any(|one| text[at..].starts_with(one)));
        assert!(!bare, "{text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

#[test]
fn the_chart_is_well_formed_and_has_a_word_for_every_cell() {
    let svg = svg(&matrix());
    assert_well_formed(&svg);
    for word in [
        "perfect",
        "lost",
        "never",
        "n/a",
        "not installed",
        "no start",
        "not run",
        "server down, then back",
    ] {
        assert!(svg.contains(&format!(">{word}<")), "no {word}");
    }
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn every_grade_has_a_shape_and_a_style_of_its_own() {
    let shapes: std::collections::BTreeSet<_> =
        Grade::ALL.iter().map(|grade| shape(*grade, 0, 0)).collect();
    assert_eq!(shapes.len(), Grade::ALL.len());
    for grade in Grade::ALL {
        assert_eq!(STYLE.matches(&format!(".{} rect", grade.word())).count(), 2, "light and dark");
    }
}

#[test]
fn an_empty_matrix_is_a_chart_too() {
    assert_well_formed(&svg(&Matrix::default()));
}
