//! The streams that members of rooms receive.

use serde::Serialize;

use super::Distribution;
use crate::record::RoomStreamRecord;

/// A member's stay, from its entry until it left.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoomUse {
    pub room: String,
    pub node: String,
    /// The time of the entry, seconds.
    pub t: f64,
    pub streams: u64,
    pub came: u64,
    /// From the time at which both members are to be in the room, of the streams that came.
    pub first_packet: Distribution,
    pub packets: u64,
    pub missing: u64,
    pub longest_gap_ms: Option<f64>,
}

/// The stays in the order in which they ended.
pub fn room_uses(streams: &[RoomStreamRecord]) -> Vec<RoomUse> {
    let is_one_stay = |a: &RoomStreamRecord, b: &RoomStreamRecord| (&a.room, &a.node, a.t) == (&b.room, &b.node, b.t);
    streams.chunk_by(is_one_stay).map(room_use).collect()
}

fn room_use(streams: &[RoomStreamRecord]) -> RoomUse {
    let first_packet = Distribution::from_values(streams.iter().filter_map(|stream| stream.first_packet_ms).collect());
    RoomUse {
        room: streams[0].room.clone(),
        node: streams[0].node.clone(),
        t: streams[0].t,
        streams: streams.len() as u64,
        came: first_packet.count,
        first_packet,
        packets: streams.iter().map(|stream| stream.packets).sum(),
        missing: streams.iter().map(|stream| stream.missing).sum(),
        longest_gap_ms: streams.iter().filter_map(|stream| stream.longest_gap_ms).reduce(f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stay_has_its_streams() {
        let stream = |node: &str, t, first_packet_ms, packets| RoomStreamRecord {
            node: node.to_owned(),
            t,
            first_packet_ms,
            longest_gap_ms: first_packet_ms,
            packets,
            missing: 1,
            ..RoomStreamRecord::default()
        };
        let stays = room_uses(&[
            stream("n1", 0.0, Some(100.0), 5),
            stream("n1", 0.0, Some(300.0), 6),
            stream("n2", 0.0, None, 0),
            stream("n1", 20.0, Some(50.0), 7),
        ]);
        let seen = stays.iter().map(|stay| (stay.node.as_str(), stay.streams, stay.came, stay.packets, stay.missing));
        assert_eq!(seen.collect::<Vec<_>>(), [("n1", 2, 2, 11, 2), ("n2", 1, 0, 0, 1), ("n1", 1, 1, 7, 1)]);
        assert_eq!((stays[0].first_packet.p50, stays[0].longest_gap_ms), (Some(200.0), Some(300.0)));
        assert_eq!((stays[1].first_packet.p50, stays[1].longest_gap_ms), (None, None));
    }
}
