//! Values in the notation of NS.

use std::time::Duration;

use roost_topology::model::{MAX_DELAY, TopologyChange};
use roost_topology::units::Rate;

pub(super) fn change_words(change: TopologyChange) -> Option<String> {
    Some(match change {
        TopologyChange::Up => "up".to_owned(),
        TopologyChange::Down => "down".to_owned(),
        TopologyChange::Rate(rate) if !rate.is_unlimited() => format!("bandwidth {} duplex", bandwidth(rate)),
        TopologyChange::Delay(time) => format!("delay {}", delay(time)),
        TopologyChange::Loss(part) => format!("plr {part}"),
        _ => return None,
    })
}

pub(super) fn variable(name: &str) -> String {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain { format!("${name}") } else { format!("${{{name}}}") }
}

/// A rate in whole kbit/s; the least that NS accepts is 10.
pub(super) fn bandwidth(rate: Rate) -> String {
    let kbps = (rate.bps() / 1000).clamp(10, 10_000_000);
    match rate.is_unlimited() {
        true => "*".to_owned(),
        false if kbps.is_multiple_of(1000) => format!("{}Mb", kbps / 1000),
        false => format!("{kbps}kb"),
    }
}

/// A delay in milliseconds; the most that NS accepts is an hour.
pub(super) fn delay(delay: Duration) -> String {
    format!("{}ms", delay.min(MAX_DELAY).as_nanos() as f64 / 1e6)
}

/// A loss; NS accepts none between 0 and 0.000005.
pub(super) fn loss(loss: f64) -> String {
    if loss < 0.000_005 { "0".to_owned() } else { loss.to_string() }
}

/// A text quoted as one word of Tcl, without substitutions.
pub(super) fn word(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' | '$' | '[' | ']' | '{' | '}' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
