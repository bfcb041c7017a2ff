//! The tracks of nodes, which the gateway subscribes to.

use std::collections::BTreeMap;
use std::time::Duration;

use roost_client::{Area, Candidate, Error, NodeId, Roost, Service, ServiceRequest, WatchEvent};
use tokio::task::{AbortHandle, JoinSet};

use super::{Input, Inputs};

/// The most streams at a time; those that come first are taken.
const MAX_STREAMS: usize = 64;

const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Tracks {
    roost: Roost,
    inputs: Inputs,
    own: NodeId,
    streams: BTreeMap<(NodeId, Service), AbortHandle>,
    tasks: JoinSet<()>,
}

impl Tracks {
    pub(super) fn new(roost: Roost, inputs: Inputs, own: NodeId) -> Self {
        Self { roost, inputs, own, streams: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Begins and ends streams as their providers come and go.
    pub(super) fn follow(&mut self, change: &WatchEvent) {
        while self.tasks.try_join_next().is_some() {}
        for node in &change.gone {
            self.end(*node, &[]);
        }
        for candidate in &change.present {
            let tracks = candidate.services.iter().copied().filter(|service| service.base() == Service::Track);
            let tracks: Vec<Service> = tracks.filter(|_| candidate.node != self.own).collect();
            self.end(candidate.node, &tracks);
            for service in tracks {
                self.begin(candidate, service);
            }
        }
    }

    fn begin(&mut self, candidate: &Candidate, service: Service) {
        let key = (candidate.node, service);
        if self.streams.contains_key(&key) || self.streams.len() >= MAX_STREAMS {
            return;
        }
        let name = candidate.name.clone().unwrap_or_else(|| format!("{:?}", candidate.node));
        let stream = Stream { provider: candidate.node, name, service, inputs: self.inputs.clone() };
        self.streams.insert(key, self.tasks.spawn(stream.keep(self.roost.clone())));
    }

    /// Ends the streams of a node but those of some services.
    fn end(&mut self, node: NodeId, but: &[Service]) {
        self.streams.retain(|(provider, service), task| {
            let stays = *provider != node || but.contains(service);
            if !stays {
                task.abort();
            }
            stays
        });
    }
}

struct Stream {
    provider: NodeId,
    name: String,
    service: Service,
    inputs: Inputs,
}

impl Stream {
    /// Subscribes again when the stream ends, after longer and longer pauses while nothing comes.
    async fn keep(self, roost: Roost) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.once(&roost).await {
                Ok(0) | Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
                Ok(_) => pause = FIRST_PAUSE,
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Passes the lines of one stream on. Returns their number.
    async fn once(&self, roost: &Roost) -> Result<u64, Error> {
        let request = ServiceRequest {
            provider: Some(self.provider.into()),
            ..ServiceRequest::new(self.service, Area::Anywhere)
        };
        let (mut transfer, mut lines) = (roost.subscribe(&request).await?, 0);
        while let Ok(Some(datagram)) = transfer.next().await {
            for line in datagram.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                let line = datagram.slice_ref(line);
                let input = Input::Line { provider: self.provider, name: self.name.clone(), line };
                if self.inputs.send(input).await.is_err() {
                    return Ok(lines);
                }
                lines += 1;
            }
        }
        Ok(lines)
    }
}
