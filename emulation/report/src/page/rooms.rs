//! The tables of rooms.

use roost_results::Results;
use roost_results::metrics::Metrics;

use super::tables::{MOST, folded};
use super::{Page, Rows};
use crate::text_format::{count, milliseconds, moment, or_dash, quantile};

pub(super) fn all(page: &mut Page, results: &Results, metrics: &Metrics) {
    if metrics.rooms.is_empty() {
        return;
    }
    page.element("h2", "", "Rooms");
    let meaning = "First packet: since both members are to be in the room. Longest gap: without a packet, from the \
                   first one until one of both left.";
    page.element("p", "lead", meaning);
    stays(page, metrics);
    streams(page, results);
}

fn stays(page: &mut Page, metrics: &Metrics) {
    let heading = [
        "member",
        "<room",
        "entered",
        "streams",
        "came",
        "first packet",
        "latest",
        "packets",
        "missing",
        "longest gap",
    ];
    let mut rows = Rows::new(&heading);
    for stay in metrics.rooms.iter().take(MOST) {
        let cells = [
            format!("<{}", stay.room),
            moment(stay.t),
            count(stay.streams),
            format!("{}{}", if stay.came < stay.streams { "!" } else { "" }, count(stay.came)),
            quantile(&stay.first_packet, 500),
            or_dash(stay.first_packet.max, milliseconds),
            count(stay.packets),
            count(stay.missing),
            or_dash(stay.longest_gap_ms, milliseconds),
        ];
        rows.row("", &stay.node, cells.iter().map(String::as_str));
    }
    page.markup(rows.end());
}

fn streams(page: &mut Page, results: &Results) {
    let heading = ["stream", "<room", "first packet", "packets", "missing", "longest gap", "requests", "until"];
    let mut rows = Rows::new(&heading);
    for stream in results.room_streams.iter().take(MOST) {
        let cells = [
            format!("<{}", stream.room),
            or_dash(stream.first_packet_ms, milliseconds),
            count(stream.packets),
            count(stream.missing),
            or_dash(stream.longest_gap_ms, milliseconds),
            count(stream.requests),
            moment(stream.until),
        ];
        let name = format!("{} of {} at {}", stream.service, stream.provider, stream.node);
        rows.row("", &name, cells.iter().map(String::as_str));
    }
    let length = results.room_streams.len();
    let rest = if length > MOST { format!(": the first {MOST}, the rest is in rooms.csv") } else { String::new() };
    folded(page, &format!("{length} streams{rest}"), length, &rows.end());
}
