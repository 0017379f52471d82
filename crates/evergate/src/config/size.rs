//! How much: `"512KiB"`, `"4MiB"`, or a number of bytes.

use serde_json::Value;

const UNITS: &[(&str, usize)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

pub(super) fn read(value: &Value) -> Result<usize, String> {
    let size = match value {
        Value::Number(number) => number.as_u64().and_then(|bytes| usize::try_from(bytes).ok()),
        Value::String(text) => parse(text.trim()),
        _ => None,
    };
    size.ok_or_else(|| {
        format!("{value} is not a size: write bytes as a number, or \"512KiB\", \"4MiB\"")
    })
}

fn parse(text: &str) -> Option<usize> {
    let found = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, unit) = found.unwrap_or((text, 1));
    number.trim().parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_numbers_of_bytes_or_have_a_unit() {
        let rows = [
            (json!(512), Some(512)),
            (json!("512"), Some(512)),
            (json!("512B"), Some(512)),
            (json!("512KiB"), Some(524_288)),
            (json!("4 MiB"), Some(4_194_304)),
            (json!("1GB"), Some(1_000_000_000)),
            (json!(0), Some(0)),
            (json!(-1), None),
            (json!(1.5), None),
            (json!("4M"), None),
            (json!("99999999999999999999GiB"), None),
            (json!(["4MiB"]), None),
        ];
        for (value, expected) in rows {
            assert_eq!(read(&value).ok(), expected, "{value}");
        }
    }
}
