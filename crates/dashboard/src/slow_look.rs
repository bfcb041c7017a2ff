//! Reads what changes rarely, at every fifth look.

use roost_api::{Client, ClientError, Code, Connections};

use crate::feed::Feed;
use crate::group;
use crate::picture::Rows;

/// Looks from one to the next of these.
pub(crate) const EVERY: u64 = 5;

pub(crate) async fn look(feed: &Feed, client: &Client, connections: &Connections) -> Result<(), ClientError> {
    feed.replace("member", group::members(connections));
    let (documents, audit, rooms) =
        tokio::join!(client.documents(), client.audit(group::AUDIT_RECORDS), client.rooms());
    feed.replace("document", known(documents)?.as_ref().map_or_else(Rows::new, group::documents));
    let audit = known(audit)?;
    feed.replace("audit", audit.as_ref().map_or_else(Rows::new, group::audit));
    feed.say("audit", if audit.is_some_and(|audit| audit.is_kept) { "live" } else { "off" }, None);
    let rooms = known(rooms)?;
    if let Some(rooms) = &rooms {
        let members = rooms.rooms.iter().flat_map(|room| &room.members);
        feed.own_services.add(members.flat_map(|member| member.services.iter().copied()));
    }
    feed.replace("room", rooms.as_ref().map_or_else(Rows::new, group::rooms));
    Ok(())
}

/// An answer; `None` of a daemon that has no such endpoint, as an older one.
fn known<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Api(error)) if error.code == Code::NoSuchEndpoint => Ok(None),
        Err(error) => Err(error),
    }
}
