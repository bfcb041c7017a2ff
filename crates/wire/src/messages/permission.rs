//! The table of senders and receivers of each message. Every receiver asks here before a part of it sees a
//! message.

use super::{
    DirectoryMessage, DocumentMessage, FlowMessage, HierarchyMessage, MailboxMessage, Message, ProbeMessage,
    RegistrationMessage, ReplicationMessage, RequestMessage, RoomMessage,
};

/// An end of a connection, by its certificate's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The holder of a node's certificate.
    Node,
    /// A super node or a central server.
    Hub,
}

/// The pairs of parties, each from its sender to its receiver.
#[derive(Clone, Copy)]
struct Pairs(u8);

impl Pairs {
    const NONE: Self = Self(0);
    const NODE_TO_NODE: Self = Self(1);
    const NODE_TO_HUB: Self = Self(2);
    const HUB_TO_NODE: Self = Self(4);
    const HUB_TO_HUB: Self = Self(8);
    const TO_HUB: Self = Self::NODE_TO_HUB.and(Self::HUB_TO_HUB);
    const WITH_HUB: Self = Self::TO_HUB.and(Self::HUB_TO_NODE);
    const FROM_HUB: Self = Self::HUB_TO_NODE.and(Self::HUB_TO_HUB);
    const ALL: Self = Self::WITH_HUB.and(Self::NODE_TO_NODE);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Message {
    /// True if `sender` may say this to `receiver` over a connection.
    pub const fn is_allowed(&self, sender: Party, receiver: Party) -> bool {
        let pair = match (sender, receiver) {
            (Party::Node, Party::Node) => Pairs::NODE_TO_NODE,
            (Party::Node, Party::Hub) => Pairs::NODE_TO_HUB,
            (Party::Hub, Party::Node) => Pairs::HUB_TO_NODE,
            (Party::Hub, Party::Hub) => Pairs::HUB_TO_HUB,
        };
        self.pairs().0 & pair.0 != 0
    }

    const fn pairs(&self) -> Pairs {
        match self {
            Self::Registration(message) => message.pairs(),
            Self::Request(message) => message.pairs(),
            Self::Flow(message) => message.pairs(),
            Self::Directory(message) => message.pairs(),
            Self::Hierarchy(message) => message.pairs(),
            Self::Replication(ReplicationMessage::ReplicaUpdate(_) | ReplicationMessage::ResyncRequest(_)) => {
                Pairs::HUB_TO_HUB
            }
            Self::Document(DocumentMessage::Progress(_)) => Pairs::HUB_TO_HUB,
            Self::Document(
                DocumentMessage::Holdings(_) | DocumentMessage::Document(_) | DocumentMessage::DocumentRequest(_),
            ) => Pairs::ALL,
            Self::Multicast(_) => Pairs::NONE,
            Self::Room(RoomMessage::JoinRoom(_) | RoomMessage::LeaveRoom(_)) => Pairs::TO_HUB,
            Self::Room(RoomMessage::Roster(_)) => Pairs::FROM_HUB,
            Self::Mailbox(MailboxMessage::SealedFile(_) | MailboxMessage::MailboxStatus(_)) => Pairs::WITH_HUB,
            Self::Mailbox(MailboxMessage::FilesWait(_) | MailboxMessage::NodeIsHere(_)) => Pairs::HUB_TO_HUB,
            Self::Probe(ProbeMessage::Ping(_) | ProbeMessage::Pong(_) | ProbeMessage::Hello(_)) => Pairs::ALL,
        }
    }
}

impl RegistrationMessage {
    const fn pairs(&self) -> Pairs {
        match self {
            Self::Publish(_) | Self::Renew(_) | Self::Withdraw(_) | Self::SetStandby { .. } | Self::Adopt(_) => {
                Pairs::NODE_TO_HUB
            }
            Self::HomeChanged(_) => Pairs::TO_HUB,
            Self::Lease { .. } | Self::UnknownVersion | Self::RetryAfter(_) | Self::Handover | Self::Redirect(_) => {
                Pairs::HUB_TO_NODE
            }
        }
    }
}

impl RequestMessage {
    const fn pairs(&self) -> Pairs {
        match self {
            // A route is added by hubs, and a hop is for hubs only.
            Self::Request(request) => match &request.route {
                None => Pairs::NODE_TO_HUB.and(Pairs::NODE_TO_NODE),
                Some(route) if route.hop.is_some() => Pairs::HUB_TO_HUB,
                Some(_) => Pairs::HUB_TO_NODE,
            },
            Self::RequestAck { .. } => Pairs::HUB_TO_HUB,
            Self::Push(_) | Self::PushStatus { .. } => Pairs::NODE_TO_NODE,
            Self::Tunneled { .. } => Pairs::WITH_HUB,
            Self::Accept(_) | Self::Decline(_) | Self::Pending { .. } | Self::HopReport(_) | Self::BodyRequest(_) => {
                Pairs::ALL
            }
        }
    }
}

impl FlowMessage {
    const fn pairs(&self) -> Pairs {
        match self {
            Self::SealedKeys(_) => Pairs::WITH_HUB,
            Self::Rekey(_) => Pairs::NODE_TO_NODE,
            Self::Datagram(_)
            | Self::Chunk(_)
            | Self::End { .. }
            | Self::Report(_)
            | Self::Stop { .. }
            | Self::Body(_) => Pairs::ALL,
        }
    }
}

impl DirectoryMessage {
    const fn pairs(&self) -> Pairs {
        match self {
            Self::Watch(_) | Self::Unwatch(_) => Pairs::TO_HUB,
            Self::HubLookup(_) => Pairs::HUB_TO_HUB,
            Self::LookupResult(_) | Self::WatchChange(_) => Pairs::FROM_HUB,
        }
    }
}

impl HierarchyMessage {
    const fn pairs(&self) -> Pairs {
        match self {
            Self::Claim { .. }
            | Self::RegisterChild { .. }
            | Self::Summary(_)
            | Self::StandbyOnly(_)
            | Self::Gossip(_)
            | Self::HubLoad { .. } => Pairs::HUB_TO_HUB,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{Area, Cell};
    use crate::ids::{NodeId, Nonce, RequestId};
    use crate::messages::{HubHop, Request, Route, RouteDirection, ServiceRequest};
    use crate::service::Service;

    /// From node to node, node to hub, hub to node, hub to hub.
    fn allowed(message: &Message) -> [bool; 4] {
        let pairs = [Party::Node, Party::Hub].map(|sender| [Party::Node, Party::Hub].map(|to| (sender, to)));
        pairs
            .as_flattened()
            .iter()
            .map(|(sender, to)| message.is_allowed(*sender, *to))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    }

    #[test]
    fn request_is_allowed_by_its_route() {
        let node = NodeId::from_bytes([1; 16]);
        let hop = HubHop { cell: Cell::new(0, 0), direction: RouteDirection::Up, hops_left: 1, provider: None };
        let route = |hop| Some(Route { requester: node, reply_to: Vec::new(), hop });
        let spec = ServiceRequest::new(Service::Video, Area::Anywhere);
        let request = Request::new(RequestId(1), Nonce::from_u64(1), spec, 1_000);
        for (route, expected) in [
            (None, [true, true, false, false]),
            (route(None), [false, false, true, false]),
            (route(Some(hop)), [false, false, false, true]),
        ] {
            let message = Message::Request(RequestMessage::Request(Request { route, ..request.clone() }));
            assert_eq!(allowed(&message), expected, "{message:?}");
        }
    }

    #[test]
    fn only_hubs_command_and_gossip() {
        let of_hubs = [
            Message::Hierarchy(HierarchyMessage::RegisterChild { tier: 1 }),
            Message::Hierarchy(HierarchyMessage::Claim {
                node: NodeId::from_bytes([1; 16]),
                version: Default::default(),
            }),
        ];
        assert!(of_hubs.iter().all(|message| allowed(message) == [false, false, false, true]));
        let handover = Message::Registration(RegistrationMessage::Handover);
        assert_eq!(allowed(&handover), [false, false, true, false]);
        assert_eq!(allowed(&Message::Probe(ProbeMessage::Ping(1))), [true; 4]);
    }
}
