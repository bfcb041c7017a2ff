//! The daemons: two super nodes, a provider at the one, receivers at the other.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use roost_control::State;
use roost_proto::Cell;
use tempfile::TempDir;

use super::{ONE_WAY, video};
use crate::bench::{Bench, networks};
use crate::experiment::{Binaries, Daemon, Launch, Role, RunError, issue, make_group};
use crate::lab::Lab;
use crate::scenario::topology::HostIndex;

/// The provider's super node, and that of the receivers.
pub(super) const HUBS: [HostIndex; 2] = [0, 1];
pub(super) const PROVIDER: HostIndex = 2;
/// Where the provider is on the grid; the others are elsewhere.
pub(super) const PROVIDER_CELL: Cell = Cell::new(2, 1);
pub(super) const FIRST_WATCHER: HostIndex = 3;
const HUB_PORT: u16 = 7700;
/// How long the daemons may take until they serve.
const READY: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// After which nodes have a stand-by, too.
const SETTLED: Duration = Duration::from_secs(2);

/// A lab with the daemons of a case. They end with it.
pub(super) struct Stage {
    /// Of hubs first, in the order of the hosts.
    pub(super) daemons: Vec<Daemon>,
    pub(super) lab: Lab,
    // What the daemons still have open goes with them.
    _folder: TempDir,
}

impl Stage {
    /// Makes it, with so many receivers; nothing runs yet.
    pub(super) fn make(bench: &mut Bench<'_>, watchers: usize) -> Result<Self, String> {
        let topology = networks::lan(FIRST_WATCHER + watchers, ONE_WAY);
        let lab = bench.lab(&topology).map_err(|error| error.to_string())?;
        let folder = tempfile::tempdir().map_err(|error| format!("no folder for the daemons: {error}"))?;
        let daemons = launches(&lab, folder.path()).map_err(|error| error.to_string())?;
        let daemons = daemons.into_iter().map(Daemon::new).collect();
        Ok(Self { daemons, lab, _folder: folder })
    }

    /// Starts all, hubs first, and waits until they serve.
    pub(super) async fn start(daemons: &mut [Daemon], lab: &Lab) -> Result<(), String> {
        let deadline = Instant::now() + READY;
        let (hubs, nodes) = daemons.split_at_mut(HUBS.len());
        for part in [hubs, nodes] {
            for daemon in part.iter_mut() {
                daemon.start(lab).map_err(|error| error.to_string())?;
            }
            for daemon in part {
                while !serves(daemon).await {
                    if !daemon.is_running() || Instant::now() > deadline {
                        return Err(format!("{} does not serve: {}", daemon.launch.name, daemon.epitaph()));
                    }
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        tokio::time::sleep(SETTLED).await;
        Ok(())
    }
}

async fn serves(daemon: &Daemon) -> bool {
    let status = Daemon::status(daemon.launch.socket.clone()).await;
    status.is_some_and(|status| matches!(status.state, State::Listening | State::Attached))
}

/// The command lines, in the order of the hosts, and the identities for them.
fn launches(lab: &Lab, folder: &Path) -> Result<Vec<Launch>, RunError> {
    let binaries = Binaries::beside_this()?;
    let group = folder.join("group");
    make_group(&binaries, &group)?;
    // So that the settings of this machine's daemons stay out.
    let empty = folder.join("empty.toml");
    std::fs::write(&empty, "").map_err(|error| RunError::Failed(format!("cannot write a file: {error}")))?;
    let hosts = 0..lab.topology().hosts.len();
    let addresses: Vec<Ipv4Addr> = hosts.clone().filter_map(|host| lab.address(host)).collect();
    hosts.map(|host| launch(&binaries, folder, &addresses, host)).collect()
}

fn launch(binaries: &Binaries, folder: &Path, addresses: &[Ipv4Addr], host: HostIndex) -> Result<Launch, RunError> {
    let is_hub = HUBS.contains(&host);
    let (role, certified, program) = match is_hub {
        true => (Role::Hub(host), roost_proto::Role::SuperNode, "supernode"),
        false => (Role::Node(host - PROVIDER), roost_proto::Role::Node, "overlay-node"),
    };
    let name = format!("host{host}");
    let identity = folder.join(format!("{name}.id"));
    issue(binaries, &folder.join("group"), &name, certified.name(), &identity)?;
    let (socket, log) = (folder.join(format!("{name}.sock")), folder.join(format!("{name}.log")));
    let mut args: Vec<OsString> = vec!["--config".into(), folder.join("empty.toml").into()];
    args.extend(["--identity".into(), identity.into(), "--socket".into(), socket.clone().into()]);
    let port = if is_hub { HUB_PORT } else { 0 };
    args.extend(["--listen".into(), format!("udp://{}:{port}", addresses[host]).into()]);
    let hub = |hub: HostIndex| OsString::from(format!("udp://{}:{HUB_PORT}", addresses[hub]));
    let cell = if host == PROVIDER { PROVIDER_CELL } else { Cell::new(0, 0) };
    let [near, far] = if host == PROVIDER { HUBS } else { [HUBS[1], HUBS[0]] };
    if is_hub {
        args.extend(["--peer".into(), hub(HUBS[1 - host])]);
    } else {
        args.extend(["--super".into(), hub(near), "--super".into(), hub(far), "--at".into(), cell.to_string().into()]);
    }
    if host == PROVIDER {
        let source = format!("udp://{}:{}", Ipv4Addr::LOCALHOST, video::PORT);
        args.extend(["--services", "video", "--sources-video", &source].map(OsString::from));
    }
    let (class, title) = (String::new(), if is_hub { "supernode" } else { "node" });
    let program = binaries.path(program)?;
    Ok(Launch { role, name, host, class, title, certified, program, args, socket, log })
}
