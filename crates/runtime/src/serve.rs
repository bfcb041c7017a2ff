//! The life of a daemon between its start and its end.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_api::State;
use roost_api::server::{self, CallerLimits};
use roost_identity::{Identity, Policy};
use roost_transport::Counters;
use roost_wire::Scheme;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::api::{self, DaemonService};
use crate::authority::DocumentQueries;
use crate::clock::{ClockLook, ClockWatch, LOOK, SystemClock};
use crate::config::{Common, Layers, Setting, Settings};
use crate::failure::Failure;
use crate::log_limiter::LogLimiter;
use crate::program::{Opened, Program, Running, read_identity, table};
use crate::renewal::Renewal;
use crate::signals::{SignalAction, Signals};
use crate::watchdog::MachineWatchdog;
use crate::{metrics, systemd};

/// The period of checks that the certificates of connected remotes are still valid.
const RECHECK: Duration = Duration::from_secs(60);

/// The part of a shutdown's limit, at most, for an orderly end of what has not finished: to withdraw, and to tell every
/// remote concerned.
const LEAVE: Duration = Duration::from_secs(1);

/// The longest wait for answers of the local API after the machine has left.
const API_GRACE: Duration = Duration::from_secs(1);

const SECONDS_OF_DAY: u64 = 24 * 60 * 60;

/// The time for each of the last two steps even after the limit.
const LAST: Duration = Duration::from_millis(200);

/// The exit code of a daemon that was told twice to end.
const INTERRUPTED: u8 = 130;

/// Spawns a daemon, serves until a signal ends it, and drains.
pub(crate) async fn serve<P: Program>(
    config: P::Config,
    settings: Settings,
    layers: Layers,
    opened: Opened,
) -> Result<ExitCode, Failure> {
    let Opened { base, policy, socket, http, page } = opened;
    let (shared, identity) = (Arc::clone(&base.shared), Arc::clone(&base.identity));
    let (stop_machine, drain) = (base.stop.clone(), base.common.drain);
    let renewed = Arc::new(Notify::new());
    let renewal = base.common.authority.clone().map(|authority| Renewal {
        authority,
        dir: base.common.identity.clone(),
        identity: Arc::clone(&identity),
        shared: Arc::clone(&shared),
        renewed: Arc::clone(&renewed),
    });
    let stop_api = CancellationToken::new();
    let mut signals = Signals::new().map_err(Failure::failed)?;
    let Running { service, driver } = P::spawn(config, base).await?;
    shared.documents.verdicts().into_iter().for_each(|verdict| service.take_verdict(verdict));
    let local = tokio::spawn(socket.serve(api::local(service.clone()), stop_api.clone().cancelled_owned()));
    if let Some(http) = http {
        let stop = stop_api.clone().cancelled_owned();
        tokio::spawn(server::serve(http, api::public(service.clone()), CallerLimits::PUBLIC, stop));
    }
    let listen = shared.listen().join(" ");
    page.start().map_err(Failure::failed)?;
    let (name, group, node, role) = (identity.name(), identity.group(), identity.node(), P::ROLE);
    tracing::info!(%role, name, group, %node, %listen, "serving");
    shared.audit_start();
    if let Some(renewal) = renewal {
        let (authority, identity) = (renewal.authority.clone(), Arc::clone(&identity));
        let queries = DocumentQueries { authority, identity, service: service.clone() };
        tokio::spawn(stop_machine.clone().run_until_cancelled_owned(queries.run()));
        tokio::spawn(stop_machine.clone().run_until_cancelled_owned(renewal.run()));
    }
    systemd::ready(&format!("{name} of group {group} listens on {listen}"));

    let heart = MachineWatchdog::default();
    let mut running = Daemon::<P> {
        service,
        policy,
        identity,
        settings,
        layers,
        drain,
        heart,
        refused: 0,
        counters: Counters::default(),
        refusals: LogLimiter::default(),
    };
    let mut driver = driver;
    let mut housekeeping = tokio::time::interval(systemd::watchdog_interval().unwrap_or(LOOK).min(LOOK));
    housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut recheck = tokio::time::interval(RECHECK);
    let mut clock = ClockWatch::new(SystemClock);
    loop {
        tokio::select! {
            request = signals.next() => match request {
                SignalAction::Drain => break,
                SignalAction::Reload => running.reload().await,
                SignalAction::Dump => running.dump().await,
            },
            () = renewed.notified() => running.use_renewed().await,
            _ = housekeeping.tick() => {
                running.check_health();
                if has_news(clock.look()) {
                    recheck.reset_immediately();
                }
            }
            _ = recheck.tick() => drop(shared.transport.recheck().await),
            ended = &mut driver => return Err(fault(ended)),
        }
    }
    running.end(signals, DaemonTasks { stop_machine, driver, stop_api, local }).await
}

