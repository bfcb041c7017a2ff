//! Rows of the page out of the records of a run.
//!
//! Times are milliseconds since the workload began. A row of a node tells where it is and how its daemon does; rows of
//! requests come at their start, although their records come at their end.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_dashboard::{Change, Rows};
use roost_drawing::{Spot, ground, layout, neighbors};
use roost_experiment::plan::DaemonAction;
use roost_results::record::{
    LinkLoad, LinkRecord, LoadRecord, PositionRecord, Record, RequestRecord, RoomStreamRecord, RunRecord, SampleRecord,
};
use roost_topology::model::NetKind;
use serde_json::{Value, json};

use crate::description::Description;
use crate::radio_links::RadioLinks;
use crate::requests::{Requests, milliseconds};
use crate::schedule::{FaultAct, Schedule, ScheduledFault};
use crate::wires::{Wires, is_radio, wire_id};

/// The services of every node of an experiment.
const SERVICES: [&str; 4] = ["video", "track", "image", "sensor"];

/// States of radios' links are recorded this much later at most, in seconds.
const LATEST_S: f64 = 1.0;

/// The mapping of a run's records to rows.
pub struct RunRows<'a> {
    description: &'a Description,
    wires: Wires,
    radio_links: RadioLinks,
    schedule: Schedule,
    requests: Requests<'a>,
    /// The rows of nodes and hubs as they are now.
    daemons: Rows,
    faults: u64,
    streams: u64,
    last_sample: SampleRecord,
}

impl<'a> RunRows<'a> {
    pub fn new(description: &'a Description) -> Self {
        Self {
            wires: Wires::new(&description.topology),
            radio_links: RadioLinks::default(),
            schedule: Schedule::new(description),
            requests: Requests::new(description),
            daemons: daemons(description),
            faults: 0,
            streams: 0,
            last_sample: SampleRecord::default(),
            description,
        }
    }

    /// The rows at the start of the run.
    pub fn first(&self) -> Change {
        let mut set = self.wires.rows();
        set.extend(places(self.description));
        set.extend(self.daemons.clone());
        Change { at_ms: 0, set, gone: Vec::new() }
    }

    /// The changes that a record tells. They may be earlier than those of the records before.
    pub fn add(&mut self, record: Record) -> Vec<Change> {
        match record {
            Record::Request(request) => self.request(&request),
            Record::Incident { t, object, what } => self.incident(t, &object, &what),
            Record::Sample(sample) => self.sample(sample),
            Record::Load(load) => vec![self.load(&load)],
            Record::Position(position) => self.position(&position),
            Record::RoomStream(stream) => self.room_stream(&stream),
            Record::Link(link) => vec![total(&link)],
            Record::LinkState(state) => self.radio_links.add(state, &self.description.topology),
            // The page shows cells alone.
            Record::Motion(_) => Vec::new(),
            Record::Node(_) | Record::Program(_) | Record::Traffic(_) | Record::Measurement(_) => Vec::new(),
        }
    }

    /// The changes that are left at the end of the run.
    pub fn rest(&mut self) -> Vec<Change> {
        self.radio_links.until(f64::INFINITY, &self.description.topology)
    }

    fn request(&mut self, request: &RequestRecord) -> Vec<Change> {
        self.requests.add(request).into()
    }

    fn incident(&mut self, t: f64, object: &str, what: &str) -> Vec<Change> {
        let mut changes = self.faults_until(milliseconds(t));
        if self.schedule.has(what) {
            return changes;
        }
        let mut change = Change { at_ms: milliseconds(t), ..Change::default() };
        change.set.insert(self.fault_key(), fault(self.faults, milliseconds(t), object, what));
        if what.starts_with("died") {
            // A hub is named after its host.
            let hub = object.strip_suffix("-hub").map(|host| format!("hub/{host}"));
            let key = hub.unwrap_or_else(|| format!("node/{object}"));
            change.set.extend(self.daemon_state(&key, "dead"));
        }
        changes.push(change);
        changes
    }

