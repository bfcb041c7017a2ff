//! The values of a link, a LAN, a direction or a leg.

use std::sync::Arc;
use std::time::Duration;

use ::toml::Spanned;
use serde::Deserialize;

use super::fields::SourceText;
use super::values::{self, Switch, Whole};
use crate::model::{Burst, Discipline, Leg, PacketOrder, Queue, Red};
use crate::trace::Playback;
use crate::units::Rate;

/// The longest queue, in packets or bytes.
const MAX_QUEUE: i64 = 1 << 30;

type Packets = Whole<u32, 1, MAX_QUEUE>;

/// Declares the table of a stanza with its keys and those of a shape, all of which may be absent.
///
/// A flattened structure would lose the lines.
macro_rules! with_shape {
    ($name:ident { $($(#[$how:meta])* $key:ident: $value:ty),* $(,)? }) => {
        #[derive(Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $name {
            $($(#[$how])* $key: $value,)*
            rate: Option<crate::units::Rate>,
            #[serde(deserialize_with = "crate::file::values::delay")]
            delay: Option<std::time::Duration>,
            #[serde(deserialize_with = "crate::file::values::probability")]
            loss: Option<f64>,
            #[serde(deserialize_with = "crate::file::values::delay")]
            jitter: Option<std::time::Duration>,
            burst: Option<::toml::Spanned<crate::file::values::Switch<crate::file::shape::BurstFile>>>,
            reorder: Option<bool>,
            pub(super) queue: Option<::toml::Spanned<crate::file::shape::QueueFile>>,
            trace: Option<::toml::Spanned<crate::file::trace::TraceKey>>,
        }

        impl $name {
            pub(super) fn shape(&self, source: &crate::file::fields::SourceText<'_>) -> crate::file::shape::LegOverrides {
                let trace = self.trace.as_ref().and_then(|trace| crate::file::trace::playback(source, trace));
                crate::file::shape::LegOverrides {
                    rate: self.rate,
                    delay: self.delay,
                    loss: self.loss,
                    jitter: self.jitter,
                    burst: self.burst.as_ref().and_then(|burst| crate::file::shape::burst(source, burst)),
                    order: self.reorder.map(crate::file::shape::order),
                    queue: self.queue.as_ref().and_then(|queue| crate::file::shape::queue(source, queue)),
                    is_trace_wrong: self.trace.is_some() && trace.is_none(),
                    trace,
                }
            }
        }
    };
}
pub(super) use with_shape;

with_shape!(Shape {});

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BurstFile {
    #[serde(deserialize_with = "values::probability")]
    enter: Option<f64>,
    #[serde(deserialize_with = "values::positive_probability")]
    leave: Option<f64>,
    #[serde(deserialize_with = "values::probability")]
    loss: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueFile {
    limit: Option<Packets>,
    #[serde(rename = "in")]
    unit: Option<Unit>,
    red: Option<Switch<RedFile>>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Packets,
    Bytes,
}

impl QueueFile {
    /// The limit, if the table gives nothing else.
    pub(super) fn only_limit(&self) -> Option<u32> {
        self.limit.filter(|_| self.unit.is_none() && self.red.is_none()).map(|limit| limit.0)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RedFile {
    min: Option<Packets>,
    max: Option<Packets>,
    linterm: Option<Packets>,
    #[serde(deserialize_with = "values::weight")]
    weight: Option<f64>,
    gentle: Option<bool>,
}

/// The values that a table gives; `None` for those it leaves out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LegOverrides {
    pub(super) rate: Option<Rate>,
    pub(super) delay: Option<Duration>,
    pub(super) loss: Option<f64>,
    pub(super) jitter: Option<Duration>,
    pub(super) burst: Option<Option<Burst>>,
    pub(super) order: Option<PacketOrder>,
    pub(super) queue: Option<Queue>,
    pub(super) trace: Option<Option<Arc<Playback>>>,
    /// True if a trace is given that cannot be read, which is reported.
    pub(super) is_trace_wrong: bool,
}

impl LegOverrides {
    /// Replaces values of a leg by the given ones.
    pub(super) fn lay_over(&self, leg: &mut Leg) {
        leg.rate = self.rate.unwrap_or(leg.rate);
        leg.delay = self.delay.unwrap_or(leg.delay);
        leg.loss = self.loss.unwrap_or(leg.loss);
        leg.jitter = self.jitter.unwrap_or(leg.jitter);
        leg.burst = self.burst.unwrap_or(leg.burst);
        leg.order = self.order.unwrap_or(leg.order);
        leg.queue = self.queue.unwrap_or(leg.queue);
        if let Some(trace) = &self.trace {
            leg.trace.clone_from(trace);
        }
    }

    /// Splits end-to-end values of a LAN over the sender's and the receiver's legs.
    pub(super) fn halves(&self) -> (Self, Self) {
        let mut whole = Leg::default();
        self.lay_over(&mut whole);
        let (to_net, from_net) = whole.halves();
        // Behind a switch the legs to the receivers queue as well.
        let from_net = Leg { queue: whole.queue, ..from_net };
        (self.with_values_of(&to_net), self.with_values_of(&from_net))
    }

    fn with_values_of(&self, leg: &Leg) -> Self {
        Self {
            rate: self.rate.map(|_| leg.rate),
            delay: self.delay.map(|_| leg.delay),
            loss: self.loss.map(|_| leg.loss),
            jitter: self.jitter.map(|_| leg.jitter),
            burst: self.burst.map(|_| leg.burst),
            order: self.order.map(|_| leg.order),
            queue: self.queue.map(|_| leg.queue),
            trace: self.trace.as_ref().map(|_| leg.trace.clone()),
            is_trace_wrong: self.is_trace_wrong,
        }
    }

    /// The values in which `leg` differs from `base`.
    pub(super) fn between(base: &Leg, leg: &Leg) -> Self {
        Self {
            rate: (base.rate != leg.rate).then_some(leg.rate),
            delay: (base.delay != leg.delay).then_some(leg.delay),
            loss: (base.loss.to_bits() != leg.loss.to_bits()).then_some(leg.loss),
            jitter: (base.jitter != leg.jitter).then_some(leg.jitter),
            burst: (base.burst != leg.burst).then_some(leg.burst),
            order: (base.order != leg.order).then_some(leg.order),
            queue: (base.queue != leg.queue).then_some(leg.queue),
            trace: (base.trace != leg.trace).then(|| leg.trace.clone()),
            is_trace_wrong: false,
        }
    }
}

/// The order of packets by the key `reorder`.
pub const fn order(reorder: bool) -> PacketOrder {
    if reorder { PacketOrder::Free } else { PacketOrder::Kept }
}

/// The bursts that a key gives; `Some(None)` ends them. Reports what is wrong.
pub fn burst(source: &SourceText<'_>, given: &Spanned<Switch<BurstFile>>) -> Option<Option<Burst>> {
    let at = given.span().start;
    match given.get_ref() {
        Switch::Flag(false) => Some(None),
        Switch::Flag(true) => {
            source.refuse(at, "a burst is a table with keys, not true or false");
            None
        }
        Switch::Table(BurstFile { enter, leave, loss }) => {
            let enter = source.required(at, "a burst", "enter", *enter, "0.01");
            let leave = source.required(at, "a burst", "leave", *leave, "0.2");
            Some(Some(Burst { enter: enter?, leave: leave?, loss: loss.unwrap_or(1.0) }))
        }
    }
}

/// The queue that a key gives. Reports what is wrong.
pub fn queue(source: &SourceText<'_>, given: &Spanned<QueueFile>) -> Option<Queue> {
    let QueueFile { limit, unit, red } = given.get_ref();
    let in_bytes = *unit == Some(Unit::Bytes);
    let limit = limit.map(|limit| limit.0);
    if in_bytes {
        source.required(given.span().start, "a queue", "limit", limit, "64000")?;
    }
    let discipline = match red {
        None | Some(Switch::Flag(false)) => Discipline::DropTail,
        Some(Switch::Flag(true)) => Discipline::Red(Red::DEFAULT),
        Some(Switch::Table(RedFile { min, max, linterm, weight, gentle })) => Discipline::Red(Red {
            min_threshold: min.map_or(Red::DEFAULT.min_threshold, |min| min.0),
            max_threshold: max.map_or(Red::DEFAULT.max_threshold, |max| max.0),
            linterm: linterm.map_or(Red::DEFAULT.linterm, |linterm| linterm.0),
            weight: weight.unwrap_or(Red::DEFAULT.weight),
            gentle: gentle.unwrap_or(Red::DEFAULT.gentle),
        }),
    };
    Some(Queue { limit: limit.unwrap_or(Queue::DEFAULT.limit), in_bytes, discipline })
}
