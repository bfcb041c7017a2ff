//! Tables for people: columns as wide as their widest cell.

use roost_wire::printable;

/// The side of its column on which a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    Left,
    Right,
}

#[derive(Clone, Debug)]
pub struct Table {
    heading: Vec<(&'static str, Alignment)>,
    rows: Vec<Vec<String>>,
}

const GAP: &str = "  ";

impl Table {
    /// Makes a table with these columns. A heading that starts with `>` belongs to a column of numbers.
    pub fn new(columns: &[&'static str]) -> Self {
        let side = |text: &'static str| match text.strip_prefix('>') {
            Some(rest) => (rest, Alignment::Right),
            None => (text, Alignment::Left),
        };
        Self { heading: columns.iter().map(|text| side(text)).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells stay empty, and cells beyond the heading are left out. Line breaks and
    /// terminal escapes in a cell are made harmless.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = cells.into_iter().take(self.heading.len()).map(|cell| printable(&cell).into_owned());
        let mut row: Vec<String> = shown.collect();
        row.resize(self.heading.len(), String::new());
        self.rows.push(row);
    }

    /// Renders the table as text; `bold` marks the heading.
    pub fn render(&self, bold: impl Fn(&str) -> String) -> String {
        let widths = self.widths();
        let heading = self.heading.iter().map(|(text, _)| *text);
        let mut text = bold(&self.line(&widths, heading));
        text.push('\n');
        for row in &self.rows {
            text.push_str(&self.line(&widths, row.iter().map(String::as_str)));
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize, heading: &str| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([heading.chars().count()]).max().unwrap_or(0)
        };
        self.heading.iter().enumerate().map(|(column, (heading, _))| width(column, heading)).collect()
    }

    fn line<'a>(&self, widths: &[usize], cells: impl Iterator<Item = &'a str>) -> String {
        let padded = cells.zip(widths).zip(&self.heading).map(|((cell, &width), &(_, side))| match side {
            Alignment::Left => format!("{cell:<width$}"),
            Alignment::Right => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_cells_numbers_align_right() {
        let mut table = Table::new(&["NAME", ">BYTES"]);
        table.row(["video".to_owned(), "9".to_owned()]);
        table.row(["é".to_owned(), "1234567".to_owned()]);
        assert_eq!(table.render(str::to_owned), "NAME     BYTES\nvideo        9\né      1234567\n");
    }

    #[test]
    fn no_cell_commands_or_breaks_lines() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["\u{1b}[2J".to_owned(), "x\ny".to_owned()]);
        assert_eq!(table.render(str::to_owned), "A          B\n\\u{1b}[2J  x\\ny\n");
    }

    #[test]
    fn rows_are_padded_or_cut() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["x".to_owned()]);
        table.row(["x".to_owned(), "y".to_owned(), "z".to_owned()]);
        assert_eq!(table.render(str::to_owned), "A  B\nx\nx  y\n");
    }
}
