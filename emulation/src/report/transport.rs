//! The figures of what transports are worth: each condition and workload beside
//! what others have measured, and what comes of other sizes of frames.

use super::figure::{Along, Bar, Figure, Ink, Line, bars, lines};
use super::words::{bytes, milliseconds};
use crate::bench::transport::{Condition, Reference, Row, Transport, Workload, references};

/// The sizes of frames that others have measured.
const LARGE: u32 = 64 << 10;
const SMALL: u32 = 1 << 10;
const HZ: u32 = 100;

/// Names and SVG texts of the figures of these rows.
pub fn transport(rows: &[Row]) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    for workload in Workload::ALL {
        for condition in Condition::ALL {
            let rows: Vec<&Row> =
                rows.iter().filter(|row| (row.workload, row.condition) == (*workload, *condition)).collect();
            figures.extend(beside_others(&rows, *workload, *condition));
            figures.extend(by_size(&rows, *workload, *condition));
        }
    }
    figures.into_iter().map(|figure| (figure.name, figure.sheet.standing(&figure.title))).collect()
}

/// What was measured at the point that others have measured, and what they saw.
fn beside_others(rows: &[&Row], workload: Workload, condition: Condition) -> Option<Figure> {
    let (frame, hz) = match workload {
        Workload::Paced => (LARGE, Some(HZ)),
        Workload::Throughput => (LARGE, None),
        Workload::PingPong => (SMALL, None),
    };
    let ours = rows.iter().filter(|row| (row.frame_bytes, row.hz) == (frame, hz));
    let ours: Vec<Bar> = ours.filter_map(|row| bar_of(row)).collect();
    if ours.is_empty() {
        return None;
    }
    let all: Vec<Bar> = ours.into_iter().chain(references(workload, condition).map(bar_of_others)).collect();
    let what = match workload {
        Workload::Paced => "64 KiB at 100 Hz: late frames, and the longest gap",
        Workload::Throughput => "64 KiB as many as possible, Mbit/s",
        Workload::PingPong => "1 KiB to and fro: mean round trip, and the longest",
    };
    let key = [
        ("here, both links".to_owned(), Ink::Blue),
        ("here, one link".to_owned(), Ink::Sky),
        ("others".to_owned(), Ink::Grey),
    ];
    Some(Figure {
        name: format!("transport-{workload}-{condition}"),
        title: format!("{}: {what}", said(condition)),
        caption: String::new(),
        sheet: bars(&all, &key),
    })
}

fn bar_of(row: &Row) -> Option<Bar> {
    let (value, longest) = match row.workload {
        Workload::Paced => (row.late_pct?, row.max_gap_ms),
        Workload::Throughput => (row.mbps?, None),
        Workload::PingPong => (row.avg_ms?, row.max_ms),
    };
    let has_both = matches!(row.transport, Transport::QuicStripe | Transport::QuicDuplicate | Transport::KernelMptcp);
    let ink = if has_both { Ink::Blue } else { Ink::Sky };
    Some(bar(row.transport.name(), row.workload, value, longest, ink))
}

fn bar_of_others(one: Reference) -> Bar {
    bar(one.name, one.workload, one.value, one.longest_ms, Ink::Grey)
}

fn bar(name: &str, workload: Workload, value: f64, longest: Option<f64>, ink: Ink) -> Bar {
    let longest = longest.map_or_else(String::new, |longest| format!(", {}", milliseconds(longest)));
    let value_said = match workload {
        Workload::Paced => format!("{value:.2} %{longest}"),
        Workload::Throughput => format!("{value:.0}"),
        Workload::PingPong => format!("{value:.2}{longest}"),
    };
    Bar { name: name.to_owned(), parts: vec![(value, ink)], value: value_said }
}

/// What comes of each size of frames, if there are several.
fn by_size(rows: &[&Row], workload: Workload, condition: Condition) -> Option<Figure> {
    let rate = rows.iter().filter_map(|row| row.hz).max();
    let rows: Vec<&&Row> = rows.iter().filter(|row| row.hz == rate).collect();
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.frame_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 3 {
        return None;
    }
    let value = |row: &Row| match workload {
        Workload::Paced => row.max_ms,
        Workload::Throughput => row.mbps,
        Workload::PingPong => row.avg_ms,
    };
    let line = |transport: &Transport| {
        let of = rows.iter().filter(|row| row.transport == *transport);
        let mut points: Vec<_> = of.filter_map(|row| Some((place(row.frame_bytes), value(row)?, None))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        (!points.is_empty()).then(|| Line::new(transport.name(), points))
    };
    let all: Vec<Line> = Transport::ALL.iter().filter_map(line).collect();
    let what = match workload {
        Workload::Paced => format!("the longest delay of frames at {} Hz", rate.unwrap_or_default()),
        Workload::Throughput => "Mbit/s".to_owned(),
        Workload::PingPong => "the mean round trip".to_owned(),
    };
    let show = |value: f64| if workload == Workload::Throughput { format!("{value:.0}") } else { milliseconds(value) };
    let places: Vec<(f64, String)> = sizes.iter().map(|size| (place(*size), bytes(f64::from(*size)))).collect();
    Some(Figure {
        name: format!("transport-{workload}-sizes-{condition}"),
        title: format!("{}: {what}, by the size of frames", said(condition)),
        caption: String::new(),
        sheet: lines(&all, &places, Along::of("bytes of a frame"), show),
    })
}

const fn said(condition: Condition) -> &'static str {
    match condition {
        Condition::BothUp => "Both links up",
        Condition::Loss => "1 % loss on the first link",
        Condition::Failures => "Each link 4 s up, 2 s down",
    }
}

/// Each twice as large is a step; the smallest are those of a head.
fn place(size: u32) -> f64 {
    f64::from(size.max(32)).log2()
}
