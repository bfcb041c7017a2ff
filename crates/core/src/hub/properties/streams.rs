//! What a crowd says of reflected streams and of rooms.

use roost_wire::messages::{CopyTarget, JoinRoom, LeaveRoom, Message, RoomMessage, Roster};
use roost_wire::room::RoomMember;
use roost_wire::{ConnectionId, RoomId, Service, ServiceSet, StreamTag};

use super::crowd::RandomRemotes;
use crate::hub::{HubCommand, ReflectedStream};
use crate::machine::Input;

impl RandomRemotes {
    /// The hub's relay says what it has.
    pub(super) fn relay(&mut self) -> Vec<(ConnectionId, Message)> {
        let command = if self.below(2) == 0 {
            let residual_kbps = [Some(0), Some(700), Some(2_000), None][self.below(4) as usize];
            HubCommand::ReflectionCapacity { residual_kbps, subscribers: self.below(4) as u32 }
        } else {
            let carried = |crowd: &mut Self| {
                let (cell, provider) = (Some(crowd.cell()), (crowd.below(3) > 0).then(|| crowd.who()));
                ReflectedStream {
                    service: Service::ALL[crowd.below(2) as usize],
                    cell,
                    provider,
                    kbps: 650,
                    to: Vec::new(),
                }
            };
            HubCommand::ReflectedStreams { streams: (0..self.below(3)).map(|_| carried(self)).collect() }
        };
        self.bench.input(Input::Command(command))
    }

    /// Where a copy of a stream is wanted.
    pub(super) fn reflect(&mut self) -> Option<CopyTarget> {
        let provider = (self.below(3) == 0).then(|| self.who());
        let (to, tag) = (([0, 0, 0, 0], 9_000).into(), StreamTag(self.below(9)));
        Some(CopyTarget { to, tag, hops: self.below(5) as u8, provider, is_resuming: None })
    }

    /// Something about rooms.
    pub(super) fn room(&mut self) -> Message {
        let (room, node, way) = (RoomId(self.below(3)), self.who(), Some(self.way()));
        let member = RoomMember { node, cell: self.cell(), services: ServiceSet::ALL };
        match self.below(5) {
            0 => Message::Room(RoomMessage::LeaveRoom(LeaveRoom { room, node, direction: way })),
            1 => {
                let (owner, to) = (self.who(), (self.below(2) == 0).then(|| self.who()));
                Message::Room(RoomMessage::Roster(Roster { room, owner, members: vec![member], to, refused: None }))
            }
            _ => Message::Room(RoomMessage::JoinRoom(JoinRoom { room, member, direction: way })),
        }
    }
}
