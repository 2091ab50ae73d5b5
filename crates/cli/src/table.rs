//! Columns of text.

/// Lines with `headings` above `rows`, each column as wide as it must be.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let mut all = vec![headings.iter().map(ToString::to_string).collect::<Vec<_>>()];
    all.extend_from_slice(rows);
    let columns = headings.len();
    let width =
        |column: usize| all.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "long one".into(), "x".into()], vec!["bcd".into(), String::new(), "y".into()]];
        assert_eq!(
            super::table(&["N", "TEXT", "Z"], &rows),
            ["N    TEXT      Z", "a    long one  x", "bcd            y"]
        );
    }
}
