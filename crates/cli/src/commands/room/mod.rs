//! `roost join-room`: sends to all members of a room and receives from all.
//!
//! The daemon reports the members. Each stream has its own task, so that one that fails or stalls does not delay
//! another.

mod outputs;
mod stream;
mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use roost_api::{Client, Member, RoomQuery, RoomStream, Roster};
use roost_terminal::Output;
use roost_wire::messages::{ReflectionPolicy, ServiceRequest};
use roost_wire::{Area, Cell, NodeId, format_node};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connect;
use super::watch::KnownNodes;
use crate::args::RoomArgs;
use crate::failure::{Code, Failure, Outcome};
use crate::signals::Signals;
use outputs::{MemberStream, StreamOutputs};
use stream::{StreamTask, StreamUpdate};
use totals::{RoomEvent, RoomTotals, table};

/// The most updates of streams that wait to be printed.
const MAX_TOLD: usize = 256;

/// Stays until a signal, the end of the duration, or the daemon's end of the room.
pub(crate) async fn run(args: &RoomArgs, socket: &Path, output: Output) -> Outcome {
    if let Some(service) = args.services.iter().find(|service| !service.is_stream()) {
        return Err(Failure::usage(format!("{service} is no stream: a room has video and track")));
    }
    let places = StreamOutputs::from_args(args)?;
    let client = connect(socket).await?;
    let entered = client.room(&RoomQuery { name: args.name.clone(), names: true }).await?;
    output.say(format!("Entering {}: + comes, ~ moves or changes, - leaves; Ctrl-C leaves it.", args.name));
    let (told, mut hears) = mpsc::channel(MAX_TOLD);
    let mut room = Room {
        args,
        output,
        client,
        outputs: places,
        seen: KnownNodes::default(),
        members: BTreeMap::new(),
        known: RoomTotals::default(),
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
        told,
    };
    let ended = room.stay(entered, &mut hears).await;
    room.leave(hears).await.and(ended)
}

struct Room<'a> {
    args: &'a RoomArgs,
    output: Output,
    client: Client,
    outputs: StreamOutputs,
    seen: KnownNodes,
    members: BTreeMap<NodeId, Member>,
    known: RoomTotals,
    /// The sender of each stream's cell; dropping it ends the stream. At most as many as the members have streams.
    running: BTreeMap<MemberStream, watch::Sender<Cell>>,
    tasks: JoinSet<()>,
    told: mpsc::Sender<(MemberStream, StreamUpdate)>,
}

