//! The connections that are up, in a table of limited size: the sender that fills it loses first.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use tokio::task::{AbortHandle, Id, JoinSet};

use crate::allowances::network;

pub(crate) struct Connections {
    limit: usize,
    tasks: JoinSet<()>,
    open: BTreeMap<u64, Connection>,
    numbers: HashMap<Id, u64>,
    next: u64,
}

struct Connection {
    from: IpAddr,
    task: AbortHandle,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, tasks: JoinSet::new(), open: BTreeMap::new(), numbers: HashMap::new(), next: 0 }
    }

    /// Serves a connection. If the table is full, the oldest connection of the sender with most ends; if that is the
    /// new one's, the new one is dropped.
    pub(crate) fn add(&mut self, from: IpAddr, serving: impl Future<Output = ()> + Send + 'static) {
        let from = network(from);
        if self.open.len() >= self.limit && !self.make_room(from) {
            return;
        }
        let task = self.tasks.spawn(serving);
        self.numbers.insert(task.id(), self.next);
        self.open.insert(self.next, Connection { from, task });
        self.next += 1;
    }

    fn make_room(&mut self, newcomer: IpAddr) -> bool {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        self.open.values().for_each(|open| *counts.entry(open.from).or_default() += 1);
        let own = counts.get(&newcomer).copied().unwrap_or_default();
        let greediest = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((greediest, _)) = greediest.filter(|(_, most)| own + 1 < *most) else { return false };
        let oldest = self.open.iter().find(|(_, open)| open.from == greediest).map(|(number, _)| *number);
        let Some(lost) = oldest.and_then(|number| self.open.remove(&number)) else { return false };
        lost.task.abort();
        true
    }

    /// Waits for the end of a connection; for ever if there is none.
    pub(crate) async fn reap(&mut self) {
        let ended = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        if let Some(number) = self.numbers.remove(&ended) {
            self.open.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sender_that_fills_the_table_loses() {
        let [greedy, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut connections = Connections::new(4);
        let has = |connections: &Connections| connections.open.values().map(|open| open.from).collect::<Vec<_>>();
        for _ in 0..5 {
            connections.add(greedy, std::future::pending());
        }
        assert_eq!(has(&connections), [greedy; 4]);
        connections.add(other, std::future::pending());
        assert_eq!(has(&connections), [greedy, greedy, greedy, other]);
        assert_eq!(connections.open.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        connections.reap().await;
        assert_eq!(connections.numbers.len(), 4);
    }
}
