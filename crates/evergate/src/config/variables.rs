//! `${VAR}`, `${VAR:-default}` and `${env:VAR}`.

/// Why a text cannot be completed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unset {
    /// This variable is not set and has no default.
    Variable(String),
    /// The text is not well formed.
    Malformed,
}

pub(super) fn expand(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<String, Unset> {
    // Most texts have none, and this is found sooner than two characters are.
    if !text.contains('$') {
        return Ok(text.to_owned());
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inner, tail) = after.split_once('}').ok_or(Unset::Malformed)?;
        let inner = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if name.is_empty() {
            return Err(Unset::Malformed);
        }
        // As in a shell, `:-` also stands in for a variable that is set to nothing.
        let value = environment(name).filter(|value| default.is_none() || !value.is_empty());
        let value = value.or_else(|| default.map(str::to_owned));
        expanded.push_str(before);
        expanded.push_str(&value.ok_or_else(|| Unset::Variable(name.to_owned()))?);
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(expanded)
}