impl Room<'_> {
    async fn stay(
        &mut self,
        mut entered: RoomStream,
        hears: &mut mpsc::Receiver<(MemberStream, StreamUpdate)>,
    ) -> Outcome {
        let mut signals = Signals::catch()?;
        let over = async {
            match self.args.duration {
                Some(duration) => tokio::time::sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                roster = entered.next() => match roster? {
                    Some(roster) => self.apply_roster(roster)?,
                    None => return Err(Failure::new(Code::Unreachable, "the daemon has left the room: it is leaving")),
                },
                Some((key, told)) = hears.recv() => self.handle_update(key, told)?,
                Some(_) = self.tasks.join_next() => {}
                () = &mut over => return Ok(()),
                () = signals.next() => return Ok(()),
            }
        }
    }

    /// Updates the members and their streams to a list.
    fn apply_roster(&mut self, roster: Roster) -> Outcome {
        let listed: BTreeSet<NodeId> = roster.members.iter().map(|member| member.node).collect();
        let gone: Vec<NodeId> = self.members.keys().filter(|node| !listed.contains(node)).copied().collect();
        for node in gone {
            let name = self.members.remove(&node).and_then(|member| member.name);
            let line = self.seen.gone(node);
            self.known.gone(node);
            self.show(RoomEvent::Left { node: node.to_string(), name }, Some(line))?;
        }
        for member in roster.members {
            let line =
                self.seen.present(member.node, member.name.as_deref(), &member.cell.to_string(), &member.services);
            let before = self.members.insert(member.node, member.clone());
            let is_remembered = self.known.present(&member);
            match before {
                None => self.show(RoomEvent::Joined(&member), line)?,
                Some(before) if before != member => self.show(RoomEvent::Changed(&member), line)?,
                Some(_) => {}
            }
            if !is_remembered {
                self.output.say(format!("{}: too many have come and left; it is not received", self.who(member.node)));
            }
        }
        self.run_streams();
        Ok(())
    }

    /// Begins and ends streams, so that those of all present members run.
    fn run_streams(&mut self) {
        let services = &self.args.services;
        let streams = |member: &Member| -> Vec<MemberStream> {
            let offered = member.services.iter().filter(|service| services.contains(service));
            offered.map(|service| (member.node, *service)).collect()
        };
        let wanted: BTreeSet<MemberStream> = self.members.values().flat_map(streams).collect();
        self.running.retain(|key, _| wanted.contains(key));
        for key in wanted {
            match (self.running.get(&key), self.members.get(&key.0)) {
                (Some(place), Some(member)) => drop(place.send_replace(member.cell)),
                _ => self.begin(key),
            }
        }
    }

    fn begin(&mut self, key: MemberStream) {
        let (node, service) = key;
        let Some(cell) = self.members.get(&node).map(|member| member.cell) else { return };
        let Some(came) = self.known.stream(key) else { return };
        let to = match self.outputs.of_stream(key) {
            Ok(to) => to,
            Err(failure) => {
                return self.output.say(format!("{}: {service} is not received: {failure}", self.who(node)));
            }
        };
        came.to = to.as_ref().map(ToString::to_string);
        let request = ServiceRequest {
            provider: Some(node.into()),
            reflect: ReflectionPolicy::Always,
            timeout: self.args.timeout,
            ..ServiceRequest::new(service, Area::Exact(cell))
        };
        let (format, output) = (self.outputs.format(), self.output);
        let stream =
            StreamTask { client: self.client.clone(), key, request, to, format, output, told: self.told.clone() };
        let (place, at) = watch::channel(cell);
        self.running.insert(key, place);
        self.tasks.spawn(stream.run(at));
    }

    fn handle_update(&mut self, key: MemberStream, told: StreamUpdate) -> Outcome {
        let (node, service, who) = (key.0.to_string(), key.1.to_string(), self.who(key.0));
        let name = self.name(key.0).map(str::to_owned);
        let Some(came) = self.known.stream(key) else { return Ok(()) };
        let (failure, again) = match told {
            StreamUpdate::Came { bytes, lost } => {
                (came.bytes, came.lost) = (came.bytes + bytes, came.lost + lost);
                return Ok(());
            }
            StreamUpdate::Accepted { reflected } => {
                came.since.get_or_insert_with(Instant::now);
                let to = came.to.clone();
                let place = to.as_ref().map(|to| format!(" into {to}")).unwrap_or_default();
                self.say(format!("{who}: {service} comes{place}"));
                return self.show(RoomEvent::Receiving { node, name, service, to, reflected }, None);
            }
            StreamUpdate::Broken { failure, again } => (failure, Some(again.as_secs_f64())),
            StreamUpdate::Unwritable(failure) => (failure, None),
        };
        let message = failure.to_string();
        let then = again.map(|again| format!("; asking again in {again:.0} s")).unwrap_or_default();
        self.say(format!("{who}: {service}: {message}{then}"));
        self.show(RoomEvent::Broken { node, name, service, message, again_in_s: again }, None)
    }

    fn name(&self, node: NodeId) -> Option<&str> {
        self.members.get(&node)?.name.as_deref()
    }

    /// A member as people read it.
    fn who(&self, node: NodeId) -> String {
        format_node(node, self.name(node))
    }

    /// Writes a line for people, unless the output is JSON.
    fn say(&self, text: String) {
        if !self.output.is_json() {
            self.output.say(text);
        }
    }

    /// Prints an event: as JSON, or the line for people.
    fn show(&self, happening: RoomEvent<'_>, line: Option<String>) -> Outcome {
        match line {
            _ if self.output.is_json() => totals::print(happening, self.output),
            Some(line) => Ok(self.output.data(&line)?),
            None => Ok(()),
        }
    }

    /// Ends all streams and reports the totals of all members.
    async fn leave(mut self, mut hears: mpsc::Receiver<(MemberStream, StreamUpdate)>) -> Outcome {
        // While the connections are up they tell the members' names.
        let connections = self.client.connections().await.ok();
        self.running.clear();
        let (closed, _) = mpsc::channel(1);
        drop(std::mem::replace(&mut self.told, closed));
        while let Some((key, told)) = hears.recv().await {
            self.handle_update(key, told)?;
        }
        let rows = self.known.rows(connections.as_ref());
        if self.output.is_json() {
            return totals::print(RoomEvent::Report { room: &self.args.name, members: rows }, self.output);
        }
        if rows.is_empty() {
            self.output.say(format!("Nobody else was in {}.", self.args.name));
            return Ok(());
        }
        Ok(self.output.table(&table(&rows))?)
    }
}
