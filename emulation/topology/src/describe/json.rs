//! The description as JSON. Its fields are named as in listings made with Emulab's own parser, so that the two
//! can be compared by a program: rates are in kbit/s (0: no limit), delays in milliseconds, losses 0 to 1, and
//! `to_net` and `from_net` hold the values of single legs.

use serde_json::Number;

use super::rows::{
    BurstRow, Description, DisciplineRow, EventRow, LegRow, MemberRow, NetRow, NodeRow, NoteRow, OneWayRow,
    OwnQueueRow, ProgramRow, QueueRow, RedRow, TopologyCounts, TraceRow, TrafficRow,
};

use crate::addresses::{AddressError, assign};
use crate::emulab::{self, EmulabEvent};
use crate::model::{
    Discipline, Host, HostProgram, Leg, Net, NetKind, NetMember, Note, PacketOrder, Queue, Topology, TrafficAgent,
};
use crate::trace::Playback;
use crate::units::Rate;

/// The version of the object; fields are only ever added.
const SCHEMA: u32 = 1;

/// Describes a topology read from `source`.
///
/// # Errors
/// Fails when some interface gets no address.
pub fn describe(topology: &Topology, source: &str) -> Result<Description, AddressError> {
    let assigned = assign(topology)?;
    let events: Vec<EventRow> = emulab::events(topology).into_iter().map(event_row).collect();
    Ok(Description {
        schema: SCHEMA,
        source: source.to_owned(),
        name: topology.name.clone(),
        nodes: topology.hosts.iter().map(|host| node_row(topology, host)).collect(),
        lans: net_rows(topology, &assigned),
        counts: counts(topology, &events),
        events,
        programs: topology.programs.iter().map(|program| program_row(topology, program)).collect(),
        trafgens: topology.traffic.iter().map(|agent| traffic_row(topology, agent)).collect(),
        ignored: topology.notes.ignored.iter().map(note_row).collect(),
        warnings: topology.notes.warnings.iter().map(note_row).collect(),
    })
}

fn node_row(topology: &Topology, host: &Host) -> NodeRow {
    NodeRow {
        name: host.name.clone(),
        hardware: host.hardware.clone().unwrap_or_else(|| "pc".to_owned()),
        os: host.os.clone(),
        routing: emulab::routing(topology).to_owned(),
        class: host.class.clone(),
        cell: host.cell,
    }
}

fn net_rows(topology: &Topology, assigned: &Topology) -> Vec<NetRow> {
    let mut ports = vec![0; topology.hosts.len()];
    let mut rows = Vec::with_capacity(topology.nets.len());
    for (index, (net, with_addresses)) in topology.nets.iter().zip(&assigned.nets).enumerate() {
        let rate = rate_of(topology, index);
        let mut member = |(given, filled): (&NetMember, &NetMember)| {
            ports[given.host] += 1;
            MemberRow {
                node: topology.hosts[given.host].name.clone(),
                port: ports[given.host] - 1,
                ip: filled.address,
                ip_is_auto: given.address.is_none(),
                prefix: filled.prefix,
                to_net: leg_row(&given.to_net, &rate),
                from_net: leg_row(&given.from_net, &rate),
                queue: own_queue_row(&given.to_net.queue),
            }
        };
        rows.push(NetRow {
            name: net.name.clone(),
            kind: if net.kind == NetKind::Link { "link" } else { "lan" },
            members: net.members.iter().zip(&with_addresses.members).map(&mut member).collect(),
            one_way: one_way(topology, net, &rate),
        });
    }
    rows
}

/// The displayed rates of a net; a best-effort net shows the rate that Emulab reserves for it.
fn rate_of(topology: &Topology, net: usize) -> impl Fn(Rate) -> Number {
    let best_effort = topology.emulab.best_effort.contains(&net);
    move |rate| match best_effort && rate.is_unlimited() {
        true => Number::from(10),
        false => number(rate.bps() as f64 / 1000.0),
    }
}

fn one_way(topology: &Topology, net: &Net, rate: &impl Fn(Rate) -> Number) -> Vec<OneWayRow> {
    let [a, b] = net.members.as_slice() else { return Vec::new() };
    let row = |from: &NetMember, to: &NetMember| {
        let whole = from.to_net.joined(&to.from_net);
        OneWayRow {
            frm: topology.hosts[from.host].name.clone(),
            to: topology.hosts[to.host].name.clone(),
            bw_kbps: rate(whole.rate),
            delay_ms: number(whole.delay.as_secs_f64() * 1e3),
            loss: number(whole.loss),
        }
    };
    vec![row(a, b), row(b, a)]
}

