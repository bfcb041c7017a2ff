//! The death of a super node without warning, in an overlay of two, with a provider and a requester.

use std::path::Path;
use std::time::{Duration, Instant};

use roost_api::{Frame, RequestEvent, Status};
use roost_identity::group::Group;
use roost_wire::messages::ServiceRequest;
use roost_wire::{Area, Cell, Role, Service};

use super::process::Process;
use super::world::arguments;
use crate::failure::{Failure, Outcome};

const THERE: Cell = Cell::new(5, 9);

/// Time between two looks, and between two requests.
const LOOK: Duration = Duration::from_millis(20);

/// Longest time that any step may take before the demo fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two super nodes that stand by for each other, and two nodes.
pub(super) struct FailoverNetwork {
    hubs: Vec<(String, Process)>,
    nodes: Vec<Process>,
}

/// Times until the requester was served again after its home was killed.
pub(super) struct Failover {
    /// The names of the killed super node, and of the one that took over.
    pub(super) killed: String,
    pub(super) next: String,
    /// From the death to the whole answer of the first request that was answered.
    pub(super) answered: Duration,
    /// From the death until the requester had its new home.
    pub(super) moved: Duration,
}

impl FailoverNetwork {
    /// Starts everything and waits until the requester has a home and a standby.
    pub(super) async fn start(group: &Group, folder: &Path) -> Outcome<Self> {
        let (mut hubs, mut endpoints) = (Vec::new(), Vec::<String>::new());
        for name in ["sn1", "sn2"] {
            let mut args = arguments(group, folder, name, Role::SuperNode)?;
            args.extend(endpoints.iter().flat_map(|endpoint| ["--sibling".to_owned(), endpoint.clone()]));
            let mut hub = Process::start("supernode", name, folder, &args)?;
            endpoints.push(hub.ready().await?.listen.join(","));
            hubs.push((name.to_owned(), hub));
        }
        let mut nodes = Vec::new();
        for (name, at, services) in [("camera", THERE, "image"), ("viewer", Cell::new(3, 4), "")] {
            let mut args = arguments(group, folder, name, Role::Node)?;
            args.extend(endpoints.iter().flat_map(|endpoint| ["--super".to_owned(), endpoint.clone()]));
            args.extend(["--at".to_owned(), at.to_string()]);
            if !services.is_empty() {
                args.extend(["--services".to_owned(), services.to_owned()]);
            }
            let mut node = Process::start("overlay-node", name, folder, &args)?;
            node.ready().await?;
            nodes.push(node);
        }
        let pair = Self { hubs, nodes };
        for node in &pair.nodes {
            wait(node, "a node has no standby", |status| status.standby.is_some()).await?;
        }
        for (_, hub) in &pair.hubs {
            let knows_both = |status: &Status| status.index.is_some_and(|index| index.nodes + index.replicas == 2);
            wait(hub, "a super node has no copy of the other one's records", knows_both).await?;
        }
        Ok(pair)
    }

    pub(super) async fn picture(&self) -> Outcome<Vec<u8>> {
        let client = self.viewer()?.client()?;
        let request =
            ServiceRequest { timeout: Some(PATIENCE), ..ServiceRequest::new(Service::Image, Area::Exact(THERE)) };
        let mut stream = client.request(&request).await?;
        let mut picture = Vec::new();
        while let Some(frame) = stream.next().await? {
            match frame {
                Frame::Data(data) => picture.extend_from_slice(&data),
                Frame::Event(RequestEvent::Finished(_)) => return Ok(picture),
                Frame::Event(RequestEvent::Failed { error, .. }) => return Err(Failure::api(&error)),
                Frame::Event(_) => {}
            }
        }
        Err(Failure::failed("the picture broke off: try the demo again"))
    }

    /// Kills the requester's home and measures the times until service goes on.
    pub(super) async fn fail_over(&mut self) -> Outcome<Failover> {
        let home = self.status().await?.hub.map(|hub| hub.name).unwrap_or_default();
        let dies = self.hubs.iter().position(|(name, _)| *name == home);
        let dies = dies.ok_or_else(|| Failure::failed("the requester has no home: try the demo again"))?;
        let (killed, mut hub) = self.hubs.remove(dies);
        hub.kill().await;
        let died = Instant::now();
        let next = self.hubs.first().map(|(name, _)| name.clone()).unwrap_or_default();
        let answer = async {
            self.picture().await?;
            Ok::<_, Failure>(died.elapsed())
        };
        let home = async {
            let has_moved = |status: &Status| status.hub.as_ref().is_some_and(|hub| hub.name == next);
            wait(self.viewer()?, "the node that watches has no new super node", has_moved).await?;
            Ok(died.elapsed())
        };
        let (answered, moved) = tokio::try_join!(answer, home)?;
        Ok(Failover { killed, next, answered, moved })
    }

    /// Stops the processes that still run.
    pub(super) async fn stop(self) {
        for process in self.nodes.into_iter().chain(self.hubs.into_iter().map(|(_, hub)| hub)) {
            process.stop().await;
        }
    }

    async fn status(&self) -> Outcome<Status> {
        Ok(self.viewer()?.client()?.status().await?)
    }

    fn viewer(&self) -> Outcome<&Process> {
        self.nodes.last().ok_or_else(|| Failure::failed("the requester has not been started"))
    }
}

/// Waits until a daemon's status is as wanted; `what` is the error if it never is.
async fn wait(daemon: &Process, what: &str, wanted: impl Fn(&Status) -> bool) -> Outcome {
    let until = Instant::now() + PATIENCE;
    while !wanted(&daemon.client()?.status().await?) {
        if Instant::now() > until {
            return Err(Failure::failed(format!("{what} after {} s: try the demo again", PATIENCE.as_secs())));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
