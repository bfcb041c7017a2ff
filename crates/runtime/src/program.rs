//! The program of a daemon. Daemons differ in name, settings and machine; the rest, from the command line to the exit
//! code, is here.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_api::State;
use roost_api::error::plain;
use roost_api::server::ControlSocket;
use roost_geo::Datum;
use roost_identity::{Identity, LoadError, Policy};
use roost_transport::{BindError, Events, Limits, Transport};
use roost_wire::{Endpoint, Role, RoleSet};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::DaemonService;
use crate::audit;
use crate::check::check;
use crate::config::{self, default_toml, reference, show};
use crate::config::{Action, Common, ConfigError, Invocation, Setting, Settings, common_settings};
use crate::failure::Failure;
use crate::logging::{self, Level};
use crate::page::{self, OpenedPage};
use crate::serve::serve;
use crate::shared::DaemonContext;
use crate::systemd;

/// Time between two looks at the clock while the daemon's certificate is not valid by it.
const CLOCK_STEP: Duration = Duration::from_secs(1);

pub trait Program: 'static {
    const NAME: &'static str;
    /// For `--help`.
    const ABOUT: &'static str;
    /// The default port; 0 lets the system choose.
    const PORT: u16;
    /// The role that the identity must have.
    const ROLE: Role;
    const STATE: State;
    type Config: Send + Sync;
    type Service: DaemonService;

    /// The rows that the daemon adds to the common settings.
    fn settings() -> Vec<Setting>;

    /// # Errors
    /// Fails if the values make no sense, also together.
    fn configure(settings: &Settings) -> Result<Self::Config, ConfigError>;

    /// The roles of the remotes that may dial the daemon.
    fn admit() -> RoleSet;

    /// Checks what can be checked without a start. With `running`, a daemon of this name runs, and the resources that
    /// it has in use are no fault.
    fn check(config: &Self::Config, running: bool) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Checks that the daemon's place is one in its group.
    fn check_place(_: &Self::Config, _: Option<Datum>) -> Result<(), Failure> {
        Ok(())
    }

    fn spawn(config: Self::Config, base: Base) -> impl Future<Output = Result<Running<Self::Service>, Failure>> + Send;
}

/// The resources of a daemon before its machine starts.
pub struct Base {
    pub common: Common,
    pub identity: Arc<Identity>,
    /// The events of the transports, which are in `shared`.
    pub events: Events,
    pub shared: Arc<DaemonContext>,
    /// Cancelled when the machine shall leave.
    pub stop: CancellationToken,
}

pub struct Running<S> {
    pub service: S,
    /// Ends when the machine has left.
    pub driver: JoinHandle<()>,
}

/// Everything a daemon has opened before it is spawned.
pub(crate) struct Opened {
    pub(crate) base: Base,
    pub(crate) policy: Arc<Policy>,
    pub(crate) socket: ControlSocket,
    pub(crate) http: Option<TcpListener>,
    pub(crate) page: OpenedPage,
}

/// Runs a daemon from its command line to its exit code.
pub fn main<P: Program>() -> ExitCode {
    match run::<P>(std::env::args_os().collect()) {
        Ok(code) => code,
        Err(failure) => {
            let mut stderr = std::io::stderr().lock();
            for line in plain(&failure.message).lines() {
                // Nobody is left to be told that standard error is closed.
                let _ = writeln!(stderr, "{}: {line}", P::NAME);
            }
            ExitCode::from(failure.code)
        }
    }
}

/// The whole table of a daemon's settings.
pub fn table<P: Program>() -> Vec<Setting> {
    let mut table = P::settings();
    table.extend(common_settings(P::NAME, P::PORT));
    table
}

fn run<P: Program>(args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let invocation = match Invocation::parse(P::NAME, P::ABOUT, &table::<P>(), args) {
        Ok(invocation) => invocation,
        Err(error) if error.use_stderr() => {
            return Err(Failure { code: Failure::USAGE, message: config::usage(&error) });
        }
        Err(help) => {
            // A closed pipe of the help text is no failure.
            let _ = help.print();
            return Ok(ExitCode::SUCCESS);
        }
    };
    match invocation.action {
        Action::PrintConfig => return Ok(print(&default_toml(P::NAME, &table::<P>()))),
        Action::PrintReference => return Ok(print(&reference(P::NAME, &table::<P>()))),
        _ => {}
    }
    let settings = invocation.layers.read(table::<P>())?;
    if invocation.action == Action::ShowConfig {
        return Ok(print(&show(&settings)));
    }
    let common = Common::read(&settings)?;
    let config = P::configure(&settings)?;
    // A single thread: a request costs no switch between threads, and a hub's directory stays in one core's cache.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
    let level = logging::start(common.log_format, &common.log_level).map_err(Failure::failed)?;
    runtime.block_on(async {
        raise_file_limit();
        if invocation.action == Action::Check {
            check::<P>(&config, common, level).await?;
            return Ok(print("settings, identity and ports are sound\n"));
        }
        P::check(&config, false).await?;
        let opened = open::<P>(common, level).await?;
        remember(&opened.policy, &opened.base.common)?;
        opened.base.shared.documents.load_policy(&opened.base.identity);
        serve::<P>(config, settings, invocation.layers, opened).await
    })
}

