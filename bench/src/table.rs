//! The table that is printed.

use std::fmt::Write as _;

/// A bound that a figure has to keep.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    /// At most so much.
    AtMost(f64),
    /// At least so much.
    AtLeast(f64),
    /// None: the figure is only stated.
    Stated,
    /// None: the native device has no such thing to measure.
    NotOffered,
}

/// One row: a figure measured natively, through Ropeway, and on the raw network (the floor).
#[derive(Clone, Debug)]
pub struct Row {
    /// The name of the figure.
    pub figure: String,
    /// The unit of the figure.
    pub unit: &'static str,
    /// Natively, where that has a meaning.
    pub native: Option<f64>,
    /// Ropeway's figure, or the reason why there is none.
    pub ropeway: Result<f64, String>,
    /// The raw network's, where that has a meaning.
    pub floor: Option<f64>,
    /// The bound for Ropeway's figure.
    pub reach: Reach,
    /// The rule from which the bound is derived.
    pub rule: String,
}

impl Row {
    /// A row without a floor.
    pub fn without_floor(
        figure: &str,
        unit: &'static str,
        ropeway: Result<f64, String>,
        native: Option<f64>,
        reach: Reach,
        rule: &str,
    ) -> Self {
        Self { figure: figure.into(), unit, native, ropeway, floor: None, reach, rule: rule.into() }
    }

    /// Returns whether the bound is met, if there is one.
    pub fn met(&self) -> Option<bool> {
        let keeps: &dyn Fn(f64) -> bool = match &self.reach {
            Reach::AtMost(limit) => &|have| have <= *limit,
            Reach::AtLeast(limit) => &|have| have >= *limit,
            Reach::Stated | Reach::NotOffered => return None,
        };
        Some(self.ropeway.as_ref().is_ok_and(|have| keeps(*have)))
    }

    /// Returns whether the row should have been measured and was not.
    pub fn failed(&self) -> bool {
        self.ropeway.is_err() && !matches!(self.reach, Reach::NotOffered)
    }
}

/// Formats three significant digits, or whole numbers.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut out = String::new();
            for (i, digit) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i) % 3 == 0 {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
        v if v >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The rows as aligned Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let mut cells = vec![
        ["figure", "unit", "native", "Ropeway", "raw floor", "Ropeway / native", "to reach", "reached"]
            .map(str::to_owned),
    ];
    for row in rows {
        let some = |value: Option<f64>| value.map_or_else(String::new, number);
        let (ropeway, ratio) = match (&row.ropeway, row.native) {
            (Ok(have), Some(native)) if native > 0.0 => (number(*have), format!("{:.2}", have / native)),
            (Ok(have), _) => (number(*have), String::new()),
            (Err(_), _) if row.failed() => ("failed".to_owned(), String::new()),
            (Err(_), _) => ("not offered".to_owned(), String::new()),
        };
        let reach = match row.reach {
            Reach::AtMost(limit) => format!("<= {}", number(limit)),
            Reach::AtLeast(limit) => format!(">= {}", number(limit)),
            Reach::Stated | Reach::NotOffered => String::new(),
        };
        let reach = if row.rule.is_empty() { reach } else { format!("{reach} ({})", row.rule).trim_start().to_owned() };
        let met = row.met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned();
        let unit = row.unit.to_owned();
        cells.push([row.figure.clone(), unit, some(row.native), ropeway, some(row.floor), ratio, reach, met]);
    }
    let mut widths = [0; 8];
    for line in &cells {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for (at, line) in cells.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let _ = if (2..6).contains(&column) {
                write!(out, "| {cell:>width$} ")
            } else {
                write!(out, "| {cell:width$} ")
            };
        }
        out.push_str("|\n");
        if at == 0 {
            for (column, width) in widths.into_iter().enumerate() {
                let end = if (2..6).contains(&column) { ":" } else { "-" };
                let _ = write!(out, "|{}{end}", "-".repeat(width + 1));
            }
            out.push_str("|\n");
        }
    }
    for row in rows.iter().filter(|row| row.failed()) {
        if let Err(why) = &row.ropeway {
            let _ = writeln!(out, "\n{}: {why}", row.figure);
        }
    }
    out
}

/// The rows as JSON: one object for each.
pub fn json(about: &[(&str, String)], rows: &[Row]) -> String {
    let text = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " "));
    let some = |value: Option<f64>| value.map_or_else(|| "null".to_owned(), |v| v.to_string());
    let mut out = String::from("{\n");
    for (name, value) in about {
        let _ = writeln!(out, "  {}: {},", text(name), text(value));
    }
    out.push_str("  \"rows\": [\n");
    for (at, row) in rows.iter().enumerate() {
        let reach = match row.reach {
            Reach::AtMost(limit) => format!("\"at_most\": {limit}, "),
            Reach::AtLeast(limit) => format!("\"at_least\": {limit}, "),
            Reach::Stated | Reach::NotOffered => String::new(),
        };
        let met = row.met().map_or_else(|| "null".to_owned(), |met| met.to_string());
        let error = row.ropeway.as_ref().err().map_or_else(|| "null".to_owned(), |why| text(why));
        let _ = write!(
            out,
            "    {{\"figure\": {}, \"unit\": {}, \"native\": {}, \"ropeway\": {}, \"floor\": {}, {reach}\"reached\": {met}, \"error\": {error}}}",
            text(&row.figure),
            text(row.unit),
            some(row.native),
            some(row.ropeway.clone().ok()),
            some(row.floor),
        );
        out.push_str(if at + 1 < rows.len() { ",\n" } else { "\n" });
    }
    out.push_str("  ]\n}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(reach: Reach, ropeway: Result<f64, String>) -> Row {
        let (figure, rule) = ("a figure".into(), String::new());
        Row { figure, unit: "us", native: None, ropeway, floor: None, reach, rule }
    }

    #[test]
    fn what_is_not_offered_is_neither_a_failure_nor_reached() {
        let rows = [row(Reach::NotOffered, Err("none".into())), row(Reach::Stated, Err("broken".into()))];
        assert_eq!(rows.each_ref().map(Row::failed), [false, true]);
        assert_eq!(rows.each_ref().map(Row::met), [None, None]);
        let table = markdown(&rows);
        assert!(
            table.contains("not offered") && !table.contains("none") && table.contains("a figure: broken"),
            "{table}"
        );
    }

    #[test]
    fn bounds_are_kept_or_not() {
        let met = |reach, have| row(reach, have).met();
        assert_eq!(met(Reach::AtMost(1.0), Ok(1.0)), Some(true));
        assert_eq!(met(Reach::AtLeast(1.0), Ok(0.5)), Some(false));
        assert_eq!(met(Reach::AtMost(1.0), Err("broken".into())), Some(false));
    }
}
