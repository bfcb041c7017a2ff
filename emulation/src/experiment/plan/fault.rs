//! What is to break in a run, and when.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::file::{DurationText, MAX_FAULTS, Moment, PlanLines};
use super::source::RateText;
use super::{Named, PlanError};
use crate::topology::model::TopologyChange;
use crate::units::format_duration;

/// Something that is done to a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When, after all nodes were ready.
    pub at: Duration,
    /// What.
    pub kind: FaultKind,
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// Something is done to the daemon of a host.
    Daemon(DaemonRef, DaemonAction),
    /// A link or LAN changes.
    Net {
        /// Which.
        net: Named,
        /// Only what this host sends, and on a LAN its legs both ways; all without it.
        from: Option<Named>,
        /// What becomes of it, at least one.
        changes: Vec<TopologyChange>,
    },
}

/// What is done to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonAction {
    /// It is killed (SIGKILL): it says nothing to anybody.
    Kill,
    /// It is asked to leave (SIGTERM).
    Stop,
    /// It is started again.
    Start,
    /// It stands still (SIGSTOP): it closes nothing, and hears nothing for now.
    Freeze,
    /// It goes on (SIGCONT).
    Thaw,
}

impl DaemonAction {
    /// Its key in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
        }
    }

    /// What records say that a daemon does.
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

/// A daemon, by its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonRef {
    /// The host.
    pub host: Named,
    /// The super node or the server there, rather than the node.
    pub hub: bool,
}

impl DaemonRef {
    /// What befalls it, as records say.
    pub fn describe_action(&self, deed: DaemonAction) -> String {
        format!("the {} on {} {}", if self.hub { "hub" } else { "node" }, self.host.name, deed.past_description())
    }
}

/// `[[faults]]` as it stands in the file.
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
    rate: Option<RateText>,
    delay: Option<DurationText>,
    jitter: Option<DurationText>,
    loss: Option<Spanned<f64>>,
}

/// `[links.NAME]` as it stands in the file: what a link or LAN of the topology is instead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkFile {
    rate: Option<RateText>,
    delay: Option<DurationText>,
    jitter: Option<DurationText>,
    loss: Option<Spanned<f64>>,
}

impl LinkFile {
    pub(super) fn changes(&self, lines: &PlanLines<'_>) -> Result<Vec<TopologyChange>, PlanError> {
        changes((self.rate.as_ref(), self.delay.as_ref(), self.jitter.as_ref(), self.loss.as_ref()), lines)
    }
}

type LinkValues<'a> =
    (Option<&'a RateText>, Option<&'a DurationText>, Option<&'a DurationText>, Option<&'a Spanned<f64>>);

/// A link as its rate, delay, jitter and loss make it.
fn changes(
    (rate, delay, jitter, loss): LinkValues<'_>,
    lines: &PlanLines<'_>,
) -> Result<Vec<TopologyChange>, PlanError> {
    let mut changes = Vec::new();
    changes.extend(rate.map(|rate| TopologyChange::Rate(rate.0)));
    changes.extend(delay.map(|delay| TopologyChange::Delay(delay.0)));
    changes.extend(jitter.map(|jitter| TopologyChange::Jitter(jitter.0)));
    if let Some(loss) = loss {
        if !(0.0..=1.0).contains(loss.get_ref()) {
            return Err(lines.error(lines.line_of(loss.span()), "a loss is a probability from 0 to 1"));
        }
        changes.push(TopologyChange::Loss(*loss.get_ref()));
    }
    Ok(changes)
}

const VERBS: &str = "say one of kill, stop, start, freeze, thaw (a host), down, up or change (a link or LAN)";

impl FaultFile {
    /// Reads it in a plan whose workload lasts for `duration`: one for each
    /// time that it comes.
    pub(super) fn read(self, lines: &PlanLines<'_>, duration: Duration) -> Result<Vec<Fault>, PlanError> {
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

    /// How long after one time the next comes, and how many there are: until
    /// nodes ask no more, unless it says how many.
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

    fn kind(&self, lines: &PlanLines<'_>) -> Result<FaultKind, PlanError> {
        let line = lines.line_of(self.at.span());
        let changes = self.changes(lines)?;
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
                Err(lines.error(line, "a change says to what: rate, delay, jitter or loss"))
            }
            () if !is_change && !changes.is_empty() => {
                Err(lines.error(line, "rate, delay, jitter and loss belong to `change`"))
            }
            () if !is_net && self.from.is_some() => Err(lines.error(line, "`from` belongs to down, up and change")),
            () if is_net && self.hub => Err(lines.error(line, "`hub` belongs to kill, stop, start, freeze and thaw")),
            () => Ok(kind),
        }
    }

    fn changes(&self, lines: &PlanLines<'_>) -> Result<Vec<TopologyChange>, PlanError> {
        changes((self.rate.as_ref(), self.delay.as_ref(), self.jitter.as_ref(), self.loss.as_ref()), lines)
    }
}
