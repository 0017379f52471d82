//! What there is to say about a file, and where.

use std::fmt;

/// Something to say about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The file, if there is more than one.
    pub(crate) file: Option<String>,
    /// Where, as in `mcpServers.docs.url`.
    pub(crate) path: String,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Nothing starts.
    Error,
    /// It works, though perhaps not as meant.
    Warning,
    /// How something that can be read in two ways was understood.
    Note,
}

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{severity}: ")?;
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}
