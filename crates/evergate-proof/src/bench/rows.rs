//! What was found out: rows of figures, one value for each round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything that is kept, as it stands in `performance.json`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// Where it was measured.
    pub machine: String,
    /// The day.
    pub date: String,
    /// Each product's version, or why there is none.
    pub products: BTreeMap<String, String>,
    /// One for each product and case.
    pub rows: Vec<Row>,
}

/// One product in one case of one measure.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Row {
    /// Such as `json`.
    pub measure: String,
    /// Such as `100 B, 16 callers`.
    pub case: String,
    /// Its name.
    pub product: String,
    /// By name, one value for each round.
    pub figures: BTreeMap<String, Vec<f64>>,
    /// The same divided by those of `direct` in the same round.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub to_direct: BTreeMap<String, Vec<f64>>,
    /// The same divided by those of `nginx` in the same round.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub to_nginx: BTreeMap<String, Vec<f64>>,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The middle of some values, and the outermost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The least.
    pub low: f64,
    /// The median.
    pub middle: f64,
    /// The largest.
    pub high: f64,
}

// === impl Results ===

impl Results {
    /// A line for each row, so that changes can be looked at.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let rows = self.rows.iter().map(Row::to_json).collect::<serde_json::Result<Vec<_>>>()?;
        let outline = serde_json::to_string_pretty(&Self { rows: Vec::new(), ..self.clone() })?;
        let rows = format!("\"rows\": [\n    {}\n  ]", rows.join(",\n    "));
        Ok(outline.replace("\"rows\": []", &rows) + "\n")
    }

    /// Puts a row in place of the one of the same case, or behind all others.
    pub fn put(&mut self, row: Row) {
        match self.rows.iter_mut().find(|known| known.is_of(&row.measure, &row.case, &row.product))
        {
            Some(known) => *known = row,
            None => self.rows.push(row),
        }
    }

    /// Puts the rows of one case, with what they are in relation to each other.
    pub fn put_case(&mut self, mut rows: Vec<Row>) {
        let of = |name: &str| rows.iter().find(|row| row.product == name).cloned();
        let (direct, nginx) = (of("direct"), of("nginx"));
        for row in &mut rows {
            row.to_direct = row.relative_to(direct.as_ref());
            row.to_nginx = row.relative_to(nginx.as_ref());
        }
        for row in rows {
            self.put(row);
        }
    }

    /// Removes a row.
    pub fn forget(&mut self, measure: &str, case: &str, product: &str) {
        self.rows.retain(|row| !row.is_of(measure, case, product));
    }

    /// The row of a product in a case.
    pub fn get(&self, measure: &str, case: &str, product: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.is_of(measure, case, product))
    }

    /// The cases of a measure, in the order in which they were measured.
    pub fn cases(&self, measure: &str) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| row.measure == measure) {
            if !cases.contains(&&*row.case) {
                cases.push(&row.case);
            }
        }
        cases
    }
}

// === impl Row ===

impl Row {
    /// Without figures yet.
    pub fn new(measure: &str, case: &str, product: &str) -> Self {
        Self {
            measure: measure.to_owned(),
            case: case.to_owned(),
            product: product.to_owned(),
            ..Self::default()
        }
    }

    /// One value more.
    pub fn add(&mut self, figure: &str, value: f64) {
        self.figures.entry(figure.to_owned()).or_default().push(value);
    }

    /// The figure over all rounds.
    pub fn figure(&self, name: &str) -> Option<Spread> {
        self.figures.get(name).and_then(|values| Spread::of(values))
    }

    /// Four digits are more than was measured.
    fn to_json(&self) -> serde_json::Result<String> {
        let mut row = self.clone();
        for figures in [&mut row.figures, &mut row.to_direct, &mut row.to_nginx] {
            for value in figures.values_mut().flatten() {
                let digits = 4.0 - value.abs().max(1e-9).log10().ceil();
                let scale = 10_f64.powf(digits);
                *value =
                    if digits > 0.0 { (*value * scale).round() / scale } else { value.round() };
            }
        }
        serde_json::to_string(&row)
    }

    fn is_of(&self, measure: &str, case: &str, product: &str) -> bool {
        self.measure == measure && self.case == case && self.product == product
    }

    /// Round by round. What has a different number of rounds was not measured at the same time.
    fn relative_to(&self, other: Option<&Self>) -> BTreeMap<String, Vec<f64>> {
        let Some(other) = other else { return BTreeMap::new() };
        let both = self.figures.iter().filter_map(|(name, mine)| {
            let theirs = other.figures.get(name).filter(|theirs| theirs.len() == mine.len())?;
            let ratios: Vec<f64> = mine.iter().zip(theirs).map(|(a, b)| a / b).collect();
            // Nothing is in no relation to nothing, and JSON has no word for it.
            ratios.iter().all(|ratio| ratio.is_finite()).then(|| (name.clone(), ratios))
        });
        both.collect()
    }
}

// === impl Spread ===

impl Spread {
    /// Of all values; nothing if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { low, middle, high })
    }
}

#[cfg(test)]
mod tests {
    use super::{Results, Row, Spread};

    fn row(product: &str, values: &[f64]) -> Row {
        let mut row = Row::new("json", "case", product);
        for value in values {
            row.add("rate", *value);
        }
        row
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut results = Results::default();
        results.put_case(vec![
            row("direct", &[10.0, 20.0]),
            row("evergate", &[5.0, 15.0]),
            row("slow", &[1.0]),
        ]);
        let evergate = results.get("json", "case", "evergate").unwrap();
        assert_eq!(evergate.to_direct["rate"], [0.5, 0.75]);
        assert!(evergate.to_nginx.is_empty());
        assert!(results.get("json", "case", "slow").unwrap().to_direct.is_empty());
        results.put_case(vec![row("direct", &[0.0]), row("evergate", &[5.0])]);
        assert!(results.get("json", "case", "evergate").unwrap().to_direct.is_empty());
    }

    #[test]
    fn a_row_is_replaced_by_one_of_the_same_case() {
        let mut results = Results::default();
        results.put_case(vec![row("direct", &[1.0]), row("slow", &[1.0])]);
        results.put_case(vec![row("direct", &[2.0])]);
        assert_eq!(results.rows.len(), 2);
        assert_eq!(results.get("json", "case", "direct").unwrap().figures["rate"], [2.0]);
        assert_eq!(results.cases("json"), ["case"]);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut results = Results { machine: "one".to_owned(), ..Results::default() };
        results.put_case(vec![row("direct", &[12.345_678, 123_456.7]), row("slow", &[0.1])]);
        let text = results.to_json().unwrap();
        let read: Results = serde_json::from_str(&text).unwrap();
        assert_eq!(read.rows.len(), 2);
        assert_eq!(read.machine, "one");
        assert_eq!(read.rows[0].figures["rate"], [12.35, 123_457.0]);
    }

    #[test]
    fn the_middle_of_an_even_number_of_values_is_between_two() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.low, spread.middle, spread.high), (1.0, 2.5, 4.0));
        assert_eq!(Spread::of(&[]), None);
    }
}
