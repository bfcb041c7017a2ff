//! Figures of transports: each condition and workload beside published measurements, and the effect of other
//! frame sizes.

use roost_report::figure::{Figure, FigureBar, Ink, LineAxes, PlotLine, bars, lines};
use roost_report::text_format::{bytes, milliseconds};

use super::{BenchTransport, Condition, FrameWorkload, ReferenceFigure, TransportRow, references};

/// The frame size of published measurements.
const LARGE: u32 = 64 << 10;
const SMALL: u32 = 1 << 10;
const HZ: u32 = 100;

/// Returns names and SVG texts of the figures of these rows.
pub fn transport(rows: &[TransportRow]) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    for workload in FrameWorkload::ALL {
        for condition in Condition::ALL {
            let rows: Vec<&TransportRow> =
                rows.iter().filter(|row| (row.workload, row.condition) == (*workload, *condition)).collect();
            figures.extend(beside_others(&rows, *workload, *condition));
            figures.extend(by_size(&rows, *workload, *condition));
        }
    }
    figures.into_iter().map(|figure| (figure.name, figure.sheet.standing(&figure.title))).collect()
}

/// Our measurements at a published point, beside the published ones.
fn beside_others(rows: &[&TransportRow], workload: FrameWorkload, condition: Condition) -> Option<Figure> {
    let (frame, hz) = match workload {
        FrameWorkload::Paced => (LARGE, Some(HZ)),
        FrameWorkload::Throughput => (LARGE, None),
        FrameWorkload::PingPong => (SMALL, None),
    };
    let ours = rows.iter().filter(|row| (row.frame_bytes, row.hz) == (frame, hz));
    let ours: Vec<FigureBar> = ours.filter_map(|row| bar_of(row)).collect();
    if ours.is_empty() {
        return None;
    }
    let all: Vec<FigureBar> = ours.into_iter().chain(references(workload, condition).map(bar_of_others)).collect();
    let what = match workload {
        FrameWorkload::Paced => "64 KiB at 100 Hz: late frames, and the longest gap",
        FrameWorkload::Throughput => "64 KiB as many as possible, Mbit/s",
        FrameWorkload::PingPong => "1 KiB to and fro: mean round trip, and the longest",
    };
    let key = [
        ("here, both links".to_owned(), Ink::Blue),
        ("here, one link".to_owned(), Ink::Sky),
        ("others".to_owned(), Ink::Gray),
    ];
    Some(Figure {
        name: format!("transport-{workload}-{condition}"),
        title: format!("{}: {what}", said(condition)),
        caption: String::new(),
        sheet: bars(&all, &key),
    })
}

fn bar_of(row: &TransportRow) -> Option<FigureBar> {
    let (value, longest) = match row.workload {
        FrameWorkload::Paced => (row.late_pct?, row.max_gap_ms),
        FrameWorkload::Throughput => (row.mbps?, None),
        FrameWorkload::PingPong => (row.avg_ms?, row.max_ms),
    };
    let has_both = matches!(
        row.transport,
        BenchTransport::QuicStripe | BenchTransport::QuicDuplicate | BenchTransport::KernelMptcp
    );
    let ink = if has_both { Ink::Blue } else { Ink::Sky };
    Some(bar(row.transport.name(), row.workload, value, longest, ink))
}

fn bar_of_others(one: ReferenceFigure) -> FigureBar {
    bar(one.name, one.workload, one.value, one.longest_ms, Ink::Gray)
}

fn bar(name: &str, workload: FrameWorkload, value: f64, longest: Option<f64>, ink: Ink) -> FigureBar {
    let longest = longest.map_or_else(String::new, |longest| format!(", {}", milliseconds(longest)));
    let value_said = match workload {
        FrameWorkload::Paced => format!("{value:.2} %{longest}"),
        FrameWorkload::Throughput => format!("{value:.0}"),
        FrameWorkload::PingPong => format!("{value:.2}{longest}"),
    };
    FigureBar { name: name.to_owned(), parts: vec![(value, ink)], value: value_said }
}

/// The results by frame size, if there are several.
fn by_size(rows: &[&TransportRow], workload: FrameWorkload, condition: Condition) -> Option<Figure> {
    let rate = rows.iter().filter_map(|row| row.hz).max();
    let rows: Vec<&&TransportRow> = rows.iter().filter(|row| row.hz == rate).collect();
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.frame_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 3 {
        return None;
    }
    let value = |row: &TransportRow| match workload {
        FrameWorkload::Paced => row.max_ms,
        FrameWorkload::Throughput => row.mbps,
        FrameWorkload::PingPong => row.avg_ms,
    };
    let line = |transport: &BenchTransport| {
        let of = rows.iter().filter(|row| row.transport == *transport);
        let mut points: Vec<_> = of.filter_map(|row| Some((place(row.frame_bytes), value(row)?, None))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        (!points.is_empty()).then(|| PlotLine::new(transport.name(), points))
    };
    let all: Vec<PlotLine> = BenchTransport::ALL.iter().filter_map(line).collect();
    let what = match workload {
        FrameWorkload::Paced => format!("the longest delay of frames at {} Hz", rate.unwrap_or_default()),
        FrameWorkload::Throughput => "Mbit/s".to_owned(),
        FrameWorkload::PingPong => "the mean round trip".to_owned(),
    };
    let show =
        |value: f64| if workload == FrameWorkload::Throughput { format!("{value:.0}") } else { milliseconds(value) };
    let places: Vec<(f64, String)> = sizes.iter().map(|size| (place(*size), bytes(f64::from(*size)))).collect();
    Some(Figure {
        name: format!("transport-{workload}-sizes-{condition}"),
        title: format!("{}: {what}, by the size of frames", said(condition)),
        caption: String::new(),
        sheet: lines(&all, &places, LineAxes::with_title("bytes of a frame"), show),
    })
}

const fn said(condition: Condition) -> &'static str {
    match condition {
        Condition::BothUp => "Both links up",
        Condition::Loss => "1 % loss on the first link",
        Condition::Failures => "Each link 4 s up, 2 s down",
    }
}

/// Doubling the size is one step; the smallest frames are a mere header.
fn place(size: u32) -> f64 {
    f64::from(size.max(32)).log2()
}
