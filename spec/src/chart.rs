//! Draws arrows between states or actors as an SVG: one column for each state or actor, one row for each
//! arrow. Rustdoc shows the SVG in the colour of the page's text.

use std::fmt::Write;

const COLUMN: usize = 128;
const ROW: usize = 26;
const TOP: usize = 40;
/// The margin on both sides, for labels that are longer than their arrow.
const MARGIN: usize = 120;

/// A chart: columns, and rows from top to bottom.
pub(crate) struct Chart {
    columns: Vec<String>,
    rows: Vec<(usize, usize, String)>,
}

impl Chart {
    pub(crate) fn new(columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Chart { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds an arrow from one column to another. An arrow to the same column is a remark.
    ///
    /// # Panics
    /// If a column does not exist.
    pub(crate) fn arrow(&mut self, from: &str, to: &str, label: impl Into<String>) {
        let place = |name: &str| {
            let at = self.columns.iter().position(|column| column == name);
            at.unwrap_or_else(|| panic!("no column {name}"))
        };
        self.rows.push((place(from), place(to), label.into()));
    }

    pub(crate) fn svg(&self) -> String {
        let x = |column: usize| MARGIN + column * COLUMN;
        let y = |row: usize| TOP + (row + 1) * ROW;
        let (width, height) = (x(self.columns.len() - 1) + MARGIN, y(self.rows.len()));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             font-family=\"sans-serif\" font-size=\"11\" fill=\"currentColor\" stroke=\"none\" \
             text-anchor=\"middle\">\n"
        );
        for (column, name) in self.columns.iter().enumerate() {
            let x = x(column);
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"22\" font-weight=\"bold\">{}</text>\n\
                 <path d=\"M{x} 30V{height}\" stroke=\"currentColor\" stroke-opacity=\".3\"/>",
                escaped(name)
            );
        }
        for (row, (from, to, label)) in self.rows.iter().enumerate() {
            let (y, label) = (y(row), escaped(label));
            let (from, to) = (x(*from), x(*to));
            if from == to {
                let _ = writeln!(svg, "<text x=\"{from}\" y=\"{y}\">({label})</text>");
                continue;
            }
            // Two strokes make the head of the arrow.
            let back = if from < to { -6 } else { 6 };
            let middle = usize::midpoint(from, to);
            let _ = writeln!(
                svg,
                "<text x=\"{middle}\" y=\"{}\">{label}</text>\n\
                 <path d=\"M{from} {y}H{to}m{back} -4L{to} {y}l{back} 4\" fill=\"none\" stroke=\"currentColor\"/>",
                y - 4
            );
        }
        svg + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
