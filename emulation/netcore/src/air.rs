//! The part of a network that goes by radio.

use std::iter;

use roost_motion::{LinkChange, LinkCourse};
use roost_topology::model::{Contention, Queue};
use roost_wire::Time;

use super::medium::{Medium, MediumStep};
use super::network::{Delivery, Exit, Network, PipeId, Port};
use super::pipe::Header;
use super::radio::{self, LanRadio, RadioCourse};
use super::{PipeConfig, PipeCounters};

impl<P: Clone> Network<P> {
    /// Adds a LAN whose members have a pipe of their own for each pair. All links are down until they are set.
    pub fn add_pairs(&mut self, members: usize, queue: Queue) -> Vec<Port> {
        let ports = self.add_lan(&vec![<(PipeConfig, PipeConfig)>::default(); members]);
        let mut pipes = Vec::with_capacity(members * members);
        for from in &ports {
            for to in &ports {
                let unused = self.ports[from.index()].from_net;
                let config = PipeConfig { queue, ..PipeConfig::default() };
                pipes.push(if from == to { unused } else { self.add_pipe(config, Exit::Port(*to)) });
            }
        }
        self.set_radio(&ports, LanRadio::Pairs(pipes));
        ports
    }

    /// Adds a LAN whose members share one channel. All links are down until they are set.
    pub fn add_medium(&mut self, members: usize, queue: Queue, rules: Contention) -> Vec<Port> {
        let ports = self.add_lan(&vec![<(PipeConfig, PipeConfig)>::default(); members]);
        let place = self.air.media.len();
        let seed = self.seed ^ (place as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        self.air.media.push(Medium::new(rules, queue, &ports, seed));
        self.set_radio(&ports, LanRadio::Shared(place));
        ports
    }

    fn set_radio(&mut self, ports: &[Port], radio: LanRadio) {
        let Some(first) = ports.first() else { return };
        let lan = self.ports[first.index()].lan;
        self.air.lans.resize(lan + 1, None);
        self.air.lans[lan] = Some(radio);
    }

    /// Lets the links of radios follow a course; `ports` has the members of each. Links have their first state at
    /// once, and change from [`Self::begin_motion`] on.
    pub fn follow(&mut self, mut course: LinkCourse, ports: Vec<Vec<Port>>) {
        self.air.points =
            course.access_points().filter_map(|(radio, member)| ports.get(radio)?.get(member).copied()).collect();
        let first = course.step(std::time::Duration::ZERO);
        let course = Box::new(RadioCourse { course, ports, begin: None });
        first.iter().for_each(|change| self.change_link(&course.ports, change));
        self.air.course = Some(course);
    }

    pub fn begin_motion(&mut self, begin: Time) {
        if let Some(course) = &mut self.air.course {
            course.begin.get_or_insert(begin);
        }
    }

    fn change_link(&mut self, ports: &[Vec<Port>], change: &LinkChange) {
        let LinkChange { radio, from, to, state, .. } = change;
        let port = |member: &usize| ports.get(*radio)?.get(*member).copied();
        let (Some(sender), Some(receiver)) = (port(from), port(to)) else { return };
        let lan = self.ports[sender.index()].lan;
        let pipe = match self.air.lan(lan) {
            Some(LanRadio::Shared(medium)) => {
                let medium = *medium;
                return self.air.media[medium].set_link(*from, *to, *state);
            }
            Some(LanRadio::Pairs(pipes)) => pipes[from * self.lans[lan].len() + to],
            // Of a host and its access point only the host's legs go by radio.
            None => {
                let is_up_link = self.air.points.contains(&receiver);
                let (pipe, point) = match is_up_link {
                    true => (self.ports[sender.index()].to_net, receiver),
                    false => (self.ports[receiver.index()].from_net, sender),
                };
                if !self.air.serves(pipe, point, state) {
                    return;
                }
                pipe
            }
        };
        radio::pipe_changes(pipe, state).into_iter().for_each(|change| self.change(change));
    }

    /// Runs the next event of the air if it is due by `now` and before all others; false if there is none.
    pub(super) fn step_air(&mut self, now: Time) -> bool {
        let Some(due) = self.air.deadline().filter(|due| *due <= now) else { return false };
        let others = self.agenda.first().map(|((due, _), _)| due).into_iter().chain(self.next_change());
        if others.min().is_some_and(|other| other < due) {
            return false;
        }
        self.proceed(due.max(self.clock));
        if let Some(mut course) = self.air.course.take() {
            if course.deadline().is_some_and(|at| at <= due) {
                let changes = course.step(due);
                changes.iter().for_each(|change| self.change_link(&course.ports, change));
            }
            self.air.course = Some(course);
        }
        for medium in 0..self.air.media.len() {
            if self.air.media[medium].deadline().is_some_and(|at| at <= due) {
                let room = self.limits.network_packets.saturating_sub(self.held);
                let step = self.air.media[medium].step(due, room);
                self.receive(medium, step);
            }
        }
        true
    }

    fn receive(&mut self, medium: usize, step: MediumStep<P>) {
        let MediumStep { deliveries, entered, left, overflows } = step;
        self.overflows += overflows;
        self.held = self.held + entered - left;
        for delivery in deliveries {
            let port = self.air.media[medium].port(delivery.station);
            let (due, bytes, packet) = (self.clock, delivery.header.bytes, delivery.packet);
            self.ready.push_back(Delivery { due, port, bytes, packet });
        }
    }

    /// Puts a packet into the queue of a station.
    pub(super) fn offer(&mut self, medium: usize, from: Port, header: Header, packet: P) {
        let medium = &mut self.air.media[medium];
        let station = medium.station(from);
        if self.held >= self.limits.network_packets {
            medium.refuse(station, header);
            self.overflows += 1;
            return;
        }
        if medium.offer(self.clock, station, header, packet).is_ok() {
            self.held += 1;
        }
    }

    /// The last pipe of a packet between two members of a LAN.
    pub(super) fn way_out(&self, from: Port, to: Port) -> PipeId {
        let Some(LanRadio::Pairs(pipes)) = self.air.lan(self.ports[from.index()].lan) else {
            return self.ports[to.index()].from_net;
        };
        let ports = &self.lans[self.ports[from.index()].lan];
        let place = |port: Port| port.index() - ports[0].index();
        pipes[place(from) * ports.len() + place(to)]
    }

    /// The counters of a member's pipe with those of the air before or after it.
    pub(super) fn with_air(&self, pipe: PipeId, own: PipeCounters) -> PipeCounters {
        let radios = self.air.lans.iter().enumerate().filter_map(|(lan, radio)| Some((lan, radio.as_ref()?)));
        for (lan, radio) in radios {
            let ports = &self.lans[lan];
            let end = |port: &Port| self.ports[port.index()];
            let place = ports.iter().position(|port| end(port).to_net == pipe || end(port).from_net == pipe);
            let Some(place) = place else { continue };
            let is_sender = end(&ports[place]).to_net == pipe;
            return match radio {
                LanRadio::Pairs(_) if is_sender => own,
                LanRadio::Pairs(pipes) => {
                    let senders = (0..ports.len()).filter(|from| *from != place);
                    let arriving =
                        senders.map(|from| self.pipes[pipes[from * ports.len() + place].0 as usize].counters());
                    iter::once(own).chain(arriving).reduce(PipeCounters::joined).unwrap_or_default()
                }
                LanRadio::Shared(medium) if is_sender => own.before(&self.air.media[*medium].sent(place)),
                LanRadio::Shared(medium) => self.air.media[*medium].received(place),
            };
        }
        own
    }
}