    fn sample(&mut self, sample: SampleRecord) -> Vec<Change> {
        let mut changes = self.faults_until(milliseconds(sample.t));
        let seconds = (sample.t - self.last_sample.t).max(1e-3);
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 * 8.0 / seconds).round();
        let row = json!({
            "active": sample.active,
            "completed": sample.completed,
            "failed": sample.failed,
            "offered_bps": rate(sample.offered_bytes, self.last_sample.offered_bytes),
            "delivered_bps": rate(sample.delivered_bytes, self.last_sample.delivered_bytes),
        });
        let mut change = set_at(milliseconds(sample.t), "sample/self".to_owned(), row);
        change.set.extend(self.wires.play(Duration::from_secs_f64(sample.t.clamp(0.0, 1e9))));
        changes.push(change);
        changes.extend(self.radio_links.until(sample.t - LATEST_S, &self.description.topology));
        self.last_sample = sample;
        changes
    }

    /// The busy links of a second, which take the place of those before.
    fn load(&mut self, load: &LoadRecord) -> Change {
        let rates: Rows = load.links.iter().flat_map(|link| self.wires.set_rate(link)).collect();
        let topology = &self.description.topology;
        let id = |link: &str, host: &str| {
            let net = topology.net_index(link)?;
            let place =
                topology.nets[net].members.iter().position(|member| topology.hosts[member.host].name == host)?;
            Some(wire_id(topology, net, place))
        };
        // An idle link that plays a trace is told for its rate alone.
        let is_busy = |link: &&LinkLoad| link.rate_bps.is_none() || link.used > 0.0 || link.dropped_queue > 0;
        let rows = load.links.iter().filter(is_busy).filter_map(|link| {
            Some(json!({
                "link": id(&link.link, &link.host)?, "host": link.host, "direction": link.direction,
                "used": link.used, "inside_bytes": link.inside_bytes, "dropped": link.dropped_queue,
            }))
        });
        let rows: Vec<Value> = rows.collect();
        let row = json!({ "at_ms": milliseconds(load.t), "links": rows });
        let mut change = set_at(milliseconds(load.t), "load/self".to_owned(), row);
        change.set.extend(rates);
        change
    }

    fn position(&mut self, position: &PositionRecord) -> Vec<Change> {
        let mut changes = self.faults_until(milliseconds(position.t));
        let key = format!("node/{}", position.node);
        if let Some(row) = self.daemons.get_mut(&key) {
            row["cell"] = json!(format!("{},{}", position.x, position.y));
            changes.push(set_at(milliseconds(position.t), key, row.clone()));
        }
        changes
    }

    fn room_stream(&mut self, stream: &RoomStreamRecord) -> Vec<Change> {
        let Some(first) = stream.first_packet_ms else { return Vec::new() };
        self.streams += 1;
        let key = format!("stream/{}", self.streams);
        let row = json!({
            "stream": self.streams.to_string(),
            "room": stream.room,
            "service": stream.service,
            "provider": stream.provider,
            "provider_name": stream.provider,
            "downstreams": [{ "node": stream.node, "name": stream.node, "kind": "subscriber" }],
            "lost": stream.missing,
        });
        let (start, end) = (milliseconds(stream.t + first / 1e3), milliseconds(stream.until));
        let ends = Change { at_ms: end.max(start), set: Rows::new(), gone: vec![key.clone()] };
        vec![set_at(start, key, row), ends]
    }

    /// The scheduled faults up to a time of the run.
    fn faults_until(&mut self, now_ms: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(due) = self.schedule.next(now_ms) {
            changes.push(self.scheduled(due));
        }
        changes
    }

    fn scheduled(&mut self, ScheduledFault { at_ms, object, what, act }: ScheduledFault) -> Change {
        let mut set = match act {
            FaultAct::Wire(change) => self.wires.apply(change),
            FaultAct::Daemon(daemon, action) => {
                let section = if daemon.hub { "hub" } else { "node" };
                let state = match action {
                    DaemonAction::Kill => "dead",
                    DaemonAction::Stop => "left",
                    DaemonAction::Freeze => "frozen",
                    DaemonAction::Start | DaemonAction::Thaw => "up",
                };
                self.daemon_state(&format!("{section}/{}", daemon.host.name), state)
            }
        };
        set.insert(self.fault_key(), fault(self.faults, at_ms, &object, &what));
        Change { at_ms, set, gone: Vec::new() }
    }

    fn fault_key(&mut self) -> String {
        self.faults += 1;
        format!("fault/{}", self.faults)
    }

    /// The row of a daemon in a new state, if there is such a daemon.
    fn daemon_state(&mut self, key: &str, state: &str) -> Rows {
        let Some(row) = self.daemons.get_mut(key) else { return Rows::new() };
        row["state"] = json!(state);
        row["up"] = json!(state == "up");
        Rows::from([(key.to_owned(), row.clone())])
    }
}

