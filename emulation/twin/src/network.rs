//! The network of a twin, as the text of a topology.

use std::collections::BTreeSet;

use roost_topology::file::quote;
use roost_wire::Cell;

use crate::hosts::{MAX_NAME, NET, ObservedHost, unique};
use crate::leg_rate::LegRate;
use crate::legs::{self, Distances, StarFit};
use crate::observe::Observed;
use crate::round_trips::PathSamples;
use crate::source::{Certainty, SourcedValue};

/// A leg that is used beyond this part of its rate loses packets in its queue, as the twin's does.
const BUSY: f64 = 0.6;
/// The side of a cell in meters, where nodes move. Only cells count.
const CELL_M: f64 = 1000.0;
/// The time of a step from cell to cell.
const STEP_S: f64 = 0.001;
/// The most cells by which a node is moved aside.
const MAX_SHIFT: i32 = 4096;
const MAX_STEPS: usize = 10_000;

/// The text of the topology, with the sources of its values.
pub(crate) struct TwinNetwork<'a> {
    observed: &'a Observed,
    lines: Vec<String>,
    pub(crate) values: Vec<SourcedValue>,
}

impl<'a> TwinNetwork<'a> {
    pub(crate) fn new(observed: &'a Observed) -> Self {
        let mut network = Self { observed, lines: Vec::new(), values: Vec::new() };
        let shape = match &observed.star {
            Some(fit) if fit.is_told.contains(&false) => {
                "A star. The distances of hosts do not tell all of its legs; values.csv says which are assumed."
                    .to_owned()
            }
            Some(fit) => format!("A star: legs explain the distances of hosts to {:.1} ms.", fit.miss_ms),
            None => {
                "No star explains the distances of hosts: each pair has a link of its own, behind a leg for each host."
                    .to_owned()
            }
        };
        network.lines.push(format!(
            "# Made of recordings by `emulate twin`; values.csv has the source of each value.\n# {shape}"
        ));
        network.lines.push("name = \"twin\"\n".to_owned());
        network.add_hosts();
        match &observed.star {
            Some(fit) => network.add_star(fit),
            None => network.add_mesh(),
        }
        network.add_motion();
        network
    }

    pub(crate) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    fn add_hosts(&mut self) {
        let mut taken = BTreeSet::new();
        for host in &self.observed.hosts.hosts {
            let mut lines = format!("[[host]]\nname = {}\n", quote(&host.name));
            match self.cell(host) {
                Some((x, y)) => {
                    // Requests name a node by its cell, so that no two may share one.
                    let free = (x..=x.saturating_add(MAX_SHIFT)).find(|x| !taken.contains(&(*x, y))).unwrap_or(x);
                    taken.insert((free, y));
                    lines += &format!("cell = [{free}, {y}]\n");
                    if free != x {
                        let from = format!("another node stood at {x},{y}, too");
                        self.value(&host.name, "cell", format!("{free},{y}"), from, Certainty::Estimated);
                    }
                }
                None if host.node.is_none() => lines += &format!("class = {}\n", quote(self.class_without_node())),
                None => {}
            }
            self.lines.push(lines);
        }
    }

