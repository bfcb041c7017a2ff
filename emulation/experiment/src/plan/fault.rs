//! Faults of a run, and their times.

use std::time::Duration;

use roost_topology::file::{self, BurstFile, QueueFile, Switch, TraceKey};
use roost_topology::model::TopologyChange;
use roost_topology::trace::TraceSide;
use roost_topology::units::{Rate, format_duration};
use serde::Deserialize;
use toml::Spanned;

use super::file::{MAX_FAULTS, PlanLines};
use super::values::{DurationText, Moment};
use super::{LinkTrace, Named, PlanError};

/// A fault of a daemon or a net.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub at: Duration,
    pub kind: FaultKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// An action on the daemon of a host.
    Daemon(DaemonRef, DaemonAction),
    Net {
        net: Named,
        /// Only the direction that leaves this host, and on a LAN its legs both ways. `None` means all.
        from: Option<Named>,
        changes: Vec<TopologyChange>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonAction {
    /// Killed (SIGKILL): the daemon sends no farewell.
    Kill,
    /// Told to leave (SIGTERM).
    Stop,
    Start,
    /// Frozen (SIGSTOP): the daemon closes nothing, and receives nothing for now.
    Freeze,
    /// Continued (SIGCONT).
    Thaw,
}

impl DaemonAction {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
        }
    }

    pub const fn past_description(self) -> &'static str {
        match self {
            Self::Kill => "is killed",
            Self::Stop => "is asked to leave",
            Self::Start => "is started again",
            Self::Freeze => "stands still",
            Self::Thaw => "goes on",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonRef {
    pub host: Named,
    /// True for the super node or server on the host, false for the node.
    pub hub: bool,
}

impl DaemonRef {
    pub fn describe_action(&self, deed: DaemonAction) -> String {
        format!("the {} on {} {}", if self.hub { "hub" } else { "node" }, self.host.name, deed.past_description())
    }
}

/// `[[faults]]` in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultFile {
    at: Spanned<Moment>,
    every: Option<Spanned<DurationText>>,
    times: Option<Spanned<usize>>,
    kill: Option<Spanned<String>>,
    stop: Option<Spanned<String>>,
    start: Option<Spanned<String>>,
    freeze: Option<Spanned<String>>,
    thaw: Option<Spanned<String>>,
    down: Option<Spanned<String>>,
    up: Option<Spanned<String>>,
    change: Option<Spanned<String>>,
    #[serde(default)]
    hub: bool,
    from: Option<Spanned<String>>,
    rate: Option<Rate>,
    delay: Option<DurationText>,
    jitter: Option<DurationText>,
    loss: Option<Spanned<f64>>,
    burst: Option<Spanned<Switch<BurstFile>>>,
    reorder: Option<bool>,
    queue: Option<Spanned<QueueFile>>,
}

/// `[links.NAME]` in the file: new values for a link or LAN of the topology.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkFile {
    rate: Option<Rate>,
    delay: Option<DurationText>,
    jitter: Option<DurationText>,
    loss: Option<Spanned<f64>>,
    burst: Option<Spanned<Switch<BurstFile>>>,
    reorder: Option<bool>,
    queue: Option<Spanned<QueueFile>>,
    trace: Option<Spanned<TraceKey>>,
    up: Option<SideFile>,
    down: Option<SideFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SideFile {
    trace: Option<Spanned<TraceKey>>,
}

impl LinkFile {
    /// The traces of a link, by direction.
    pub(super) fn traces(self, net: &Named, lines: &PlanLines<'_>) -> Vec<LinkTrace> {
        let side = |file: Option<SideFile>| file.and_then(|file| file.trace);
        let keys = [(TraceSide::All, self.trace), (TraceSide::Up, side(self.up)), (TraceSide::Down, side(self.down))];
        let named = |(side, key): (TraceSide, Option<Spanned<TraceKey>>)| {
            let key = key?;
            let net = Named { line: lines.line_of(key.span()), ..net.clone() };
            Some(LinkTrace { net, side, key: key.into_inner() })
        };
        keys.into_iter().filter_map(named).collect()
    }

    pub(super) fn changes(&self, lines: &PlanLines<'_>) -> Result<Vec<TopologyChange>, PlanError> {
        let loss = self.loss.as_ref();
        if let Some(loss) = loss.filter(|loss| !(0.0..=1.0).contains(loss.get_ref())) {
            return Err(lines.error(lines.line_of(loss.span()), "a loss is a probability from 0 to 1"));
        }
        let changes = [
            self.rate.map(TopologyChange::Rate),
            self.delay.map(|delay| TopologyChange::Delay(delay.0)),
            self.jitter.map(|jitter| TopologyChange::Jitter(jitter.0)),
            loss.map(|loss| TopologyChange::Loss(*loss.get_ref())),
            self.burst.as_ref().and_then(|burst| file::burst(lines.source(), burst)).map(TopologyChange::Burst),
            self.reorder.map(|reorder| TopologyChange::Order(file::order(reorder))),
            self.queue.as_ref().and_then(|queue| file::queue(lines.source(), queue)).map(TopologyChange::Queue),
        ];
        Ok(changes.into_iter().flatten().collect())
    }
}