fn leg_row(leg: &Leg, rate: &impl Fn(Rate) -> Number) -> LegRow {
    LegRow {
        bw_kbps: rate(leg.rate),
        delay_ms: number(leg.delay.as_secs_f64() * 1e3),
        loss: number(leg.loss),
        jitter_ms: (!leg.jitter.is_zero()).then(|| number(leg.jitter.as_secs_f64() * 1e3)),
        burst: leg.burst.map(|burst| BurstRow { enter: burst.enter, leave: burst.leave, loss: burst.loss }),
        reorder: leg.order == PacketOrder::Free,
        queue: QueueRow {
            limit: leg.queue.limit,
            unit: unit(&leg.queue),
            discipline: discipline_row(&leg.queue.discipline),
        },
        trace: leg.trace.as_deref().map(trace_row),
    }
}

fn trace_row(playback: &Playback) -> TraceRow {
    TraceRow {
        file: playback.file.clone(),
        sha256: playback.trace.sha256.clone(),
        gives: playback.trace.content.describe(),
        length_s: number(playback.trace.content.period().as_secs_f64()),
        start_s: number(playback.start.as_secs_f64()),
        once: playback.once,
    }
}

fn unit(queue: &Queue) -> &'static str {
    if queue.in_bytes { "bytes" } else { "packets" }
}

fn own_queue_row(queue: &Queue) -> Option<OwnQueueRow> {
    (*queue != Queue::DEFAULT).then(|| OwnQueueRow {
        limit: (queue.limit != Queue::DEFAULT.limit).then_some(queue.limit),
        unit: queue.in_bytes.then(|| unit(queue)),
        discipline: (queue.discipline != Discipline::DropTail).then(|| discipline_row(&queue.discipline)),
    })
}

fn discipline_row(discipline: &Discipline) -> DisciplineRow {
    match discipline {
        Discipline::DropTail => DisciplineRow { kind: "DropTail", red: None },
        Discipline::Red(red) => DisciplineRow {
            kind: if red.gentle { "GRED" } else { "RED" },
            red: Some(RedRow {
                minthresh: red.min_threshold,
                maxthresh: red.max_threshold,
                linterm: red.linterm,
                weight: number(red.weight),
            }),
        },
    }
}

fn counts(topology: &Topology, events: &[EventRow]) -> TopologyCounts {
    let kind = |kind| topology.nets.iter().filter(|net| net.kind == kind).count();
    let scheduled = !events.is_empty();
    TopologyCounts {
        nodes: topology.hosts.len(),
        links: kind(NetKind::Link),
        lans: kind(NetKind::Lan),
        interfaces: topology.nets.iter().map(|net| net.members.len()).sum(),
        events: scheduled.then_some(events.len()),
        link_events: scheduled.then(|| events.iter().filter(|event| event.kind == "LINK").count()),
        programs: Some(topology.programs.len()).filter(|count| *count > 0),
    }
}

fn event_row(row: EmulabEvent) -> EventRow {
    EventRow {
        t: number(row.at.as_secs_f64()),
        object: row.object,
        node: row.node,
        kind: row.kind,
        event: row.event,
        args: row.args,
        parent: row.parent,
    }
}

fn program_row(topology: &Topology, program: &HostProgram) -> ProgramRow {
    ProgramRow {
        name: program.name.clone(),
        node: topology.hosts[program.host].name.clone(),
        command: emulab::command(program),
        dir: program.folder.clone(),
        timeout: program.timeout.map(|timeout| number(timeout.as_secs_f64())),
        expected_exit_code: program.expected_exit,
    }
}

fn traffic_row(topology: &Topology, agent: &TrafficAgent) -> TrafficRow {
    TrafficRow {
        name: agent.name.clone(),
        node: topology.hosts[agent.host].name.clone(),
        role: if agent.is_source { "source" } else { "sink" },
        proto: if agent.tcp { "tcp" } else { "udp" },
        port: agent.port.to_string(),
        target: agent.target.map(|host| topology.hosts[host].name.clone()),
    }
}

fn note_row(note: &Note) -> NoteRow {
    NoteRow { line: note.line, text: note.text.clone() }
}

/// Rounds to nine decimals; a whole number gets none.
fn number(value: f64) -> Number {
    let rounded = (value * 1e9).round() / 1e9;
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        return Number::from(rounded as i64);
    }
    // Rates, durations and probabilities are finite.
    Number::from_f64(rounded).unwrap_or_else(|| Number::from(0))
}

#[cfg(test)]
mod tests;
