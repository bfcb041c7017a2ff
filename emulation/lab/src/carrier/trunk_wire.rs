//! The carrier's end of the trunk: datagrams in and out, and the frames whose hold has ended.

use std::net::{Ipv4Addr, UdpSocket};

use roost_netcore::Port;
use roost_topology::model::NetIndex;
use roost_wire::Time;

use super::frame::MAX_FRAME_BYTES;
use super::switch::SwitchDecision;
use super::worker::{CarrierWorker, DELIVERIES_PER_PASS};
use crate::trunk::{HeldInput, Trunk, TrunkInput, TrunkSettings};

/// Datagrams read before wires and due frames get their turn.
const DATAGRAMS_PER_VISIT: usize = 64;
/// A frame with its header, and one byte more than any.
const DATAGRAM_BYTES: usize = 2048;
const BUFFER_BYTES: usize = 8 << 20;

/// A carrier's part of a network that other machines share.
#[derive(Debug)]
pub(crate) struct CarrierShare {
    /// The socket of the trunk, made outside of the sandbox.
    pub(crate) socket: UdpSocket,
    pub(crate) settings: TrunkSettings,
    pub(crate) ports: Vec<PortShare>,
    pub(crate) remote: Vec<RemotePort>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PortShare {
    pub(crate) host: usize,
    /// The machine that carries the link or LAN.
    pub(crate) carrier: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RemotePort {
    pub(crate) port: Port,
    pub(crate) net: NetIndex,
    pub(crate) address: Ipv4Addr,
}

pub(super) struct TrunkWire {
    pub(super) socket: UdpSocket,
    pub(super) trunk: Trunk,
    ports: Vec<PortShare>,
    /// By port, its place in the switch.
    places: Vec<Option<usize>>,
    input: Box<[u8]>,
    output: Vec<u8>,
}

impl TrunkWire {
    /// The trunk of a share; `places` are the ports of the switch in their order.
    pub(super) fn open(share: CarrierShare, ports: &[Port]) -> std::io::Result<Self> {
        let CarrierShare { socket, settings, ports: shares, .. } = share;
        socket.set_nonblocking(true)?;
        // Smaller buffers work as well; their losses are counted.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES);
        let mut places = vec![None; shares.len()];
        for (place, port) in ports.iter().enumerate() {
            if let Some(known) = places.get_mut(port.index()) {
                *known = Some(place);
            }
        }
        let (input, output) = (vec![0; DATAGRAM_BYTES].into(), Vec::with_capacity(DATAGRAM_BYTES));
        Ok(Self { socket, trunk: Trunk::new(settings), ports: shares, places, input, output })
    }

    fn share(&self, port: Port) -> Option<PortShare> {
        self.ports.get(port.index()).copied()
    }

    /// Returns another machine that carries a port's net; `None` if this one does.
    pub(super) fn other_carrier(&self, port: Port) -> Option<usize> {
        self.share(port).map(|share| share.carrier).filter(|machine| *machine != self.trunk.machine())
    }

    pub(super) fn other_host(&self, port: Port) -> Option<usize> {
        self.share(port).map(|share| share.host).filter(|machine| *machine != self.trunk.machine())
    }

    /// Sends a frame that left at this time.
    pub(super) fn send(&mut self, machine: usize, port: Port, left: Time, bytes: &[u8]) {
        let address = self.trunk.frame(machine, port, left, bytes, &mut self.output);
        let sent = address.is_some_and(|address| self.socket.send_to(&self.output, address).is_ok());
        if !sent {
            self.trunk.refuse(machine);
        }
    }

    fn ping(&mut self, now: Time) {
        for (address, ping) in self.trunk.poll_pings(now) {
            // A ping that is lost is one of many.
            let _ = self.socket.send_to(&ping, address);
        }
    }
}

impl CarrierWorker {
    /// Reads datagrams of the trunk. If there are more, the next poll returns at once.
    pub(super) fn visit_trunk(&mut self) {
        let Some(TrunkWire { socket, trunk, input, places, .. }) = &mut self.core.trunk else { return };
        for _ in 0..DATAGRAMS_PER_VISIT {
            // Errors are those of single datagrams, such as a machine that is gone: its silence is noticed elsewhere.
            let Ok((length, from)) = socket.recv_from(input) else { return };
            let now = self.shared.now();
            match trunk.receive(now, from, &input[..length]) {
                TrunkInput::Nothing => {}
                TrunkInput::Answer(answer) => drop(socket.send_to(&answer, from)),
                TrunkInput::Frame { machine, sequence, left, port, bytes }
                    if bytes.len() <= MAX_FRAME_BYTES && port.index() < places.len() =>
                {
                    self.pool.space()[..bytes.len()].copy_from_slice(bytes);
                    let frame = self.pool.take_frame(bytes.len());
                    trunk.hold(now, HeldInput { machine, sequence, left, port, frame });
                }
                TrunkInput::Frame { .. } => {}
            }
        }
    }

    /// Sends pings that are due, and hands on frames whose hold has ended; returns their number.
    pub(super) fn run_trunk(&mut self) -> usize {
        if let Some(wire) = &mut self.core.trunk {
            wire.ping(self.shared.now());
        }
        for count in 0..DELIVERIES_PER_PASS {
            let now = self.shared.now();
            let Some(wire) = &mut self.core.trunk else { return 0 };
            let Some(arrival) = wire.trunk.poll_arrival(now) else { return count };
            let place = wire.places.get(arrival.port.index()).copied().flatten();
            let enters = wire.share(arrival.port).is_some_and(|share| share.carrier == wire.trunk.machine());
            let Some(place) = place else { continue };
            if !enters {
                if self.write(place, arrival.frame.bytes()) {
                    self.shared.lateness.record(now.since(arrival.due));
                    self.shared.tallies[place].written.count();
                }
                self.pool.give_back(arrival.frame);
            } else if let SwitchDecision::Forward(to) = self.switch.decide(place, arrival.frame.bytes()) {
                let bytes = arrival.frame.bytes().len() as u32;
                // The network counts its drops itself.
                let _fate = self.core.network.send(arrival.due, arrival.port, to, bytes, arrival.frame);
            }
        }
        DELIVERIES_PER_PASS
    }
}