/// The row of the run itself. `state` is `running`, `finished`, `interrupted` or `silent`.
pub(crate) fn run_row(description: &Description, run: Option<&RunRecord>, state: &str) -> Value {
    let plan = description.prepared.as_ref().map(|prepared| &prepared.plan);
    let architecture = plan.map(|plan| plan.architecture.name());
    let has_cells = description.topology.hosts.iter().any(|host| host.cell.is_some());
    let duration = plan.map(|plan| plan.duration.as_secs_f64()).or(run.map(|run| run.duration_s));
    json!({
        "name": plan.map_or(&description.topology.name, |plan| &plan.name),
        "architecture": architecture,
        "transport": plan.map(|plan| plan.transport.name()),
        "topology": description.topology.name,
        "seed": plan.map(|plan| plan.seed),
        "duration_s": duration,
        "ended_s": run.filter(|run| run.ran_s > 0.0).map(|run| run.ran_s + run.drain_s),
        "simulated": run.map(RunRecord::is_simulated),
        "started_unix_s": run.map(|run| run.started_unix_s).filter(|started| *started > 0),
        "state": state,
        "grid": has_cells || plan.is_some_and(|plan| plan.movement.is_some()),
        "hosts": description.topology.hosts.len(),
        "doubts": run.map(|run| &run.verdict.reasons).filter(|_| state != "running"),
    })
}

pub(crate) fn set_at(at_ms: u64, key: String, row: Value) -> Change {
    Change { at_ms, set: Rows::from([(key, row)]), gone: Vec::new() }
}

fn fault(number: u64, at_ms: u64, object: &str, what: &str) -> Value {
    json!({ "fault": number, "at_ms": at_ms, "object": object, "what": what })
}

/// The counters of a direction of a link over the whole run, which stand at its start.
fn total(link: &LinkRecord) -> Change {
    let key = format!("total/{}/{}/{}", link.link, link.host, link.direction);
    let row = json!({
        "link": link.link,
        "host": link.host,
        "direction": link.direction,
        "bytes": link.bytes_out,
        "packets": link.packets_out,
        "dropped_queue": link.dropped_queue,
        "dropped_loss": link.dropped_loss,
        "dropped_down": link.dropped_down,
    });
    set_at(0, key, row)
}

/// The nodes and the hubs of a plan, all up.
fn daemons(description: &Description) -> Rows {
    let Some(prepared) = &description.prepared else { return Rows::new() };
    let placement = &prepared.placement;
    let host = |hub: usize| &description.topology.hosts[placement.hubs[hub].host].name;
    let names = |hubs: &[usize]| hubs.iter().map(|hub| host(*hub)).collect::<Vec<_>>();
    let mut rows = Rows::new();
    for node in &placement.nodes {
        let row = json!({
            "node": node.name, "name": node.name, "class": node.class, "services": SERVICES,
            "cell": format!("{},{}", node.cell.x, node.cell.y), "hubs": names(&node.hubs), "state": "up", "up": true,
        });
        rows.insert(format!("node/{}", node.name), row);
    }
    for (index, hub) in placement.hubs.iter().enumerate() {
        let row = json!({
            "name": hub.name, "host": host(index), "relation": prepared.plan.architecture.hub_title(index),
            "tier": hub.tier, "parents": names(&hub.parents), "endpoints": [], "state": "up", "up": true,
        });
        rows.insert(format!("hub/{}", host(index)), row);
    }
    rows
}

/// The hosts and LANs with their places in the drawing, and on the grid.
fn places(description: &Description) -> Rows {
    let topology = &description.topology;
    let neighbors = neighbors(topology);
    let spots = layout(&neighbors);
    let cell = |x: i32, y: i32| Spot { x: f64::from(x), y: f64::from(y) };
    let mut cells: Vec<_> = topology.hosts.iter().map(|host| host.cell.map(|(x, y)| cell(x, y))).collect();
    for node in description.prepared.iter().flat_map(|prepared| &prepared.placement.nodes) {
        cells[node.host] = Some(cell(node.cell.x, node.cell.y));
    }
    cells.resize(neighbors.len(), None);
    let ground = ground(&cells, &neighbors);
    let point = |spot: Spot| [spot.x, spot.y].map(|value| (value * 100.0).round() / 100.0);
    let row = |name: &str, class: Option<&str>, vertex: usize| json!({ "name": name, "class": class, "at": point(spots[vertex]), "ground": ground[vertex].map(point) });
    let hosts = topology
        .hosts
        .iter()
        .enumerate()
        .map(|(index, host)| (format!("host/{}", host.name), row(&host.name, host.class.as_deref(), index)));
    let is_lan = |index: usize, kind: NetKind| kind == NetKind::Lan && !is_radio(topology, index);
    let lans = topology.nets.iter().enumerate().filter(|(index, net)| is_lan(*index, net.kind));
    let lans =
        lans.map(|(index, net)| (format!("lan/{}", net.name), row(&net.name, None, topology.hosts.len() + index)));
    hosts.chain(lans).collect::<BTreeMap<_, _>>()
}

#[cfg(test)]
mod tests;
