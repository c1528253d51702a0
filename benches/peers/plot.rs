//! The plot: a panel for each load and one for the waits, in each a bar for each pool.

use crate::contenders::LIMIT;
use crate::report::beside;
use crate::rounds::Kind;
use crate::table::{Row, Table, figure};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

const OURS: RGBColor = RGBColor(0xc2, 0x41, 0x0c);
const PAIRS: RGBColor = RGBColor(0x9c, 0xa3, 0xaf);
const BLOCKING: RGBColor = RGBColor(0x1d, 0x4e, 0x89);
const ASYNCHRONOUS: RGBColor = RGBColor(0x7f, 0xa6, 0xd0);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);

const PANEL: (u32, u32) = (460, 330);
const NAMES: u32 = 190;
const TITLE: u32 = 15;
const LABEL: u32 = 12;

/// Draws the table's figures into `benches/pools.svg`.
pub(crate) fn write(table: &Table) {
    draw(table).expect("benches/pools.svg can be written");
}

fn draw(table: &Table) -> Drawn {
    let path = beside("pools.svg");
    let down = (table.loads.len() + 2).div_ceil(2);
    let size = (2 * PANEL.0, down as u32 * PANEL.1);
    let root = SVGBackend::new(&path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let mut areas = root.split_evenly((down, 2)).into_iter();
    for (column, (load, area)) in table.loads.iter().zip(&mut areas).enumerate() {
        let title = format!("{}: ns for each operation", load.name);
        let bars = |row: &Row| Some(row.cells[column].nanoseconds);
        panel(&area, &title, &table.rows, bars, figure)?;
    }
    if let Some(area) = areas.next() {
        let title = "the waits of that: p99, µs";
        let bars = |row: &Row| {
            let timed = row.cells.last()?.waits.filter(|_| row.name != LIMIT);
            timed.map(|(_, most)| most)
        };
        panel(&area, title, &table.rows, bars, |most| format!("{most:.1}"))?;
    }
    if let Some(area) = areas.next() {
        legend(&area)?;
    }
    root.present()?;
    Ok(())
}

/// Horizontal bars on a logarithmic scale, the first row at the top; shorter is better.
fn panel(
    area: &Area<'_>,
    title: &str,
    rows: &[Row],
    length: impl Fn(&Row) -> Option<f64>,
    label: impl Fn(f64) -> String,
) -> Drawn {
    // From the bottom to the top.
    let bars: Vec<_> = rows.iter().rev().filter_map(|row| Some((row, length(row)?))).collect();
    let least = bars.iter().map(|bar| bar.1).fold(f64::INFINITY, f64::min);
    let most = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
    // Room for the shortest bar, and for the label of the longest.
    let (from, to) = (least / 2.0, most * (most / least).powf(0.3) * 1.2);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(title, ("sans-serif", TITLE).into_font().color(&INK))
        .x_label_area_size(22)
        .y_label_area_size(NAMES)
        .build_cartesian_2d((from..to).log_scale(), (0..bars.len() - 1).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(PAIRS.mix(0.4))
        .axis_style(PAIRS)
        .label_style(("sans-serif", LABEL).into_font().color(&INK))
        .x_labels(5)
        .x_label_formatter(&f64::to_string)
        .y_labels(bars.len())
        .y_label_formatter(&|place| match place {
            SegmentValue::CenterOf(bar) => bars.get(*bar).map_or("", |bar| bar.0.name).into(),
            SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
        })
        .draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(place, &(row, length))| {
        let corners =
            [(from, SegmentValue::Exact(place)), (length, SegmentValue::Exact(place + 1))];
        let mut bar = Rectangle::new(corners, colour(row).filled());
        bar.set_margin(3, 3, 0, 0);
        bar
    }))?;
    chart.draw_series(bars.iter().enumerate().map(|(place, &(_, length))| {
        let end = (length, SegmentValue::CenterOf(place));
        let text = Text::new(label(length), (5, -6), ("sans-serif", LABEL).into_font().color(&INK));
        EmptyElement::at(end) + text
    }))?;
    Ok(())
}

fn colour(row: &Row) -> RGBColor {
    match row.kind {
        _ if row.name.starts_with("cabrank") => OURS,
        Kind::Limit => PAIRS,
        Kind::Blocking => BLOCKING,
        Kind::Asynchronous => ASYNCHRONOUS,
    }
}

fn legend(area: &Area<'_>) -> Drawn {
    let lines = [
        (OURS, "cabrank"),
        (BLOCKING, "blocking"),
        (ASYNCHRONOUS, "asynchronous"),
        (PAIRS, "the limit: two lock-unlock pairs of one lock"),
    ];
    for (line, (colour, text)) in lines.into_iter().enumerate() {
        let (x, y) = (NAMES as i32 - 40, 40 + 24 * line as i32);
        area.draw(&Rectangle::new([(x, y), (x + 24, y + 12)], colour.filled()))?;
        area.draw(&Text::new(
            text,
            (x + 32, y),
            ("sans-serif", LABEL + 1).into_font().color(&INK),
        ))?;
    }
    Ok(())
}
