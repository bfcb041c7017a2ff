//! A target that flies in circles: one JSON record for each datagram, padded to the datagram's size.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::pace::Slot;

/// Records for one turn of the circle.
const TURN: u64 = 1200;

/// The circle's radius in degrees.
const RADIUS: f64 = 0.01;

/// Makes the record of `slot`, a JSON line of exactly the slot's size. Only the last slot of a stream can be
/// too small for a record; it gets a blank line.
pub(super) fn record(slot: Slot, started_ms: u64) -> Bytes {
    let size = slot.bytes as usize;
    let time = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(started_ms).saturating_add(slot.at))
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let turned = (slot.sequence % TURN) as f64 / TURN as f64;
    let (sine, cosine) = (turned * std::f64::consts::TAU).sin_cos();
    let line = format!(
        concat!(
            r#"{{"t":"{}","id":"synthetic-1","lat":{:.6},"lon":{:.6},"alt_m":1200.0,"speed_mps":117.0,"#,
            r#""course_deg":{:.1},"source":"synthetic","seq":{},"pad":""#
        ),
        humantime::format_rfc3339_millis(time),
        27.0 + RADIUS * cosine,
        92.0 + RADIUS * sine,
        (turned * 360.0 + 90.0) % 360.0,
        slot.sequence,
    );
    let end = "\"}\n";
    let Some(padding) = size.checked_sub(line.len() + end.len()) else {
        return Bytes::from(format!("{:>size$}", "\n"));
    };
    Bytes::from(format!("{line}{:.<padding$}{end}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Schedule;

    #[test]
    fn records_are_json_of_exact_size() {
        for slot in Schedule::new(40_000, 250, Duration::from_secs(10)) {
            let line = record(slot, 1_790_000_000_000);
            assert_eq!(line.len(), 250);
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(value["seq"], slot.sequence);
            assert!(value["lat"].as_f64().is_some());
        }
    }

    #[test]
    fn an_hour_later_they_still_fit() {
        let slot = Slot { sequence: u64::MAX, at: Duration::MAX / 2, bytes: 250 };
        assert!(serde_json::from_slice::<serde_json::Value>(&record(slot, u64::MAX)).is_ok());
    }

    #[test]
    fn short_slot_is_blank_line() {
        let rest = record(Slot { sequence: 0, at: Duration::ZERO, bytes: 7 }, 0);
        assert_eq!(&rest[..], b"      \n");
    }
}
