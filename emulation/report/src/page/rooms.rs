//! The tables of rooms.

use maud::{Markup, html};
use roost_results::Results;
use roost_results::metrics::Metrics;

use super::table;
use super::tables::{MOST, folded};
use crate::text_format::{count, milliseconds, moment, or_dash, quantile};

pub(super) fn all(results: &Results, metrics: &Metrics) -> Markup {
    html! {
        h2 { "Rooms" }
        p.lead {
            "First packet: since both members are to be in the room. Longest gap: without a packet, from the first one "
            "until one of both left."
        }
        (stays(metrics))
        (streams(results))
    }
}

fn stays(metrics: &Metrics) -> Markup {
    let headings = [
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
    let rows = html! {
        @for stay in metrics.rooms.iter().take(MOST) {
            tr {
                th scope="row" { (stay.node) }
                td.words { (stay.room) }
                td { (moment(stay.t)) }
                td { (count(stay.streams)) }
                td.bad[stay.came < stay.streams] { (count(stay.came)) }
                td { (quantile(&stay.first_packet, 500)) }
                td { (or_dash(stay.first_packet.max, milliseconds)) }
                td { (count(stay.packets)) }
                td { (count(stay.missing)) }
                td { (or_dash(stay.longest_gap_ms, milliseconds)) }
            }
        }
    };
    table(&headings, &rows)
}

fn streams(results: &Results) -> Markup {
    let headings = ["stream", "<room", "first packet", "packets", "missing", "longest gap", "requests", "until"];
    let rows = html! {
        @for stream in results.room_streams.iter().take(MOST) {
            tr {
                th scope="row" { (stream.service) " of " (stream.provider) " at " (stream.node) }
                td.words { (stream.room) }
                td { (or_dash(stream.first_packet_ms, milliseconds)) }
                td { (count(stream.packets)) }
                td { (count(stream.missing)) }
                td { (or_dash(stream.longest_gap_ms, milliseconds)) }
                td { (count(stream.requests)) }
                td { (moment(stream.until)) }
            }
        }
    };
    let length = results.room_streams.len();
    let rest = if length > MOST { format!(": the first {MOST}, the rest is in rooms.csv") } else { String::new() };
    folded(&format!("{length} streams{rest}"), length, &table(&headings, &rows))
}
