//! The values of a link, a LAN, a direction or a leg.

use std::time::Duration;

use ::toml::de::DeValue;

use super::fields::{Fields, Located};
use crate::model::{Burst, Discipline, Leg, MAX_DELAY, Queue, Red};
use crate::units::Rate;

pub(super) const KEYS: [&str; 6] = ["rate", "delay", "loss", "jitter", "burst", "queue"];
const BURST_KEYS: [&str; 3] = ["enter", "leave", "loss"];
const QUEUE_KEYS: [&str; 3] = ["limit", "in", "red"];
const RED_KEYS: [&str; 5] = ["min", "max", "linterm", "weight", "gentle"];
/// The longest queue, in packets or bytes.
const MAX_QUEUE: i64 = 1 << 30;
const PROBABILITY: &str = "a probability from 0 to 1: 1 % is 0.01";

#[cfg(test)]
pub(super) fn keys() -> Vec<&'static str> {
    [&KEYS[..], &BURST_KEYS, &QUEUE_KEYS, &RED_KEYS].concat()
}

/// The values that a table gives; `None` for those it leaves out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LegOverrides {
    pub(super) rate: Option<Rate>,
    pub(super) delay: Option<Duration>,
    pub(super) loss: Option<f64>,
    pub(super) jitter: Option<Duration>,
    pub(super) burst: Option<Option<Burst>>,
    pub(super) queue: Option<Queue>,
}

impl LegOverrides {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        Self {
            rate: fields.rate("rate"),
            delay: fields.duration("delay", MAX_DELAY),
            loss: fields.number("loss", 0.0, 1.0, PROBABILITY),
            jitter: fields.duration("jitter", MAX_DELAY),
            burst: read_burst(fields),
            queue: read_queue(fields),
        }
    }

    /// Reads the values of one direction, in a table under `up` or `down`.
    pub(super) fn direction(fields: &Fields<'_>, key: &str) -> Self {
        let inner =
            fields.value(key).and_then(|value| Fields::from_value(fields.source(), "a direction", value, &KEYS));
        inner.map_or_else(Self::default, |inner| Self::read(&inner))
    }

    /// Replaces values of a leg by the given ones.
    pub(super) fn lay_over(&self, leg: &mut Leg) {
        leg.rate = self.rate.unwrap_or(leg.rate);
        leg.delay = self.delay.unwrap_or(leg.delay);
        leg.loss = self.loss.unwrap_or(leg.loss);
        leg.jitter = self.jitter.unwrap_or(leg.jitter);
        leg.burst = self.burst.unwrap_or(leg.burst);
        leg.queue = self.queue.unwrap_or(leg.queue);
    }

    /// The values in which `leg` differs from `base`.
    pub(super) fn between(base: &Leg, leg: &Leg) -> Self {
        Self {
            rate: (base.rate != leg.rate).then_some(leg.rate),
            delay: (base.delay != leg.delay).then_some(leg.delay),
            loss: (base.loss.to_bits() != leg.loss.to_bits()).then_some(leg.loss),
            jitter: (base.jitter != leg.jitter).then_some(leg.jitter),
            burst: (base.burst != leg.burst).then_some(leg.burst),
            queue: (base.queue != leg.queue).then_some(leg.queue),
        }
    }
}

pub(super) fn read_burst(fields: &Fields<'_>) -> Option<Option<Burst>> {
    let value = fields.value("burst")?;
    if matches!(value.get_ref(), DeValue::Boolean(false)) {
        return Some(None);
    }
    let inner = Fields::from_value(fields.source(), "a burst", value, &BURST_KEYS)?;
    let enter = inner.number("enter", 0.0, 1.0, PROBABILITY);
    let leave = inner.number("leave", f64::MIN_POSITIVE, 1.0, "a probability above 0, up to 1");
    let loss = inner.number("loss", 0.0, 1.0, PROBABILITY);
    let enter = inner.required("enter", enter, "0.01");
    let leave = inner.required("leave", leave, "0.2");
    Some(Some(Burst { enter: enter?, leave: leave?, loss: loss.unwrap_or(1.0) }))
}

fn read_queue(fields: &Fields<'_>) -> Option<Queue> {
    let inner = Fields::from_value(fields.source(), "a queue", fields.value("queue")?, &QUEUE_KEYS)?;
    let limit = inner.whole("limit", 1, MAX_QUEUE);
    let unit = inner.text("in");
    let in_bytes = match unit {
        None => false,
        Some(Located { value: "packets", .. }) => false,
        Some(Located { value: "bytes", .. }) => true,
        Some(Located { value, at }) => {
            inner.source().refuse(at, format!("`in` of a queue is \"packets\" or \"bytes\", not \"{value}\""));
            return None;
        }
    };
    if in_bytes {
        inner.required("limit", limit, "64000")?;
    }
    let limit = limit.map_or(Queue::DEFAULT.limit, to_u32);
    Some(Queue { limit, in_bytes, discipline: read_red(&inner)? })
}

/// The queue discipline, or `None` after a mistake.
fn read_red(queue: &Fields<'_>) -> Option<Discipline> {
    let Some(value) = queue.value("red") else { return Some(Discipline::DropTail) };
    match value.get_ref() {
        DeValue::Boolean(false) => return Some(Discipline::DropTail),
        DeValue::Boolean(true) => return Some(Discipline::Red(Red::DEFAULT)),
        _ => {}
    }
    let inner = Fields::from_value(queue.source(), "red", value, &RED_KEYS)?;
    let whole = |key, default: u32| inner.whole(key, 1, MAX_QUEUE).map_or(default, to_u32);
    let red = Red {
        min_threshold: whole("min", Red::DEFAULT.min_threshold),
        max_threshold: whole("max", Red::DEFAULT.max_threshold),
        linterm: whole("linterm", Red::DEFAULT.linterm),
        weight: inner
            .number("weight", f64::MIN_POSITIVE, 1.0, "a weight above 0, up to 1")
            .unwrap_or(Red::DEFAULT.weight),
        gentle: inner.flag("gentle").unwrap_or(Red::DEFAULT.gentle),
    };
    Some(Discipline::Red(red))
}

/// Converts a number that was read within bounds.
fn to_u32(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
