//! What is to break in a run, and when.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::file::{Lines, Span};
use super::source::RateText;
use super::{Named, PlanError};
use crate::scenario::topology::Change;
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
    /// The daemon of a host is killed (SIGKILL): it says nothing to anybody.
    Kill(Daemon),
    /// The daemon of a host is asked to leave (SIGTERM).
    Stop(Daemon),
    /// The daemon of a host is started again.
    Start(Daemon),
    /// A link or LAN changes.
    Net {
        /// Which.
        net: Named,
        /// Only what this host sends, and on a LAN its legs both ways; all without it.
        from: Option<Named>,
        /// What becomes of it, at least one.
        changes: Vec<Change>,
    },
}

/// A daemon, by its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// The host.
    pub host: Named,
    /// The super node or the server there, rather than the node.
    pub hub: bool,
}

/// `[[faults]]` as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultFile {
    at: Spanned<Span>,
    kill: Option<Spanned<String>>,
    stop: Option<Spanned<String>>,
    start: Option<Spanned<String>>,
    down: Option<Spanned<String>>,
    up: Option<Spanned<String>>,
    change: Option<Spanned<String>>,
    #[serde(default)]
    hub: bool,
    from: Option<Spanned<String>>,
    rate: Option<RateText>,
    delay: Option<Span>,
    jitter: Option<Span>,
    loss: Option<Spanned<f64>>,
}

const VERBS: &str = "say one of kill, stop, start (a host), down, up or change (a link or LAN)";

impl FaultFile {
    /// Reads it in a plan whose workload lasts for `duration`.
    pub(super) fn read(self, lines: &Lines<'_>, duration: Duration) -> Result<Fault, PlanError> {
        let line = lines.of(self.at.span());
        let at = self.at.get_ref().0;
        let changes = self.changes(lines)?;
        let named = |name: &Spanned<String>| lines.named(name);
        let daemon = |name: &Spanned<String>| Daemon { host: named(name), hub: self.hub };
        let from = self.from.as_ref().map(named);
        let net = |name: &Spanned<String>, changes| FaultKind::Net { net: named(name), from: from.clone(), changes };
        let mut kinds = Vec::new();
        kinds.extend(self.kill.as_ref().map(|name| FaultKind::Kill(daemon(name))));
        kinds.extend(self.stop.as_ref().map(|name| FaultKind::Stop(daemon(name))));
        kinds.extend(self.start.as_ref().map(|name| FaultKind::Start(daemon(name))));
        kinds.extend(self.down.as_ref().map(|name| net(name, vec![Change::Down])));
        kinds.extend(self.up.as_ref().map(|name| net(name, vec![Change::Up])));
        kinds.extend(self.change.as_ref().map(|name| net(name, changes.clone())));
        let Ok([kind]) = <[FaultKind; 1]>::try_from(kinds) else {
            return Err(lines.error(line, format!("a fault does one thing: {VERBS}")));
        };
        let is_change = self.change.is_some();
        let is_net = matches!(kind, FaultKind::Net { .. });
        match () {
            () if at >= duration => {
                let (at, duration) = (format_duration(at), format_duration(duration));
                Err(lines.error(line, format!("at {at} nodes ask no more: the plan's duration is {duration}")))
            }
            () if is_change && changes.is_empty() => {
                Err(lines.error(line, "a change says to what: rate, delay, jitter or loss"))
            }
            () if !is_change && !changes.is_empty() => {
                Err(lines.error(line, "rate, delay, jitter and loss belong to `change`"))
            }
            () if !is_net && self.from.is_some() => Err(lines.error(line, "`from` belongs to down, up and change")),
            () if is_net && self.hub => Err(lines.error(line, "`hub` belongs to kill, stop and start")),
            () => Ok(Fault { at, kind }),
        }
    }

    fn changes(&self, lines: &Lines<'_>) -> Result<Vec<Change>, PlanError> {
        let mut changes = Vec::new();
        changes.extend(self.rate.as_ref().map(|rate| Change::Rate(rate.0)));
        changes.extend(self.delay.as_ref().map(|delay| Change::Delay(delay.0)));
        changes.extend(self.jitter.as_ref().map(|jitter| Change::Jitter(jitter.0)));
        if let Some(loss) = &self.loss {
            if !(0.0..=1.0).contains(loss.get_ref()) {
                return Err(lines.error(lines.of(loss.span()), "a loss is a probability from 0 to 1"));
            }
            changes.push(Change::Loss(*loss.get_ref()));
        }
        Ok(changes)
    }
}
