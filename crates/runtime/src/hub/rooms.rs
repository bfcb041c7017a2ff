//! The rooms of which a hub has heard.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use roost_api::server::{ApiError, json_response};
use roost_api::{Code, Member, RoomRow, Rooms, SCHEMA};
use roost_wire::NodeId;
use roost_wire::room::RoomMember;

use super::HubService;
use crate::driver::DriverStopped;
use crate::naming::connected;

/// The most rooms in an answer. With sixty-four members each they make a MiB of JSON.
const MAX_LISTED: usize = 256;

pub(super) async fn rooms(State(hub): State<HubService>) -> Result<Response, ApiError> {
    let leaving = |gone: DriverStopped| ApiError::new(Code::Leaving, gone.to_string());
    let look = |hub: &roost_core::hub::Hub, now| (hub.listed_rooms(MAX_LISTED), hub.status(now).rooms);
    let (listed, count) = hub.mailbox.inspect(look).await.map_err(leaving)?;
    let names = connected(&hub.shared);
    // The count has rooms, too, that everybody has just left.
    let more = if listed.len() < MAX_LISTED { 0 } else { count.saturating_sub(listed.len()) as u64 };
    let row = |(room, members): (roost_wire::RoomId, Vec<RoomMember>)| RoomRow {
        room: room.to_string(),
        name: None,
        members: members.iter().map(|member| named(member, &names)).collect(),
    };
    Ok(json_response(&Rooms { schema: SCHEMA, rooms: listed.into_iter().map(row).collect(), more }))
}

fn named(member: &RoomMember, names: &BTreeMap<NodeId, Option<String>>) -> Member {
    Member {
        node: member.node,
        cell: member.cell,
        services: member.services.iter().collect(),
        name: names.get(&member.node).cloned().flatten(),
    }
}
