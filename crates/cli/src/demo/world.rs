//! A hub with five providers and a requester.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use roost_api::Client;
use roost_identity::group::{Group, Validity};
use roost_wire::{Cell, Role, Scheme, Service};

use super::echo::Echo;
use super::process::Process;
use super::row::{self, DemoRow};
use crate::failure::{Failure, Outcome};

const HERE: Cell = Cell::new(3, 4);

/// The cell of each service's provider, in the order of [`Service::ALL`], and that of the call.
const PLACES: [Cell; 5] =
    [Cell::new(27, 92), Cell::new(32, 53), Cell::new(60, 8), Cell::new(11, 71), Cell::new(45, 30)];

/// The longest time for bytes to trickle after a request, and the silence that ends it.
const SETTLE: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_millis(60);

/// The way of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Architecture {
    /// From provider to requester, found through a super node.
    Overlay,
    /// Through a server.
    ClientServer,
}

impl Architecture {
    pub(super) const ALL: [Self; 2] = [Self::Overlay, Self::ClientServer];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Overlay => "p2p",
            Self::ClientServer => "cs",
        }
    }

    const fn hub(self) -> (&'static str, Role, &'static str) {
        match self {
            Self::Overlay => ("supernode", Role::SuperNode, "--super"),
            Self::ClientServer => ("cs-server", Role::Server, "--server"),
        }
    }
}

/// The processes of one architecture.
pub(super) struct DemoNetwork {
    mode: Architecture,
    hub: Process,
    /// The requester is the last one, and the provider of the call is the one before.
    nodes: Vec<Process>,
    echo: Option<Echo>,
    start: Vec<(String, Vec<String>)>,
    folder: std::path::PathBuf,
}

impl DemoNetwork {
    /// Issues the identities and starts the hub. The nodes follow in [`DemoNetwork::ready`], when the hub's ports are
    /// known. The provider of video sends `clip` over and over, or has synthetic data.
    pub(super) async fn start(mode: Architecture, group: &Group, folder: &Path, clip: Option<&Path>) -> Outcome<Self> {
        let (program, role, _) = mode.hub();
        let hub_args = arguments(group, folder, &format!("{}-hub", mode.name()), role)?;
        let mut start = Vec::new();
        for (service, place) in Service::ALL.into_iter().zip(PLACES) {
            let name = format!("{}-{service}", mode.name());
            let mut args = arguments(group, folder, &name, Role::Node)?;
            args.extend(["--at".to_owned(), place.to_string(), "--services".to_owned(), service.to_string()]);
            if let Some(clip) = clip.filter(|_| service == Service::Video) {
                args.extend(["--sources-video".to_owned(), format!("file:{}", clip.display())]);
            }
            start.push((name, args));
        }
        let [.., echo] = PLACES;
        for (name, place) in [("echo", echo), ("requester", HERE)] {
            let name = format!("{}-{name}", mode.name());
            let mut args = arguments(group, folder, &name, Role::Node)?;
            args.extend(["--at".to_owned(), place.to_string()]);
            start.push((name, args));
        }
        let hub = Process::start(program, &format!("{}-hub", mode.name()), folder, &hub_args)?;
        Ok(Self { mode, hub, nodes: Vec::new(), echo: None, start, folder: folder.to_owned() })
    }

    /// Starts the nodes and waits until all of them are attached.
    pub(super) async fn ready(&mut self) -> Outcome {
        let endpoints = self.hub.ready().await?.listen.join(",");
        let (.., flag) = self.mode.hub();
        for (name, args) in std::mem::take(&mut self.start) {
            let args = [args, vec![flag.to_owned(), endpoints.clone()]].concat();
            self.nodes.push(Process::start("overlay-node", &name, &self.folder, &args)?);
        }
        for node in &mut self.nodes {
            node.ready().await?;
        }
        if let [.., provider, requester] = &self.nodes[..] {
            self.echo = Some(Echo::start(provider.client()?, requester.client()?).await?);
        }
        Ok(())
    }

    /// Requests one service over one transport and measures the cost.
    pub(super) async fn measure(&self, service: Service, transport: Scheme, duration: Duration) -> Outcome<DemoRow> {
        let place = PLACES[service.row()];
        let requester = self.requester()?.client()?;
        let before = self.settled().await?;
        let received = row::receive(requester, service, place, transport, duration).await?;
        let sent = self.settled().await?.saturating_sub(before);
        Ok(DemoRow::new(self.mode, service, transport, received, sent))
    }

    pub(super) fn hub(&self) -> Outcome<&Client> {
        self.hub.client()
    }

    /// The providers, and where each was at the start.
    pub(super) fn providers(&self) -> Outcome<Vec<(&Client, Cell)>> {
        self.nodes.iter().zip(PLACES).map(|(node, place)| Ok((node.client()?, place))).collect()
    }

    pub(super) fn requester(&self) -> Outcome<&Process> {
        self.nodes.last().ok_or_else(|| Failure::failed("the requester has not been started"))
    }

    /// Bytes sent by all processes, once that number stands still.
    async fn settled(&self) -> Outcome<u64> {
        let deadline = tokio::time::Instant::now() + SETTLE;
        let mut last = self.sent().await?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = self.sent().await?;
            if now == last || tokio::time::Instant::now() > deadline {
                return Ok(now);
            }
            last = now;
        }
    }

    async fn sent(&self) -> Outcome<u64> {
        let mut sum = self.hub.sent().await?;
        for node in &self.nodes {
            sum += node.sent().await?;
        }
        Ok(sum)
    }

    /// Commands that a person could try with the network.
    pub(super) fn guide(&self) -> String {
        let mut text = String::new();
        let Some(requester) = self.nodes.last() else { return text };
        let (requester, hub) = (requester.socket().display(), self.hub.socket().display());
        let [video, ..] = PLACES;
        for (what, command) in [
            ("requester", format!("roost --socket {requester} status")),
            ("a stream", format!("roost --socket {requester} request video --at {video} -o clip.ts")),
            ("an image", format!("roost --socket {requester} request image --near {HERE} -o picture.jpg")),
            ("changes", format!("roost --socket {requester} watch")),
            ("the hub", format!("roost --socket {hub} index")),
        ] {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {:<4}{what:<10}{command}", self.mode.name());
        }
        text
    }

    pub(super) async fn stop(self) {
        drop(self.echo);
        for node in &self.nodes {
            node.leave();
        }
        for node in self.nodes {
            node.stop().await;
        }
        self.hub.stop().await;
    }
}

/// Issues an identity and returns the flags that every daemon needs.
pub(super) fn arguments(group: &Group, folder: &Path, name: &str, role: Role) -> Outcome<Vec<String>> {
    let identity = folder.join(format!("{name}.id"));
    group.issue(name, role, Validity::Days(30), &identity)?;
    // An empty file keeps out the settings of this machine's daemons.
    let config = folder.join("empty.toml");
    std::fs::write(&config, "").map_err(|error| Failure::file("write", &config, &error))?;
    let mut args = vec!["--config".to_owned(), config.display().to_string()];
    args.extend(["--identity".to_owned(), identity.display().to_string()]);
    for scheme in Scheme::ALL {
        args.extend(["--listen".to_owned(), format!("{scheme}://127.0.0.1:0")]);
    }
    Ok(args)
}
