//! The use of links from one second to the next.

use crate::record::{LinkLoad, LinkRecord, LoadRecord};

/// The most directions of a load: some kilobytes a second, whatever the size of the network.
const MOST: usize = 32;

/// The use from which on a direction is recorded; one that drops packets always is.
const LEAST_USED: f64 = 0.1;

/// Finds the busiest directions of links: it remembers their counters.
#[derive(Clone, Debug, Default)]
pub struct LoadMeter {
    t: f64,
    before: Vec<LinkRecord>,
}

impl LoadMeter {
    /// The load at `t` seconds since the last one, from all directions in the same order; `None` if nothing is busy.
    pub fn measure(&mut self, t: f64, links: Vec<LinkRecord>) -> Option<LoadRecord> {
        let seconds = t - self.t;
        let before = self.before.iter().map(Some).chain(std::iter::repeat(None));
        let loads = links.iter().zip(before).filter_map(|(now, before)| load(now, before, seconds));
        let mut loads: Vec<LinkLoad> = if seconds > 0.0 { loads.collect() } else { Vec::new() };
        (self.t, self.before) = (t, links);
        loads.sort_by(|one, other| other.used.total_cmp(&one.used));
        loads.truncate(MOST);
        (!loads.is_empty()).then_some(LoadRecord { t, links: loads })
    }
}

fn load(now: &LinkRecord, before: Option<&LinkRecord>, seconds: f64) -> Option<LinkLoad> {
    let since = |of: fn(&LinkRecord) -> u64| of(now).saturating_sub(before.map_or(0, of));
    let (bytes, dropped_queue) = (since(|link| link.bytes_out), since(|link| link.dropped_queue));
    let capacity =
        now.capacity_bytes.map(|now| now.saturating_sub(before.and_then(|it| it.capacity_bytes).unwrap_or(0)));
    let used = match (capacity, now.rate_bps) {
        // Small packets share an opportunity better than their frames tell.
        (Some(capacity), _) => (bytes as f64 / capacity.max(1) as f64).min(1.0),
        (None, 0) => 0.0,
        (None, rate) => (bytes as f64 * 8.0 / seconds / rate as f64).min(1.0),
    };
    // The rate of a trace is told in any case.
    let is_told = used >= LEAST_USED || dropped_queue > 0 || capacity.is_some();
    is_told.then(|| LinkLoad {
        link: now.link.clone(),
        host: now.host.clone(),
        direction: now.direction.clone(),
        used: (used * 1e3).round() / 1e3,
        inside_bytes: now.in_flight_bytes,
        dropped_queue,
        rate_bps: capacity.map(|bytes| (bytes as f64 * 8.0 / seconds).round() as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(host: &str, bytes_out: u64, dropped_queue: u64) -> LinkRecord {
        let (link, direction) = ("net".to_owned(), "to-net".to_owned());
        LinkRecord {
            link,
            host: host.to_owned(),
            direction,
            bytes_out,
            dropped_queue,
            rate_bps: 8_000_000,
            ..LinkRecord::default()
        }
    }

    #[test]
    fn busy_links_are_told_by_use() {
        let mut meter = LoadMeter::default();
        assert_eq!(meter.measure(1.0, vec![link("a", 100, 0), link("b", 0, 0)]), None);
        let load = meter.measure(3.0, vec![link("a", 500_100, 0), link("b", 1_000_000, 0)]).unwrap();
        let used: Vec<(&str, f64)> = load.links.iter().map(|link| (link.host.as_str(), link.used)).collect();
        assert_eq!((load.t, used), (3.0, vec![("b", 0.5), ("a", 0.25)]));
        // An idle link whose queue was full is told, and a meter that is asked twice at once tells nothing.
        let load = meter.measure(4.0, vec![link("a", 500_100, 2), link("b", 1_000_000, 0)]).unwrap();
        assert_eq!((load.links.len(), load.links[0].dropped_queue), (1, 2));
        assert_eq!(meter.measure(4.0, vec![link("a", 9_999_999, 9), link("b", 0, 0)]), None);
    }

    #[test]
    fn use_follows_rate_of_trace() {
        let at = |bytes_out, capacity| LinkRecord { capacity_bytes: Some(capacity), ..link("a", bytes_out, 0) };
        let mut meter = LoadMeter::default();
        let load = meter.measure(1.0, vec![at(0, 1_000)]).unwrap();
        assert_eq!((load.links[0].used, load.links[0].rate_bps), (0.0, Some(8_000)));
        let load = meter.measure(3.0, vec![at(500, 2_000)]).unwrap();
        assert_eq!((load.links[0].used, load.links[0].rate_bps), (0.5, Some(4_000)));
        let load = meter.measure(4.0, vec![at(500, 2_000)]).unwrap();
        assert_eq!((load.links[0].used, load.links[0].rate_bps), (0.0, Some(0)));
    }

    #[test]
    fn loads_have_a_greatest_length() {
        let links = (0..500).map(|number| link(&format!("n{number}"), 1_000_000, 0)).collect();
        assert_eq!(LoadMeter::default().measure(1.0, links).unwrap().links.len(), MOST);
    }
}
