//! What each host's two directions delivered, in bins of time, as the receiving ends of connections count.

use std::ops::Range;

use roost_recording::RecordingLine;

use crate::align::Aligned;
use crate::counters::Counters;
use crate::hosts::Hosts;

/// Counters come once a second, and a bin has the mean of some of them.
const BIN_S: f64 = 3.0;
/// The most bins of all hosts together; those of a longer recording are longer.
const MAX_BINS: f64 = 4e6;
/// Of so many bins the greatest ones are skipped, and so many of them.
const MANY_BINS: usize = 15;
const SKIPPED: usize = 2;
/// So many bins with this part of the greatest rate are a plateau.
const PLATEAU: f64 = 0.9;
const PLATEAU_BINS: usize = 4;
/// The longest time between two lines of a connection over which its bytes may be spread.
const LONGEST_S: f64 = 30.0;
/// Headers below the transport, as a part of the bytes of full packets.
const HEADERS: f64 = 1.035;

#[derive(Debug)]
pub(crate) struct Delivered {
    up: Vec<Vec<f64>>,
    down: Vec<Vec<f64>>,
    bin: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

impl Delivered {
    pub(crate) fn find(aligned: &Aligned<'_>, hosts: &Hosts) -> Self {
        let count = hosts.hosts.len();
        let bin = BIN_S.max(aligned.length * count as f64 / MAX_BINS);
        let bins = (aligned.length / bin).ceil() as usize + 1;
        let mut found = Self { up: vec![vec![0.0; bins]; count], down: vec![vec![0.0; bins]; count], bin };
        let mut counters = Counters::default();
        for (recording, t, line) in aligned.lines() {
            let RecordingLine::Connection(row) = &line.line else { continue };
            let ends = hosts.host_of(row.node).zip(hosts.of_daemon(recording, row.daemon));
            let Some((from, to)) = ends.filter(|(from, to)| from != to) else { continue };
            let Some(counted) = counters.count(aligned, recording, t, row) else { continue };
            let bits = counted.received_bytes as f64 * 8.0 * HEADERS;
            spread(&mut found.up[from], bin, &(counted.since..t), bits);
            spread(&mut found.down[to], bin, &(counted.since..t), bits);
        }
        found
    }

    pub(crate) fn most(&self, host: usize, direction: Direction) -> f64 {
        let mut bins: Vec<f64> = self.bins(host, direction).iter().copied().filter(|bits| *bits > 0.0).collect();
        bins.sort_by(|a, b| b.total_cmp(a));
        // A host that stood still for a while counts late what came meanwhile.
        let skipped = if bins.len() >= MANY_BINS { SKIPPED } else { 0 };
        bins.get(skipped).copied().unwrap_or(0.0) / self.bin
    }

    /// True if the host delivered about its greatest rate again and again, as a full leg does.
    pub(crate) fn has_plateau(&self, host: usize, direction: Direction) -> bool {
        let least = PLATEAU * self.most(host, direction) * self.bin;
        least > 0.0 && self.bins(host, direction).iter().filter(|bits| **bits >= least).count() >= PLATEAU_BINS
    }

    /// The mean rate in a time, of whole bins within it.
    pub(crate) fn mean(&self, host: usize, direction: Direction, from: f64, to: f64) -> Option<f64> {
        let (first, end) = ((from / self.bin).ceil() as usize, (to / self.bin).floor() as usize);
        let bins = self.bins(host, direction).get(first..end).filter(|bins| !bins.is_empty())?;
        Some(bins.iter().sum::<f64>() / bins.len() as f64 / self.bin)
    }

    fn bins(&self, host: usize, direction: Direction) -> &[f64] {
        match direction {
            Direction::Up => &self.up[host],
            Direction::Down => &self.down[host],
        }
    }
}

fn spread(bins: &mut [f64], length_of_bin: f64, time: &Range<f64>, bits: f64) {
    let length = time.end - time.start;
    if !(0.0..=LONGEST_S).contains(&length) || length == 0.0 {
        return;
    }
    let first = (time.start / length_of_bin) as usize;
    for (bin, sum) in bins.iter_mut().enumerate().skip(first) {
        let (begin, end) = (bin as f64 * length_of_bin, (bin + 1) as f64 * length_of_bin);
        let within = time.end.min(end) - time.start.max(begin);
        if within <= 0.0 {
            break;
        }
        *sum += bits * within / length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_no_plateau() {
        let of = |up: Vec<f64>| Delivered { down: vec![vec![0.0; up.len()]], up: vec![up], bin: 3.0 };
        let mut bins = vec![3.0; 20];
        bins[7] = 30.0;
        let steady = of(bins.clone());
        assert!(steady.most(0, Direction::Up) == 1.0 && steady.has_plateau(0, Direction::Up));
        let falling = of((1..20).map(|number| f64::from(number * number)).collect());
        assert!(!falling.has_plateau(0, Direction::Up) && !falling.has_plateau(0, Direction::Down));
    }

    #[test]
    fn bits_are_spread_over_bins() {
        let mut bins = vec![0.0; 4];
        spread(&mut bins, 3.0, &(2.0..8.0), 60.0);
        spread(&mut bins, 3.0, &(1.0..1.0), 99.0);
        assert_eq!(bins, [10.0, 30.0, 20.0, 0.0]);
        let delivered = Delivered { up: vec![bins.clone()], down: vec![vec![0.0; 4]], bin: 3.0 };
        assert_eq!(delivered.most(0, Direction::Up), 10.0);
        assert_eq!(delivered.mean(0, Direction::Up, 0.5, 9.5), Some(25.0 / 3.0));
        assert_eq!(delivered.mean(0, Direction::Up, 0.5, 3.5), None);
    }
}