/// Raises the limit on open files to the system's maximum, since each TCP connection is a file. If that fails, the
/// lower limit stays.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::from(Failure::FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// Loads the identity and opens every socket.
pub(crate) async fn open<P: Program>(common: Common, level: Level) -> Result<Opened, Failure> {
    let identity = Arc::new(load_when_valid::<P>(&common).await?);
    let policy = Policy::new(&identity).map_err(Failure::config)?;
    let socket = ControlSocket::bind(&common.socket).await.map_err(Failure::failed)?;
    let http = match common.metrics {
        Some(address) => Some(TcpListener::bind(address).await.map_err(|error| no_metrics(address, &error))?),
        None => None,
    };
    let page = page::open(&common, &identity)?;
    let listen = common.listen.clone();
    let (transport, events) = bind::<P>(&common, listen, &identity, &policy).await.map_err(Failure::failed)?;
    let audit = audit::start(common.audit.as_deref()).map_err(|error| no_audit(&common, &error))?;
    let shared = DaemonContext::new(Arc::clone(&identity), Arc::clone(&policy), transport, P::STATE, level)
        .map_err(Failure::failed)?
        .with_audit(audit);
    let base = Base { common, identity, events, shared: Arc::new(shared), stop: CancellationToken::new() };
    Ok(Opened { base, policy, socket, http, page })
}

fn no_audit(common: &Common, error: &std::io::Error) -> Failure {
    let path = common.audit.as_deref().unwrap_or(Path::new("")).display();
    Failure::config(format!("cannot keep audit records in {path}: {error}"))
}

pub(crate) fn no_metrics(address: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot serve metrics on {address}: {error}"))
}

/// Loads the identity and waits until it is valid by this host's clock: a host may start before its clock is set, which
/// can be behind or ahead.
async fn load_when_valid<P: Program>(common: &Common) -> Result<Identity, Failure> {
    let mut told = None;
    loop {
        let (identity, now) = (load::<P>(common)?, SystemTime::now());
        let Err(error) = identity.check_validity(now) else { return Ok(identity) };
        let why = waits_because(&error, now).ok_or_else(|| Failure::config(&error))?;
        // A renewed certificate may be another reason.
        if told.as_ref() != Some(&error.to_string()) {
            tracing::warn!("{why}");
            told = Some(error.to_string());
        }
        systemd::waiting("waits until its certificate is valid by this host's clock", 2 * CLOCK_STEP);
        tokio::time::sleep(CLOCK_STEP).await;
    }
}

/// The sentence of a daemon that waits until its certificate is valid; `None` if time does not help.
fn waits_because(error: &LoadError, now: SystemTime) -> Option<String> {
    let clock = humantime::format_rfc3339_seconds(now);
    match error {
        LoadError::NotYetValid { .. } => {
            Some(format!("{error}; this host's clock shows {clock}; this daemon starts once it is"))
        }
        LoadError::Expired { .. } => Some(format!(
            "{error}; this host's clock shows {clock} and may be wrong; this daemon starts once the clock is set or \
             the certificate renewed (roost group renew)"
        )),
        _ => None,
    }
}

/// The folder to which a service may write.
pub(crate) fn state_directory() -> Option<PathBuf> {
    std::env::var_os("STATE_DIRECTORY").and_then(|all| std::env::split_paths(&all).next())
}

/// Refuses a revocation list that is older than an earlier one in force here.
fn remember(policy: &Policy, common: &Common) -> Result<(), Failure> {
    // Without a state directory the number is kept in the identity's folder.
    match policy.remember_in(state_directory().as_deref().unwrap_or(&common.identity)) {
        Err(unkept @ LoadError::ListNumberUnwritable { .. }) => {
            tracing::warn!("{unkept}");
            Ok(())
        }
        outcome => outcome.map_err(Failure::config),
    }
}

/// The identity in the folder that the settings name.
pub(crate) fn read_identity(common: &Common) -> Result<Identity, Failure> {
    let identity = match &common.revocations {
        Some(list) => Identity::load_with_list(&common.identity, list),
        None => Identity::load(&common.identity),
    };
    identity.map_err(Failure::config)
}

/// Reads the identity and checks that it has this daemon's role, whatever the time.
pub(crate) fn load<P: Program>(common: &Common) -> Result<Identity, Failure> {
    let identity = read_identity(common)?;
    if identity.role() != P::ROLE {
        let (name, role, wanted) = (identity.name(), identity.role(), P::ROLE);
        let folder = common.identity.display();
        let what = format!("the identity in {folder} is {name}, a {role}; {} needs one of role {wanted}", P::NAME);
        return Err(Failure::config(what));
    }
    Ok(identity)
}

/// True if the system has sockets of IPv6.
fn has_ipv6() -> bool {
    std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// Replaces the host `::` by `0.0.0.0`, for a host without IPv6.
fn ipv4_only(mut endpoint: Endpoint) -> Endpoint {
    for host in endpoint.hosts.iter_mut().filter(|host| *host == "::") {
        "0.0.0.0".clone_into(host);
    }
    endpoint
}

pub(crate) async fn bind<P: Program>(
    common: &Common,
    listen: Vec<Endpoint>,
    identity: &Arc<Identity>,
    policy: &Arc<Policy>,
) -> Result<(Transport, Events), BindError> {
    let config = roost_transport::Config {
        identity: Arc::clone(identity),
        policy: Arc::clone(policy),
        key_exchange: common.key_exchange,
        listen: if has_ipv6() { listen } else { listen.into_iter().map(ipv4_only).collect() },
        admit: P::admit(),
        limits: Limits { connections: common.max_connections, ..Limits::default() },
    };
    roost_transport::bind(config).await
}