const VERBS: &str = "say one of kill, stop, start, freeze, thaw (a host), down, up or change (a link or LAN)";

impl FaultFile {
    /// Reads it in a plan whose workload lasts for `duration`; returns one fault for each repetition.
    pub(super) fn read(mut self, lines: &PlanLines<'_>, duration: Duration) -> Result<Vec<Fault>, PlanError> {
        let kind = self.kind(lines)?;
        let (at, line) = (self.at.get_ref().resolve_time(duration), lines.line_of(self.at.span()));
        let (every, times) = self.pace(lines, duration)?;
        let last = u32::try_from(times - 1).ok().and_then(|again| every.checked_mul(again)).map(|more| at + more);
        if last.is_none_or(|last| last >= duration) {
            let (last, duration) = (format_duration(last.unwrap_or(Duration::MAX)), format_duration(duration));
            return Err(lines.error(line, format!("at {last} nodes ask no more: the plan's duration is {duration}")));
        }
        Ok((0..times as u32).map(|time| Fault { at: at + every * time, kind: kind.clone() }).collect())
    }

    /// The interval and the number of repetitions. Without a count they go on until the workload ends.
    fn pace(&self, lines: &PlanLines<'_>, duration: Duration) -> Result<(Duration, usize), PlanError> {
        let Some(every) = &self.every else {
            return match &self.times {
                Some(times) => {
                    Err(lines.error(lines.line_of(times.span()), "`times` needs `every`: how long between two"))
                }
                None => Ok((Duration::ZERO, 1)),
            };
        };
        let (line, pause) = (lines.line_of(every.span()), every.get_ref().0);
        if pause.is_zero() {
            return Err(lines.error(line, "it must be longer than nothing"));
        }
        let left = duration.saturating_sub(self.at.get_ref().resolve_time(duration));
        let until_end = usize::try_from(left.as_nanos().div_ceil(pause.as_nanos())).unwrap_or(usize::MAX).max(1);
        let times = self.times.as_ref().map_or(until_end, |times| *times.get_ref());
        if (1..=MAX_FAULTS).contains(&times) {
            return Ok((pause, times));
        }
        Err(lines.error(line, format!("it would come {times} times; from 1 to {MAX_FAULTS} are possible")))
    }

    fn kind(&mut self, lines: &PlanLines<'_>) -> Result<FaultKind, PlanError> {
        let line = lines.line_of(self.at.span());
        let Self { rate, delay, jitter, reorder, .. } = *self;
        let (loss, burst, queue) = (self.loss.take(), self.burst.take(), self.queue.take());
        let (trace, up, down) = (None, None, None);
        let values = LinkFile { rate, delay, jitter, loss, burst, reorder, queue, trace, up, down };
        let changes = values.changes(lines)?;
        let named = |name: &Spanned<String>| lines.named(name);
        let from = self.from.as_ref().map(named);
        let net = |name: &Spanned<String>, changes| FaultKind::Net { net: named(name), from: from.clone(), changes };
        let deeds = [
            (&self.kill, DaemonAction::Kill),
            (&self.stop, DaemonAction::Stop),
            (&self.start, DaemonAction::Start),
            (&self.freeze, DaemonAction::Freeze),
            (&self.thaw, DaemonAction::Thaw),
        ];
        let mut kinds = Vec::new();
        kinds.extend(deeds.into_iter().filter_map(|(name, deed)| {
            let host = named(name.as_ref()?);
            Some(FaultKind::Daemon(DaemonRef { host, hub: self.hub }, deed))
        }));
        kinds.extend(self.down.as_ref().map(|name| net(name, vec![TopologyChange::Down])));
        kinds.extend(self.up.as_ref().map(|name| net(name, vec![TopologyChange::Up])));
        kinds.extend(self.change.as_ref().map(|name| net(name, changes.clone())));
        let Ok([kind]) = <[FaultKind; 1]>::try_from(kinds) else {
            return Err(lines.error(line, format!("a fault does one thing: {VERBS}")));
        };
        let is_change = self.change.is_some();
        let is_net = matches!(kind, FaultKind::Net { .. });
        match () {
            () if is_change && changes.is_empty() => {
                Err(lines.error(line, "a change says to what: rate, delay, jitter, loss, burst, reorder or queue"))
            }
            () if !is_change && !changes.is_empty() => {
                Err(lines.error(line, "rate, delay, jitter, loss, burst, reorder and queue belong to `change`"))
            }
            () if !is_net && self.from.is_some() => Err(lines.error(line, "`from` belongs to down, up and change")),
            () if is_net && self.hub => Err(lines.error(line, "`hub` belongs to kill, stop, start, freeze and thaw")),
            () => Ok(kind),
        }
    }
}