/// Logs a standstill and a new date. After either, certificates may be valid no longer.
fn has_news(look: ClockLook) -> bool {
    if let Some(standstill) = look.standstill {
        let seconds = standstill.as_secs();
        tracing::info!(seconds, "the host or this daemon stood still: earlier messages may be out of date");
    }
    if let Some(seconds) = look.date_set {
        tracing::warn!(seconds, "the host's wall clock was set: certificates are checked again by the new date");
    }
    look.standstill.is_some() || look.date_set.is_some()
}

/// The driver ends only when told to.
fn fault(ended: Result<(), tokio::task::JoinError>) -> Failure {
    match ended {
        Ok(()) => Failure::failed("the machine left without being told to"),
        Err(error) => Failure::failed(format!("a fault in the program: {error}")),
    }
}

struct Daemon<P: Program> {
    service: P::Service,
    policy: Arc<Policy>,
    identity: Arc<Identity>,
    settings: Settings,
    layers: Layers,
    drain: Duration,
    heart: MachineWatchdog,
    /// The remotes refused up to the last look, and all counts at the last log line.
    refused: u64,
    counters: Counters,
    refusals: LogLimiter,
}

impl<P: Program> Daemon<P> {
    /// Has the machine judge by the labels of the certificate, and reads the documents again that a renewal brings.
    async fn use_renewed(&self) {
        self.service.take_labels(self.identity.labels());
        self.reload_revocations().await;
    }

    /// Reads the revocation list, the certificate and the settings again.
    async fn reload(&mut self) {
        systemd::reloading();
        self.renew();
        self.use_renewed().await;
        if let Err(failure) = self.apply_reload().await {
            failure.message.lines().for_each(|line| self.complain(&format!("no setting was changed: {line}")));
        }
        systemd::ready("reloaded");
    }

    async fn reload_revocations(&self) {
        let (reloaded, shared) = (self.policy.reload(), self.service.shared());
        if shared.documents.load_policy(&self.identity) {
            self.service.take_policy(shared.documents.rules());
        }
        shared.documents.verdicts().into_iter().for_each(|verdict| self.service.take_verdict(verdict));
        let ended = shared.transport.recheck().await;
        match reloaded {
            Ok(revoked) => tracing::info!(revoked, ended, "the revocation list was read again"),
            Err(error) => self.complain(&format!("the revocation list was not read again: {error}")),
        }
    }

    /// Uses the certificate in the identity's folder from now on, if it is this daemon's renewed one.
    fn renew(&self) {
        let fresh = Common::read(&self.settings).map_err(Failure::from).and_then(|common| read_identity(&common));
        let now = SystemTime::now();
        match fresh.and_then(|fresh| self.identity.renew(&fresh, now).map_err(Failure::config)) {
            Ok(true) => {
                self.service.shared().audit_renewed();
                let valid = self.identity.not_after().duration_since(now).unwrap_or_default();
                let days = valid.as_secs() / SECONDS_OF_DAY;
                tracing::info!(days, "the renewed certificate is shown in new handshakes");
            }
            Ok(false) => {}
            Err(failure) => self.complain(&format!("the certificate stays as it is: {}", failure.message)),
        }
    }

