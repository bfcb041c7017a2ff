//! Forwarding decisions, from a frame's header and the table of addresses.

use std::net::Ipv4Addr;

use roost_netcore::{Destination, Port};
use roost_topology::model::NetIndex;

use super::frame::{self, ARP_FRAME_BYTES, CarrierFrameKind, Mac};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameRefusal {
    /// IPv6 is off; these are announcements of hosts.
    Ipv6,
    /// ARP without a question.
    Announcement,
    /// The address it is for, or asks about, is not on the net.
    Unknown,
    /// Not an Ethernet frame, or longer than one.
    Malformed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SwitchDecision {
    /// Write this back to the frame's sender, at once.
    Answer([u8; ARP_FRAME_BYTES]),
    Forward(Destination),
    Refuse(FrameRefusal),
}

/// A wire's net and its address there.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchPort {
    pub(super) net: NetIndex,
    pub(super) port: Port,
    pub(super) address: Ipv4Addr,
    /// The opposite end of a link; `None` on a LAN.
    pub(super) other_end: Option<Port>,
}

/// The members of each net. Nothing is learned: all members are known from the start.
#[derive(Debug)]
pub(super) struct Switch {
    places: Vec<SwitchPort>,
    /// By net, the members' addresses in order.
    members: Vec<Vec<(Ipv4Addr, Port)>>,
}

impl Switch {
    /// Makes a switch for wires with these places.
    ///
    /// # Errors
    /// The second of two places with the same address on one net.
    pub(super) fn new(places: Vec<SwitchPort>) -> Result<Self, SwitchPort> {
        let nets = places.iter().map(|place| place.net + 1).max().unwrap_or(0);
        let mut members: Vec<Vec<(Ipv4Addr, Port)>> = vec![Vec::new(); nets];
        for place in &places {
            let net = &mut members[place.net];
            match net.binary_search_by_key(&place.address, |(address, _)| *address) {
                Ok(_) => return Err(*place),
                Err(at) => net.insert(at, (place.address, place.port)),
            }
        }
        Ok(Self { places, members })
    }

    /// Decides about a frame that was read from a wire.
    pub(super) fn decide(&self, wire: usize, bytes: &[u8]) -> SwitchDecision {
        let Some(place) = self.places.get(wire) else { return SwitchDecision::Refuse(FrameRefusal::Unknown) };
        match frame::classify(bytes) {
            CarrierFrameKind::ArpRequest { asked, sender, sender_mac } => match self.find(place, asked) {
                Some(_) => SwitchDecision::Answer(frame::arp_answer(asked, sender, sender_mac)),
                None => SwitchDecision::Refuse(FrameRefusal::Unknown),
            },
            CarrierFrameKind::ArpOther => SwitchDecision::Refuse(FrameRefusal::Announcement),
            CarrierFrameKind::Ipv6 => SwitchDecision::Refuse(FrameRefusal::Ipv6),
            CarrierFrameKind::Malformed => SwitchDecision::Refuse(FrameRefusal::Malformed),
            CarrierFrameKind::Group => SwitchDecision::Forward(Destination::Others),
            CarrierFrameKind::Unicast(to) => self.unicast(place, to),
        }
    }

    /// On a LAN the named member is the receiver; on a link there is only one other.
    fn unicast(&self, place: &SwitchPort, to: Mac) -> SwitchDecision {
        let named = || to.address().and_then(|address| self.find(place, address));
        match place.other_end.or_else(named) {
            Some(port) => SwitchDecision::Forward(Destination::Port(port)),
            None => SwitchDecision::Refuse(FrameRefusal::Unknown),
        }
    }

    fn find(&self, place: &SwitchPort, address: Ipv4Addr) -> Option<Port> {
        let net = &self.members[place.net];
        let at = net.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        let (address, port) = *net.get(at)?;
        (address != place.address).then_some(port)
    }
}

#[cfg(test)]
mod tests {
    use roost_netcore::Network;

    use super::super::frame::testing;
    use super::*;

    const ANN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
    const BOB: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 3);
    const EVE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 4);
    const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 9);

    fn ports() -> Vec<Port> {
        let leg = || (Default::default(), Default::default());
        Network::<()>::new(1).add_lan(&[leg(), leg(), leg()])
    }

    fn lan(addresses: &[Ipv4Addr]) -> Switch {
        let places = addresses.iter().zip(ports());
        Switch::new(places.map(|(&address, port)| SwitchPort { net: 3, port, address, other_end: None }).collect())
            .unwrap()
    }

    #[test]
    fn lan_forwards_to_named_member() {
        let lan = lan(&[EVE, ANN, BOB]);
        let port = ports();
        let decide = |wire, to| lan.decide(wire, &testing::ipv4(ANN, to, 100, 0));
        assert_eq!(decide(1, Mac::from_ipv4(BOB)), SwitchDecision::Forward(Destination::Port(port[2])));
        assert_eq!(decide(1, Mac::from_ipv4(EVE)), SwitchDecision::Forward(Destination::Port(port[0])));
        assert_eq!(decide(1, Mac([0xff; 6])), SwitchDecision::Forward(Destination::Others));
        for nobody in [Mac::from_ipv4(FAR), Mac::from_ipv4(ANN), Mac([2, 1, 10, 1, 0, 3])] {
            assert_eq!(decide(1, nobody), SwitchDecision::Refuse(FrameRefusal::Unknown), "{nobody:?}");
        }
    }

    #[test]
    fn link_forwards_to_other_end() {
        let port = ports();
        let end = |address, port, to| SwitchPort { net: 0, port, address, other_end: Some(to) };
        let link = Switch::new(vec![end(ANN, port[0], port[1]), end(BOB, port[1], port[0])]).unwrap();
        for to in [Mac::from_ipv4(BOB), Mac::from_ipv4(FAR), Mac([2, 1, 10, 1, 0, 3])] {
            let there = link.decide(0, &testing::ipv4(ANN, to, 100, 0));
            assert_eq!(there, SwitchDecision::Forward(Destination::Port(port[1])));
        }
        let back = link.decide(1, &testing::ipv4(BOB, Mac::from_ipv4(ANN), 100, 0));
        assert_eq!(back, SwitchDecision::Forward(Destination::Port(port[0])));
    }

    #[test]
    fn arp_is_answered_ipv6_refused() {
        let lan = lan(&[ANN, BOB]);
        let answer = frame::arp_answer(BOB, ANN, Mac::from_ipv4(ANN));
        assert_eq!(lan.decide(0, &testing::arp_request(ANN, BOB)), SwitchDecision::Answer(answer));
        assert_eq!(lan.decide(0, &testing::arp_request(ANN, FAR)), SwitchDecision::Refuse(FrameRefusal::Unknown));
        assert_eq!(lan.decide(0, &testing::arp_request(ANN, ANN)), SwitchDecision::Refuse(FrameRefusal::Announcement));
        assert_eq!(lan.decide(0, &testing::ipv6(ANN)), SwitchDecision::Refuse(FrameRefusal::Ipv6));
        assert_eq!(lan.decide(0, &[0; 13]), SwitchDecision::Refuse(FrameRefusal::Malformed));
    }

    #[test]
    fn duplicate_address_on_net_is_refused() {
        let place = |address, port| SwitchPort { net: 0, port, address, other_end: None };
        let port = ports();
        assert!(Switch::new(vec![place(ANN, port[0]), place(ANN, port[1])]).is_err());
        assert!(Switch::new(vec![place(ANN, port[0]), SwitchPort { net: 1, ..place(ANN, port[1]) }]).is_ok());
    }
}