    fn class_without_node(&self) -> &'static str {
        if self.observed.has_server() { "server" } else { "router" }
    }

    fn cell(&self, host: &ObservedHost) -> Option<(i32, i32)> {
        let member = self.observed.hosts.members.get(&host.node?)?;
        member.cells.first().map(|(_, cell)| (cell.x, cell.y))
    }

    fn add_star(&mut self, fit: &StarFit) {
        let count = self.observed.hosts.hosts.len();
        let of_paths = |of: fn(&PathSamples) -> Option<f64>| -> Distances {
            self.observed.paths.iter().map(|(pair, path)| (*pair, of(path).unwrap_or(0.0))).collect()
        };
        let jitters = legs::least_squares(count, &of_paths(PathSamples::jitter_ms));
        let losses = legs::least_squares(count, &self.losses());
        let mut legs = Vec::new();
        for host in 0..count {
            let name = self.observed.hosts.hosts[host].name.clone();
            let delay = millis(fit.legs[host]);
            let (source, certainty) = self.source_of_leg(host, fit);
            self.value(&name, "delay", delay.clone(), source, certainty);
            let more = self.extras(&name, jitters[host], losses[host]);
            let rates = self.rates(host);
            legs.push(format!("    {{ host = {}, delay = \"{delay}\"{more}{rates} }},", quote(&name)));
        }
        let names: Vec<String> = self.observed.hosts.hosts.iter().map(|host| quote(&host.name)).collect();
        self.lines.push(format!(
            "[[lan]]\nname = \"{NET}\"\nmembers = [{}]\nrate = \"unlimited\"\nleg = [",
            names.join(", ")
        ));
        self.lines.extend(legs);
        self.lines.push("]".to_owned());
    }

    fn add_mesh(&mut self) {
        let count = self.observed.hosts.hosts.len();
        let names: Vec<String> = self.observed.hosts.hosts.iter().map(|host| host.name.clone()).collect();
        let mut taken: BTreeSet<String> = names.iter().cloned().collect();
        let edges: Vec<String> = names.iter().map(|name| unique(&mut taken, &format!("{name}.edge"))).collect();
        for edge in &edges {
            self.lines.push(format!("[[host]]\nname = {}\nclass = \"router\"\n", quote(edge)));
        }
        for (host, name) in names.iter().enumerate() {
            let rates = self.rates(host).trim_start_matches(", ").replace("}, ", "}\n");
            let link = format!(
                "[[link]]\nname = {}\nbetween = [{}, {}]\nrate = \"unlimited\"",
                quote(&unique(&mut taken, &format!("leg-{name}"))),
                quote(name),
                quote(&edges[host])
            );
            self.lines.push(format!("{link}\n{rates}\n"));
        }
        let losses = self.losses();
        for a in 0..count {
            for b in a + 1..count {
                let Some(delay) = self.observed.delays[a][b] else { continue };
                let named = format!("path-{}-{}", names[a], names[b]);
                let named = if named.len() > MAX_NAME { format!("path-{}-{}", a + 1, b + 1) } else { named };
                let link = unique(&mut taken, &named);
                let path = self.observed.paths.get(&(a, b)).filter(|path| path.least_ms().is_some());
                let (source, certainty) = path.map_or_else(
                    || ("along the shortest way that was measured".to_owned(), Certainty::Assumed),
                    |path| (path.source(), path.certainty()),
                );
                self.value(&link, "delay", millis(delay), source, certainty);
                let jitter = path.and_then(PathSamples::jitter_ms).unwrap_or(0.0);
                let loss = losses.get(&(a, b)).copied().unwrap_or(0.0);
                let more = self.extras(&link, jitter, loss).replace(", ", "\n");
                self.lines.push(format!(
                    "[[link]]\nname = {}\nbetween = [{}, {}]\nrate = \"unlimited\"\ndelay = \"{}\"{more}\n",
                    quote(&link),
                    quote(&edges[a]),
                    quote(&edges[b]),
                    millis(delay),
                ));
            }
        }
    }

    /// Losses of paths whose legs were not so busy that their queues were full.
    fn losses(&self) -> Distances {
        let is_busy = |leg: &LegRate| leg.bps.is_some_and(|bps| leg.reached_bps > BUSY * bps);
        let calm = |host: usize| {
            let rates = &self.observed.rates[host];
            !is_busy(&rates.up) && !is_busy(&rates.down)
        };
        let loss = |(pair, path): (&(usize, usize), &PathSamples)| {
            let known = path.loss().filter(|_| calm(pair.0) && calm(pair.1));
            (*pair, known.unwrap_or(0.0))
        };
        self.observed.paths.iter().map(loss).collect()
    }

    fn extras(&mut self, object: &str, jitter_ms: f64, loss: f64) -> String {
        let mut text = String::new();
        if jitter_ms >= 0.5 {
            text += &format!(", jitter = \"{}\"", millis(jitter_ms));
            self.value(
                object,
                "jitter",
                millis(jitter_ms),
                "spread of the lowest quarter of pings".to_owned(),
                Certainty::Estimated,
            );
        }
        if loss >= 0.0005 {
            text += &format!(", loss = {loss:.4}");
            self.value(
                object,
                "loss",
                format!("{loss:.4}"),
                "packets that transports sent again".to_owned(),
                Certainty::Estimated,
            );
        }
        text
    }

    /// The rates of a host's two directions, as keys of a leg or a link.
    fn rates(&mut self, host: usize) -> String {
        let (name, rates) = (self.observed.hosts.hosts[host].name.clone(), self.observed.rates[host].clone());
        let mut text = String::new();
        for (key, leg, what) in [("up", rates.up, "rate up"), ("down", rates.down, "rate down")] {
            let rate = leg.bps.map_or_else(|| "unlimited".to_owned(), kilobits);
            self.value(&name, what, rate.clone(), leg.source(), leg.certainty());
            if leg.bps.is_some() {
                text += &format!(", {key} = {{ rate = \"{rate}\" }}");
            }
        }
        text
    }

    fn source_of_leg(&self, host: usize, fit: &StarFit) -> (String, Certainty) {
        if !fit.is_told[host] {
            return (
                "only sums of legs were measured, as no three hosts measured each other".to_owned(),
                Certainty::Assumed,
            );
        }
        let of = |pair: &(usize, usize)| pair.0 == host || pair.1 == host;
        let paths: Vec<&PathSamples> =
            self.observed.paths.iter().filter(|(pair, _)| of(pair)).map(|(_, path)| path).collect();
        let sure = paths.iter().filter(|path| path.certainty() == Certainty::Measured).count();
        let certainty = if sure >= 3 { Certainty::Measured } else { Certainty::Estimated };
        (format!("least squares over {} paths, {sure} of them with pings enough", paths.len()), certainty)
    }

    fn add_motion(&mut self) {
        let hosts = &self.observed.hosts;
        let cells = |host: &ObservedHost| Some(hosts.members.get(&host.node?)?.cells.clone());
        let moving = hosts.hosts.iter().filter_map(|host| Some((host.name.clone(), cells(host)?)));
        let moving: Vec<_> = moving.filter(|(_, cells)| cells.len() > 1).collect();
        if moving.is_empty() {
            return;
        }
        self.lines.push(format!("\n[motion]\ncell = \"{CELL_M}m\"\n"));
        for (name, cells) in moving {
            let mut source = "its status once a second".to_owned();
            if cells.len() > MAX_STEPS + 1 {
                source += &format!("; those after {MAX_STEPS} moves are left out");
            }
            self.value(&name, "motion", format!("{} cells", cells.len()), source, Certainty::Measured);
            let middle = |cell: Cell| {
                format!("[{}, {}]", (f64::from(cell.x) + 0.5) * CELL_M, (f64::from(cell.y) + 0.5) * CELL_M)
            };
            let mut points = vec![format!("{{ at = \"0s\", position = {} }}", middle(cells[0].1))];
            for pair in cells.windows(2).take(MAX_STEPS) {
                let at = pair[1].0.max(0.01);
                points.push(format!("{{ at = \"{:.3}s\", position = {} }}", at - STEP_S, middle(pair[0].1)));
                points.push(format!("{{ at = \"{at:.3}s\", position = {} }}", middle(pair[1].1)));
            }
            self.lines.push(format!(
                "[[motion.host]]\nname = {}\npath = [\n    {},\n]\n",
                quote(&name),
                points.join(",\n    ")
            ));
        }
    }

    fn value(&mut self, object: &str, what: &'static str, value: String, source: String, certainty: Certainty) {
        self.values.push(SourcedValue { object: object.to_owned(), what, value, source, certainty });
    }
}

fn millis(ms: f64) -> String {
    format!("{:.3}ms", ms.max(0.0))
}

fn kilobits(bps: f64) -> String {
    format!("{:.0}kbit", (bps / 1e3).max(1.0))
}
