//! The result of a bench of a hub, for people and for scripts.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::lookups::Lookups;
use super::population::Joins;
use super::warm::Warm;
use roost_terminal::{Output, SCHEMA, Table};

use crate::failure::Outcome;

/// Growth of the hub's memory, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    per_node: f64,
    per_entry: f64,
}

impl Memory {
    /// Computes the growth from the hub's memory before `nodes` attached, after that, and after they had published
    /// `entries`.
    pub(super) fn new(before: u64, attached: u64, published: u64, nodes: u64, entries: u64) -> Self {
        let grown = |from: u64, to: u64, count: u64| to.saturating_sub(from) as f64 / count.max(1) as f64;
        Self { per_node: grown(before, attached, nodes), per_entry: grown(attached, published, entries) }
    }
}

pub(super) struct BenchReport {
    pub(super) hub: String,
    pub(super) nodes: u32,
    /// Nodes that only published, for want of file descriptors.
    pub(super) silent: u32,
    pub(super) join: Joins,
    pub(super) idle: f64,
    pub(super) single: Lookups,
    /// From few nodes.
    pub(super) batched: Lookups,
    /// From as many nodes as there are lookups in flight.
    pub(super) spread: Lookups,
    pub(super) warm: Warm,
    pub(super) memory: Option<Memory>,
    pub(super) lost: u64,
}

impl BenchReport {
    pub(super) fn print(&self, output: Output) -> Outcome {
        if output.is_json() {
            return Ok(output.json(&self.object())?);
        }
        output.table(&self.table())?;
        output.say(
            "Bytes are those on the wire, with the headers of IPv4 and UDP (TCP's are not counted); what goes from node to \
             node crosses two connections and counts twice.",
        );
        if self.memory.is_none() {
            output.say("Give --pid with the hub's process, on this machine, for its processor time and memory.");
        }
        if self.silent > 0 {
            let silent = self.silent;
            output.say(format!("{silent} nodes published and left: raise ulimit -n so that all nodes stay."));
        }
        if self.lost > 0 {
            output.say(format!("The hub has dropped {} of the nodes: the figures are of fewer.", self.lost));
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["MEASURE", ">VALUE", "UNIT"]);
        let mut row = |measure: String, value: Option<f64>, digits: usize, unit: &str| {
            let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
            table.row([measure, value, unit.to_owned()]);
        };
        let entries = self.nodes * super::SERVICES_PER_NODE;
        row("entries".to_owned(), Some(f64::from(entries)), 0, "");
        row("join, four services".to_owned(), Some(self.join.bytes), 0, "bytes");
        row("join, time".to_owned(), Some(self.join.millis), 2, "ms");
        row("idle, per node".to_owned(), Some(self.idle), 2, "bytes/s");
        row("lookup, 1 in flight, p50".to_owned(), Some(micros(&self.single.nanos, 0.5)), 1, "us");
        row("lookup, 1 in flight, p99".to_owned(), Some(micros(&self.single.nanos, 0.99)), 1, "us");
        for load in [&self.batched, &self.spread] {
            let many = format!("{} in flight of {} requesters", load.in_flight, load.requesters);
            row(format!("lookup, {many}, rate"), Some(load.per_second), 0, "1/s");
            row(format!("lookup, {many}, p50"), Some(micros(&load.nanos, 0.5)), 1, "us");
            row(format!("lookup, {many}, p99"), Some(micros(&load.nanos, 0.99)), 1, "us");
            row(format!("lookup, {many}, unanswered"), Some(load.lost as f64), 0, "");
            row(format!("lookup, {many}, not found"), Some(load.wrong as f64), 0, "");
            row(format!("hub processor, {many}"), load.hub_micros, 2, "us/lookup");
        }
        row("hub memory, per attached node".to_owned(), self.memory.map(|memory| memory.per_node), 0, "bytes");
        row("hub memory, per entry".to_owned(), self.memory.map(|memory| memory.per_entry), 0, "bytes");
        let way = if self.warm.relayed { "relayed" } else { "direct" };
        row(format!("find + request, warm, {way}"), Some(self.warm.bytes), 0, "bytes");
        row("first byte, warm, p50".to_owned(), Some(micros(&self.warm.nanos, 0.5)), 1, "us");
        row("first byte, warm, p99".to_owned(), Some(micros(&self.warm.nanos, 0.99)), 1, "us");
        table
    }

    fn object(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "hub": self.hub,
            "nodes": self.nodes,
            "nodes_silent": self.silent,
            "entries": self.nodes * super::SERVICES_PER_NODE,
            "join": {"bytes": self.join.bytes, "ms": self.join.millis},
            "idle": {"bytes_per_second_per_node": self.idle},
            "lookup": lookups(&self.single),
            "load": lookups(&self.batched),
            "load_many_requesters": lookups(&self.spread),
            "memory": self.memory.map(|memory| json!({
                "per_node_bytes": memory.per_node, "per_entry_bytes": memory.per_entry
            })),
            "warm": {
                "bytes": self.warm.bytes,
                "relayed": self.warm.relayed,
                "first_byte_p50_us": micros(&self.warm.nanos, 0.5),
                "first_byte_p99_us": micros(&self.warm.nanos, 0.99),
            },
            "nodes_lost": self.lost,
        })
    }
}

fn lookups(run: &Lookups) -> Value {
    json!({
        "in_flight": run.in_flight,
        "requesters": run.requesters,
        "answered": run.answered,
        "lost": run.lost,
        "wrong": run.wrong,
        "per_second": run.per_second,
        "p50_us": micros(&run.nanos, 0.5),
        "p99_us": micros(&run.nanos, 0.99),
        "hub_cpu_us": run.hub_micros,
    })
}

fn micros(nanos: &Histogram<u64>, quantile: f64) -> f64 {
    nanos.value_at_quantile(quantile) as f64 / 1e3
}
