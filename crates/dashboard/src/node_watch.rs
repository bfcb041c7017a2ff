//! Watches the nodes that a node's hub knows, by the names of their services.

use std::collections::BTreeSet;
use std::time::Duration;

use roost_api::{Candidate, Client, ClientError, WatchEvent, WatchQuery};
use roost_wire::Area;

use crate::feed::{Feed, MAX_NODES};
use crate::picture::Rows;
use crate::rows;

/// The time in which a watch has told the present state, in however many events.
const SETTLE: Duration = Duration::from_secs(2);

/// Watches until the daemon ends the watch, a change is lost, or there are more services to watch.
pub(crate) async fn watch_nodes(feed: Feed, client: Client) {
    match watched(&feed, &client).await {
        // The next watch begins with the present state.
        Ok(()) => {}
        Err(error) => feed.say("nodes", "lost", Some(format!("the nodes cannot be watched: {error}"))),
    }
}

async fn watched(feed: &Feed, client: &Client) -> Result<(), ClientError> {
    let services = feed.own_services.watched();
    let everywhere = WatchQuery { services: services.clone(), area: Area::Anywhere, place: None, names: true };
    let mut changes = client.watch(&everywhere).await?;
    let mut present = Present::default();
    let settled = tokio::time::sleep(SETTLE);
    tokio::pin!(settled);
    loop {
        let event = tokio::select! {
            event = changes.next() => event?,
            () = settled.as_mut(), if !present.is_settled => {
                feed.merge(Rows::new(), present.rows_before(feed));
                continue;
            }
            () = feed.own_services.more_than(&services) => return Ok(()),
        };
        match event {
            Some(event) if present.follows(event.number) => present.apply(feed, &event),
            _ => return Ok(()),
        }
    }
}

/// The nodes that a watch has named.
#[derive(Default)]
struct Present {
    last: Option<u64>,
    seen: BTreeSet<String>,
    is_settled: bool,
}

impl Present {
    fn follows(&mut self, number: u64) -> bool {
        self.last.replace(number).is_none_or(|last| number == last + 1)
    }

    fn apply(&mut self, feed: &Feed, event: &WatchEvent) {
        let offered = event.present.iter().flat_map(|candidate: &Candidate| &candidate.offers);
        feed.own_services.add(offered.map(|offer| offer.service));
        let mut set: Rows = event.present.iter().map(rows::node).collect();
        if feed.nodes() + set.len() > MAX_NODES {
            set.retain(|key, _| feed.picture().rows().contains_key(key));
        }
        if !self.is_settled {
            self.seen.extend(set.keys().cloned());
        }
        feed.merge(set, event.gone.iter().map(|node| format!("node/{node}")).collect());
        feed.say("nodes", "live", None);
    }

    /// Ends the time in which rows of a watch before may stay, and names those that are not there any more.
    fn rows_before(&mut self, feed: &Feed) -> Vec<String> {
        self.is_settled = true;
        let seen = std::mem::take(&mut self.seen);
        feed.node_keys().into_iter().filter(|key| !seen.contains(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(number: u64, present: &[&str]) -> WatchEvent {
        let candidate = |node: &&str| {
            json!({
                "node": node.repeat(32), "cell": "1,2", "services": ["acme/lidar"], "streams_left": 1, "uplink_left_kbps": null,
                "addresses": [], "record": "1.1", "offers": [{ "service": "acme/lidar:stream" }]
            })
        };
        let present: Vec<_> = present.iter().map(candidate).collect();
        serde_json::from_value(json!({ "schema": 2, "number": number, "present": present, "gone": [] })).unwrap()
    }

    #[test]
    fn state_in_several_events_replaces_rows() {
        let feed = Feed::default();
        let mut before = Present::default();
        before.apply(&feed, &event(1, &["1", "2", "3"]));
        let mut present = Present::default();
        assert!(present.follows(7) && present.follows(8) && !present.follows(10));
        present.apply(&feed, &event(1, &["1"]));
        present.apply(&feed, &event(2, &["3"]));
        assert_eq!(feed.nodes(), 3, "more may come");
        let gone = present.rows_before(&feed);
        assert_eq!(gone, [format!("node/{}", "2".repeat(32))]);
    }

    #[test]
    fn offers_of_nodes_are_watched() {
        let feed = Feed::default();
        Present::default().apply(&feed, &event(1, &["1"]));
        assert!(feed.own_services.watched().contains("acme/lidar".parse().unwrap()));
    }
}
