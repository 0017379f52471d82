//! How much of what servers log a client wants to hear.

/// From the least important on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

const NAMES: [(&str, Level); 8] = [
    ("debug", Level::Debug),
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warning", Level::Warning),
    ("error", Level::Error),
    ("critical", Level::Critical),
    ("alert", Level::Alert),
    ("emergency", Level::Emergency),
];

// === impl Level ===

impl Level {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, level)| *level)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels_agree() {
        for (name, level) in NAMES {
            assert_eq!(Level::parse(name), Some(level));
            assert_eq!(level.name(), name);
        }
        assert_eq!(Level::parse("loud"), None);
        assert!(Level::Debug < Level::Emergency);
    }
}