    /// Applies all reloadable settings, or none.
    async fn apply_reload(&mut self) -> Result<(), Failure> {
        let fresh = self.layers.read(table::<P>())?;
        let common = Common::read(&fresh)?;
        self.service.reload(&fresh).await?;
        self.service.shared().level.set(&common.log_level).map_err(Failure::config)?;
        self.drain = common.drain;
        let (now, later): (Vec<_>, Vec<_>) = fresh.changed(&self.settings).partition(|setting| setting.reload);
        let keys = |settings: &[&Setting]| settings.iter().map(|s| s.key).collect::<Vec<_>>().join(", ");
        if !later.is_empty() {
            tracing::warn!(settings = keys(&later), "these take effect with the next start");
        }
        if !now.is_empty() {
            tracing::info!(settings = keys(&now), "these settings were applied");
        }
        // A setting that needs a restart stays different, and is named again next time.
        self.settings.adopt_reloadable(&fresh);
        Ok(())
    }

    fn complain(&self, error: &str) {
        tracing::warn!("{error}");
        self.service.shared().set_last_error(error);
    }

    async fn dump(&self) {
        if let Ok(status) = self.service.status().await {
            let text = serde_json::to_string(&status).unwrap_or_default();
            tracing::info!(status = text, "state");
        }
    }

    /// Makes the machine tell the service manager that it lives, and logs remotes that were refused.
    fn check_health(&mut self) {
        self.heart.ask(self.service.check_liveness(systemd::alive));
        let shared = self.service.shared();
        shared.audit_due_denials();
        let counters = shared.transport.counters();
        let refused = metrics::refused(&counters);
        let total: u64 = refused.values().sum();
        if total > self.refused {
            let reasons = refused.iter().filter(|(_, count)| **count > 0);
            let totals: Vec<String> = reasons.map(|(reason, count)| format!("{reason} {count}")).collect();
            let (new, last) = (total - std::mem::replace(&mut self.refused, total), self.policy.last_refused());
            let at = last_seen(&counters, &std::mem::replace(&mut self.counters, counters.clone()));
            shared.audit_refusals(new, last.as_deref(), &at);
            if let Some(suppressed) = self.refusals.admit() {
                let totals = totals.join(", ");
                tracing::warn!(new, calls_itself = last, at, totals, suppressed, "remotes were refused");
            }
        }
    }

    /// Ends within the limit, or at once after a second signal.
    async fn end(self, mut signals: Signals, ends: DaemonTasks) -> Result<ExitCode, Failure> {
        let again = async { while signals.next().await != SignalAction::Drain {} };
        tokio::select! {
            clean = self.wind_down(ends) => {
                tracing::info!(clean, "ended");
                Ok(ExitCode::SUCCESS)
            }
            () = again => {
                tracing::warn!("the daemon received a second signal: it ends at once and drops open flows");
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    }

    /// Lets what is under way finish, withdraws and closes. Returns true if all of it finished by itself.
    async fn wind_down(&self, ends: DaemonTasks) -> bool {
        let shared = self.service.shared();
        let deadline = Instant::now() + self.drain;
        tracing::info!(bound = ?self.drain, "draining");
        shared.set_state(State::Draining);
        systemd::stopping();
        let finish_by = deadline - LEAVE.min(self.drain / 4);
        let finished = timeout_at(finish_by, self.service.drain()).await.is_ok();
        ends.stop_machine.cancel();
        let left = matches!(timeout_at(deadline, ends.driver).await, Ok(Ok(())));
        let clean = finished && left;
        if !clean {
            tracing::warn!("open flows did not end within the drain time");
        }
        ends.stop_api.cancel();
        // An open answer does not hold the process back.
        let _ = tokio::time::timeout(API_GRACE.min(remaining(deadline)), ends.local).await;
        shared.transport.clone().shutdown(remaining(deadline)).await;
        shared.audit_stop(clean);
        clean
    }
}

/// The last address that was refused on each transport since `before`.
fn last_seen(counters: &Counters, before: &Counters) -> String {
    let since = |scheme: &Scheme| counters.for_scheme(*scheme).refused != before.for_scheme(*scheme).refused;
    let at = |scheme: Scheme| Some(format!("{scheme}://{}", counters.for_scheme(scheme).last_refused?));
    Scheme::ALL.into_iter().filter(since).filter_map(at).collect::<Vec<_>>().join(" ")
}

/// The tasks to end, and their switches.
struct DaemonTasks {
    stop_machine: CancellationToken,
    driver: JoinHandle<()>,
    stop_api: CancellationToken,
    local: JoinHandle<()>,
}

/// The time until `deadline`, at least [`LAST`].
fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(LAST)
}
