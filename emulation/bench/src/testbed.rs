//! The real daemons of a measurement, one on each host of a LAN.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use roost_api::{Client, ClientError, Frame, RequestEvent, State};
use roost_experiment::{Binaries, Daemon, Launch, Role, RunError, issue, make_group};
use roost_lab::Lab;
use roost_topology::Topology;
use roost_topology::model::HostIndex;
use roost_wire::Cell;
use roost_wire::messages::ServiceRequest;
use tempfile::TempDir;

use super::BenchContext;

const HUB_PORT: u16 = 7700;
/// The longest time until the daemons serve: a base, and an addition for each.
const READY: Duration = Duration::from_secs(60);
const READY_EACH: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);
/// The time after which nodes have a standby, too.
const SETTLED: Duration = Duration::from_secs(2);

/// The daemon of a host, with its additional settings.
pub(super) enum TestbedRole {
    /// A super node, with all other super nodes as siblings.
    Hub(Vec<OsString>),
    Node {
        /// The super nodes that it knows, its home first.
        hubs: Vec<HostIndex>,
        cell: Cell,
        settings: Vec<OsString>,
    },
}

impl TestbedRole {
    fn is_hub(&self) -> bool {
        matches!(self, Self::Hub(_))
    }
}

/// A lab with the daemons of a measurement. They end with it.
pub(super) struct Testbed {
    /// Hubs first, in the order of the hosts.
    pub(super) daemons: Vec<Daemon>,
    pub(super) lab: Lab,
    // Last, since the daemons' open files are in it.
    _folder: TempDir,
}

impl Testbed {
    /// Makes the daemons, one for each host, hubs first; none is started yet.
    pub(super) fn make(
        bench: &mut BenchContext<'_>,
        topology: &Topology,
        parts: &[TestbedRole],
    ) -> Result<Self, String> {
        let lab = bench.lab(topology).map_err(|error| error.to_string())?;
        let folder = tempfile::tempdir().map_err(|error| format!("no folder for the daemons: {error}"))?;
        let maker = TestbedBuilder::new(&lab, folder.path(), parts).map_err(|error| error.to_string())?;
        let mut daemons = Vec::new();
        for host in 0..parts.len() {
            if bench.is_stopped() {
                return Err("it was interrupted".to_owned());
            }
            daemons.push(Daemon::new(maker.launch(host).map_err(|error| error.to_string())?));
        }
        Ok(Self { daemons, lab, _folder: folder })
    }

