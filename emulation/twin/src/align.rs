//! A time that the recordings of several hosts share.

use roost_api::RequestLine;
use roost_recording::{Recording, RecordingLine, StampedLine};

/// Requests that began up to this long before the first recording are part of it, since they were under way.
const BEFORE_S: f64 = 1.0;

/// The recordings with the seconds that each begins after time 0, by the wall clocks of their hosts.
#[derive(Debug)]
pub(crate) struct Aligned<'a> {
    pub(crate) recordings: Vec<(f64, &'a Recording)>,
    pub(crate) length: f64,
}

impl<'a> Aligned<'a> {
    pub(crate) fn new(recordings: &'a [Recording]) -> Self {
        let begins: Vec<f64> = recordings.iter().map(begin).collect();
        let first = begins.iter().copied().fold(f64::INFINITY, f64::min);
        let earlier = recordings.iter().flat_map(|recording| &recording.lines).filter_map(|line| match &line.line {
            RecordingLine::Request { request: RequestLine::Began(began), .. } => Some(began.began_unix_ms as f64),
            _ => None,
        });
        let under_way = earlier.filter(|at| *at < first && *at >= first - BEFORE_S * 1e3);
        let zero = under_way.fold(first, f64::min);
        let recordings: Vec<_> = begins.iter().map(|begin| (begin - zero) / 1e3).zip(recordings).collect();
        let end = |(offset, recording): &(f64, &Recording)| offset + recording.lines.last().map_or(0.0, |line| line.t);
        let length = recordings.iter().map(end).fold(0.0, f64::max);
        Self { recordings, length }
    }

    /// All lines with the index of their recording and their time.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, f64, &'a StampedLine)> + '_ {
        let of = |(index, (offset, recording)): (usize, &(f64, &'a Recording))| {
            let offset = *offset;
            recording.lines.iter().map(move |line| (index, offset + line.t, line))
        };
        self.recordings.iter().enumerate().flat_map(of)
    }
}

fn begin(recording: &Recording) -> f64 {
    recording.lines.first().map_or(0.0, |line| line.unix_ms as f64 - line.t * 1e3)
}
