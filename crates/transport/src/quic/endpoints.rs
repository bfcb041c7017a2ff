//! The sockets of QUIC: those that listen, and those for dialing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};

use quinn::{AsyncUdpSocket as _, Connection, Endpoint, Runtime, TokioRuntime};
use roost_wire::Scheme;

use super::QuicShared;
use super::path_manager::pairs;
use super::probing::Probing;
use super::settings;
use super::socket::CountedSocket;
use super::state::{IncomingId, LocalEnd};
use super::stateless_reset::ResetSender;
use crate::udp::unspecified;

impl QuicShared {
    pub(super) fn open(&self, at: SocketAddr, server: Option<quinn::ServerConfig>) -> io::Result<Endpoint> {
        let runtime = Arc::new(TokioRuntime);
        let socket = std::net::UdpSocket::bind(at)?;
        let key = self.context.forgotten.key(Scheme::Quic, socket.local_addr()?);
        let socket = runtime.wrap_udp_socket(socket)?;
        let socket = Arc::new(CountedSocket::new(socket, Arc::clone(&self.live)));
        if server.is_some() {
            let voice = ResetSender { socket: Arc::clone(&socket), key: key.clone() };
            self.voices.write().unwrap_or_else(PoisonError::into_inner).insert(socket.local_addr()?, voice);
        }
        let endpoint = Endpoint::new_with_abstract_socket(settings::endpoint(key), server, socket, runtime)?;
        self.endpoints.write().unwrap_or_else(PoisonError::into_inner).push(endpoint.clone());
        Ok(endpoint)
    }

    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        self.endpoints.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The congestion control for a new QUIC connection of an endpoint.
    pub(super) fn probing(&self, endpoint: &Endpoint) -> Probing {
        let chosen = self.congestion.read().unwrap_or_else(PoisonError::into_inner);
        let at = endpoint.local_addr().ok();
        Probing::new(at.and_then(|at| chosen.get(&at).copied()).unwrap_or_default())
    }

    /// The endpoints whose address exists at present, each with its address.
    pub(super) fn usable(&self) -> impl Iterator<Item = (SocketAddr, Endpoint)> {
        let gone = self.gone.read().unwrap_or_else(PoisonError::into_inner).clone();
        let all = self.endpoints().into_iter().filter_map(|endpoint| Some((endpoint.local_addr().ok()?, endpoint)));
        all.filter(move |(at, _)| !gone.contains(at))
    }

    /// The usable endpoints that are bound to one address.
    pub(super) fn addressed(&self) -> impl Iterator<Item = (SocketAddr, Endpoint)> {
        self.usable().filter(|(at, _)| !at.ip().is_unspecified())
    }

    /// The endpoint from which to dial `to`, which is one of a remote's hosts.
    pub(super) fn endpoint_for(&self, to: SocketAddr, hosts: &[SocketAddr]) -> io::Result<Endpoint> {
        let sources: Vec<_> = self.usable().map(|(at, _)| at).collect();
        let from = pairs(&sources, hosts).into_iter().find(|(_, paired)| *paired == to).map(|(from, _)| from);
        let found = self.usable().find(|(at, _)| Some(*at) == from);
        found.map_or_else(|| self.open(unspecified(to), None), |(_, endpoint)| Ok(endpoint))
    }

    /// Our end of a path that we dial from an endpoint to one of a remote's hosts.
    pub(super) fn dialed_local_end(&self, endpoint: &Endpoint, to: SocketAddr, hosts: &[SocketAddr]) -> LocalEnd {
        let from = endpoint.local_addr().ok().map(|local| local.ip()).filter(|ip| !ip.is_unspecified());
        let place = || hosts.iter().position(|host| *host == to).unwrap_or(hosts.len()) as u8;
        LocalEnd { from, rank: from.map_or_else(place, |ip| self.rank(ip)), incoming: None }
    }

    /// Our end of a path that a remote dialed.
    pub(super) fn accepted_local_end(&self, connection: &Connection, called: Option<IncomingId>) -> LocalEnd {
        LocalEnd { from: None, rank: connection.local_ip().map_or(u8::MAX, |ip| self.rank(ip)), incoming: called }
    }

    /// The position of one of our addresses among those on which we listen.
    pub(super) fn rank(&self, ip: IpAddr) -> u8 {
        let all = self.endpoints();
        let is_at =
            |endpoint: &Endpoint| endpoint.local_addr().is_ok_and(|at| at.ip().to_canonical() == ip.to_canonical());
        all.iter().position(is_at).unwrap_or(all.len()).try_into().unwrap_or(u8::MAX)
    }

    /// The existing addresses at which we listen at a port.
    pub(super) fn at_port(&self, port: u16) -> impl Iterator<Item = IpAddr> {
        self.addressed().map(|(at, _)| at).filter(move |at| at.port() == port).map(|at| at.ip().to_canonical())
    }

    /// The addresses of [`Self::at_port`], if there are several.
    pub(super) fn hosts(&self, port: u16) -> Vec<IpAddr> {
        let hosts: Vec<_> = self.at_port(port).collect();
        if hosts.len() > 1 { hosts } else { Vec::new() }
    }
}