    /// Starts all, hubs first, and waits until they serve.
    pub(super) async fn start(daemons: &mut [Daemon], lab: &Lab) -> Result<(), String> {
        let deadline = Instant::now() + READY + READY_EACH * u32::try_from(daemons.len()).unwrap_or(u32::MAX);
        let hubs = daemons.partition_point(|daemon| matches!(daemon.launch.role, Role::Hub(_)));
        let (hubs, nodes) = daemons.split_at_mut(hubs);
        for part in [hubs, nodes] {
            for daemon in part.iter_mut() {
                daemon.start(lab).map_err(|error| error.to_string())?;
            }
            for daemon in part {
                while !serves(daemon).await {
                    if !daemon.is_running() || Instant::now() > deadline {
                        return Err(format!("{} does not serve: {}", daemon.launch.name, daemon.exit_summary()));
                    }
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        tokio::time::sleep(SETTLED).await;
        Ok(())
    }
}

/// Plays a scene with daemons until its end, or until the bench is stopped.
pub(super) fn play<T>(bench: &BenchContext<'_>, scene: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot wait for daemons: {error}"))?;
    let interrupted = async {
        while !bench.is_stopped() {
            tokio::time::sleep(LOOK).await;
        }
    };
    runtime.block_on(async {
        tokio::select! {
            seen = scene => seen,
            () = interrupted => Err("it was interrupted".to_owned()),
        }
    })
}

/// Receives a stream through the local API of a node until it ends, and returns the reason.
pub(super) async fn receive(socket: &Path, request: &ServiceRequest, mut on_data: impl FnMut(&[u8])) -> String {
    let received = async {
        let mut frames = Client::connect(socket).await?.request(request).await?;
        while let Some(frame) = frames.next().await? {
            match frame {
                Frame::Data(data) => on_data(&data),
                Frame::Event(RequestEvent::Failed { error, .. }) => return Ok(error.to_string()),
                Frame::Event(_) => {}
            }
        }
        Ok::<_, ClientError>("it ended".to_owned())
    };
    received.await.unwrap_or_else(|error| error.to_string())
}

async fn serves(daemon: &Daemon) -> bool {
    let status = Daemon::status(daemon.launch.socket.clone()).await;
    status.is_some_and(|status| matches!(status.state, State::Listening | State::Attached))
}

/// Makes command lines, and the identities for them.
struct TestbedBuilder<'a> {
    binaries: Binaries,
    folder: &'a Path,
    addresses: Vec<Ipv4Addr>,
    parts: &'a [TestbedRole],
}

impl<'a> TestbedBuilder<'a> {
    fn new(lab: &Lab, folder: &'a Path, parts: &'a [TestbedRole]) -> Result<Self, RunError> {
        let binaries = Binaries::beside_this()?;
        make_group(&binaries, &folder.join("group"))?;
        // An empty configuration, so that the settings of this machine's daemons are not read.
        let written = std::fs::write(folder.join("empty.toml"), "");
        written.map_err(|error| RunError::Failed(format!("cannot write a file: {error}")))?;
        let addresses = (0..lab.topology().hosts.len()).filter_map(|host| lab.address(host)).collect();
        Ok(Self { binaries, folder, addresses, parts })
    }

    fn launch(&self, host: HostIndex) -> Result<Launch, RunError> {
        let hubs = self.parts.partition_point(TestbedRole::is_hub);
        let (role, certified, program, title) = match &self.parts[host] {
            TestbedRole::Hub(_) => (Role::Hub(host), roost_wire::Role::SuperNode, "supernode", "supernode"),
            TestbedRole::Node { .. } => (Role::Node(host - hubs), roost_wire::Role::Node, "overlay-node", "node"),
        };
        let name = format!("host{host}");
        let file = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        let (identity, socket, log) = (file("id"), file("sock"), file("log"));
        issue(&self.binaries, &self.folder.join("group"), &name, certified.name(), &identity)?;
        let mut args: Vec<OsString> = vec!["--config".into(), self.folder.join("empty.toml").into()];
        args.extend(["--identity".into(), identity.into(), "--socket".into(), socket.clone().into()]);
        args.extend(self.settings(host, hubs));
        let (class, program) = (String::new(), self.binaries.path(program)?);
        Ok(Launch { role, name, host, class, title, certified, program, args, socket, log })
    }

    fn settings(&self, host: HostIndex, hubs: usize) -> Vec<OsString> {
        let at = |host: HostIndex, port: u16| OsString::from(format!("udp://{}:{port}", self.addresses[host]));
        let flags = |flag: &str, others: &[HostIndex]| -> Vec<OsString> {
            others.iter().flat_map(|hub| [flag.into(), at(*hub, HUB_PORT)]).collect()
        };
        let (port, mut args, settings) = match &self.parts[host] {
            TestbedRole::Hub(settings) => {
                let others: Vec<HostIndex> = (0..hubs).filter(|hub| *hub != host).collect();
                (HUB_PORT, flags("--sibling", &others), settings)
            }
            TestbedRole::Node { hubs, cell, settings } => {
                let mut args = flags("--super", hubs);
                args.extend(["--at".into(), cell.to_string().into()]);
                (0, args, settings)
            }
        };
        args.extend(["--listen".into(), at(host, port)]);
        args.extend(settings.iter().cloned());
        args
    }
}
