//! The rooms that the node is in.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use roost_api::server::{ApiError, json_response};
use roost_api::{RoomRow, Rooms, SCHEMA};
use roost_core::node::{MAX_ROOMS, Node};
use roost_runtime::http::{Response, State};
use roost_wire::RoomId;
use roost_wire::room::RoomMember;

use crate::api::leaving;
use crate::node::NodeService;
use crate::rows;

/// Names of rooms, which members and hubs know by numbers alone.
#[derive(Debug, Default)]
pub(crate) struct RoomNames(Mutex<BTreeMap<RoomId, String>>);

impl RoomNames {
    pub(crate) fn record_room(&self, room: RoomId, name: &str) {
        let mut names = self.lock();
        // The next list forgets the names of rooms that were left.
        if names.len() < 4 * MAX_ROOMS {
            names.insert(room, name.to_owned());
        }
    }

    /// The names of these rooms. Others are forgotten.
    fn keep(&self, rooms: &[RoomId]) -> BTreeMap<RoomId, String> {
        let mut names = self.lock();
        names.retain(|room, _| rooms.contains(room));
        names.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RoomId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) async fn rooms(State(node): State<NodeService>) -> Result<Response, ApiError> {
    let listed = node.mailbox.inspect(|node: &Node, _| node.listed_rooms()).await.map_err(leaving)?;
    let names = node.room_names.keep(&listed.iter().map(|(room, _)| *room).collect::<Vec<_>>());
    let row = |(room, members): (RoomId, Vec<RoomMember>)| {
        let mut members = rows::roster(&members).members;
        members.iter_mut().for_each(|member| member.name = node.name(member.node));
        RoomRow { room: room.to_string(), name: names.get(&room).cloned(), members }
    };
    let mut rooms: Vec<RoomRow> = listed.into_iter().map(row).collect();
    rooms.sort_by(|a, b| a.room.cmp(&b.room));
    Ok(json_response(&Rooms { schema: SCHEMA, rooms, more: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_left_rooms_go() {
        let names = RoomNames::default();
        let [ops, air] = ["ops", "air"].map(RoomId::named);
        names.record_room(ops, "ops");
        names.record_room(air, "air");
        assert_eq!(names.keep(&[air]), BTreeMap::from([(air, "air".to_owned())]));
        assert_eq!(names.keep(&[ops, air]).len(), 1);
        for number in 0..1_000 {
            names.record_room(RoomId(number), "x");
        }
        assert!(names.lock().len() <= 4 * MAX_ROOMS);
    }
}
