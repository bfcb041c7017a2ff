//! A time that the recordings of several hosts share.

use std::collections::BTreeSet;

use roost_api::RequestLine;
use roost_recording::{DaemonLine, Recording, RecordingLine, StampedLine};
use roost_wire::NodeId;

use crate::observe::TwinError;

/// Requests that began up to this long before the first recording are part of it, since they were under way.
const BEFORE_S: f64 = 1.0;
/// The longest twin, seconds: no plan lasts longer than a week.
const MAX_LENGTH_S: f64 = 7.0 * 86_400.0 - 60.0;
/// Clocks may be moved by so much between two recordings of a host that follow each other.
const OVERLAP_S: f64 = 1.0;

/// The recordings with the seconds that each begins after time 0, by the wall clocks of their hosts: the first one first.
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
        let mut recordings: Vec<_> = begins.iter().map(|begin| (begin - zero) / 1e3).zip(recordings).collect();
        recordings.sort_by(|a, b| a.0.total_cmp(&b.0));
        let length = recordings.iter().map(|(offset, recording)| end(*offset, recording)).fold(0.0, f64::max);
        Self { recordings, length }
    }

    pub(crate) fn begin_of(&self, recording: usize) -> f64 {
        self.recordings.get(recording).map_or(0.0, |(offset, _)| *offset)
    }

    pub(crate) fn end_of(&self, recording: usize) -> f64 {
        self.recordings.get(recording).map_or(self.length, |(offset, recording)| end(*offset, recording))
    }

    /// Refuses recordings that are of no common time.
    pub(crate) fn check(&self) -> Result<(), TwinError> {
        let spans: Vec<Span> =
            self.recordings.iter().map(|(offset, recording)| Span::of_recording(*offset, recording)).collect();
        for (index, span) in spans.iter().enumerate() {
            let mut others = spans.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
            let twice = others.clone().find_map(|other| span.daemon_of_both(other));
            if let Some(name) = twice {
                return Err(TwinError::Twice(name.to_owned()));
            }
            if spans.len() > 1 && !others.any(|other| span.overlaps(other) || span.is_continued(other)) {
                return Err(TwinError::Apart(span.name().to_owned()));
            }
        }
        if self.length <= MAX_LENGTH_S {
            return Ok(());
        }
        // The clock that is wrong is that of the first or of the last one.
        let name = |span: Option<&Span>| span.map_or("", Span::name).to_owned();
        let [first, last] = [name(spans.first()), name(spans.last())];
        Err(TwinError::TooLong { days: (self.length / 86_400.0).round() as u64, first, last })
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

fn end(offset: f64, recording: &Recording) -> f64 {
    offset + recording.lines.last().map_or(0.0, |line| line.t)
}

/// The time of a recording, and its daemons.
struct Span<'a> {
    begin: f64,
    end: f64,
    daemons: BTreeSet<(NodeId, &'a str)>,
}

impl<'a> Span<'a> {
    fn of_recording(begin: f64, recording: &'a Recording) -> Self {
        let daemon = |line: &'a StampedLine| match &line.line {
            RecordingLine::Daemon(DaemonLine { node, name, .. }) => Some((*node, name.as_str())),
            _ => None,
        };
        let daemons = recording.lines.iter().filter_map(daemon).collect();
        Self { begin, end: end(begin, recording), daemons }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }

    /// True if one of the two goes on with a daemon of the other.
    fn is_continued(&self, other: &Self) -> bool {
        !self.daemons.is_disjoint(&other.daemons)
    }

    fn daemon_of_both(&self, other: &Self) -> Option<&'a str> {
        let common = self.end.min(other.end) - self.begin.max(other.begin);
        self.daemons.intersection(&other.daemons).next().filter(|_| common > OVERLAP_S).map(|(_, name)| *name)
    }

    fn name(&self) -> &'a str {
        self.daemons.first().map_or("a host without a daemon", |(_, name)| name)
    }
}
