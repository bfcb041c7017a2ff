//! The table of rooms in the summaries of runs.

use roost_results::metrics::RoomUse;
use roost_terminal::Table;

/// The stays of members; `None` if the run has no room.
pub(super) fn table(rooms: &[RoomUse]) -> Option<Table> {
    let mut table = Table::new(&[
        "ROOM",
        "MEMBER",
        ">ENTERED s",
        ">STREAMS",
        ">CAME",
        ">FIRST PACKET ms",
        ">LATEST ms",
        ">PACKETS",
        ">MISSING",
        ">LONGEST GAP ms",
    ]);
    let ms = |value: Option<f64>| value.map(|value| format!("{value:.1}")).unwrap_or_default();
    for stay in rooms {
        table.row([
            stay.room.clone(),
            stay.node.clone(),
            format!("{:.1}", stay.t),
            stay.streams.to_string(),
            stay.came.to_string(),
            ms(stay.first_packet.p50),
            ms(stay.first_packet.max),
            stay.packets.to_string(),
            stay.missing.to_string(),
            ms(stay.longest_gap_ms),
        ]);
    }
    (!rooms.is_empty()).then_some(table)
}
