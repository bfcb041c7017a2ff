//! Search for the capacity: a set of daemons for the predicted number, to which participants are added until
//! there are too many; or fewer, on a new set.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use roost_experiment::Daemon;
use roost_lab::Lab;
use roost_wire::NodeId;

use super::listener::{SubscriberClient, now_ms};
use super::{CapacityCase, CapacityMode, CapacitySample, CapacitySettings, model, participants};
use crate::BenchContext;
use crate::testbed::{self, Testbed, TestbedRole};

const SPARE: usize = 2;
/// The interval at which members join a room.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait for streams after declines: requests are repeated four or five times.
const PATIENCE: Duration = Duration::from_secs(12);
/// The time after all streams arrive until rates are known and early losses are past.
const SETTLE: Duration = Duration::from_secs(4);
/// The wait for records in flight when losses are counted.
const GRACE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);

fn expected(case: CapacityCase, streams: f64) -> usize {
    match case.what {
        CapacityMode::Count => model::counted(case.hubs, streams).max(2),
        CapacityMode::Residual => model::balanced(case.hubs, streams).max(2),
        CapacityMode::Track => model::track_balanced(case.hubs, streams).max(1),
    }
}

pub(super) fn duration(case: CapacityCase, CapacitySettings { streams, window }: CapacitySettings) -> Duration {
    /// The time for each daemon to start, and for each subscriber to join.
    const EACH: Duration = Duration::from_millis(150);
    let count = u32::try_from(expected(case, streams)).unwrap_or(u32::MAX);
    match case.what {
        CapacityMode::Track => EACH * count * 2 + SETTLE + window + PATIENCE,
        _ => (PAUSE + EACH) * count + (SETTLE + window + GRACE) * 2 + PATIENCE,
    }
}

/// The largest number that holds, and one more, which does not.
pub(super) fn find_limit(
    bench: &mut BenchContext<'_>,
    case: CapacityCase,
    settings: CapacitySettings,
) -> Result<[CapacitySample; 2], String> {
    let mut first = expected(case, settings.streams);
    let (mut most, mut beyond): (Option<CapacitySample>, Option<CapacitySample>) = (None, None);
    loop {
        let last = beyond.map_or(first + SPARE, |beyond| beyond.count - 1);
        for look in run_scene(bench, case, settings, first..=last)? {
            *(if look.holds() { &mut most } else { &mut beyond }) = Some(look);
        }
        first = match (most, beyond) {
            (Some(most), Some(beyond)) => return Ok([most, beyond]),
            (Some(_), None) => last + 1,
            (None, Some(failed)) if failed.count > 2 => failed.count - 1,
            (None, _) => return Err("not even two of them receive everything".to_owned()),
        };
    }
}

/// Runs a set of daemons from start to end, with the first of `counts` participants, and more of them for as
/// long as it holds.
fn run_scene(
    bench: &mut BenchContext<'_>,
    case: CapacityCase,
    CapacitySettings { streams, window }: CapacitySettings,
    counts: RangeInclusive<usize>,
) -> Result<Vec<CapacitySample>, String> {
    let parts = parts(case, streams, *counts.end());
    let mut stage = Testbed::make(bench, &participants::network(case.hubs, parts.len() - case.hubs, streams), &parts)?;
    let Testbed { daemons, lab, .. } = &mut stage;
    testbed::play(bench, async {
        Testbed::start(daemons, lab).await?;
        let scene = CapacityScene { nodes: &daemons[case.hubs..], lab, hubs: case.hubs, window };
        match case.what {
            CapacityMode::Count | CapacityMode::Residual => scene.room(*counts.start()).await,
            CapacityMode::Track => scene.track().await,
        }
    })
}

/// Super nodes, and nodes spread evenly over them; the first node provides the track.
fn parts(case: CapacityCase, streams: f64, last: usize) -> Vec<TestbedRole> {
    let CapacityCase { what, hubs } = case;
    let nodes: Vec<TestbedRole> = match what {
        CapacityMode::Count | CapacityMode::Residual => {
            (0..last).map(|number| participants::node(number, number % hubs, true)).collect()
        }
        CapacityMode::Track => {
            (0..=last).map(|number| participants::node(number, number % hubs, number == 0)).collect()
        }
    };
    (0..hubs).map(|_| participants::hub(what.policy(), streams)).chain(nodes).collect()
}

struct CapacityScene<'a> {
    nodes: &'a [Daemon],
    lab: &'a Lab,
    hubs: usize,
    window: Duration,
}

impl CapacityScene<'_> {
    /// Members join one after the other; measures from `first` members on.
    async fn room(&self, first: usize) -> Result<Vec<CapacitySample>, String> {
        let (mut inside, mut looks) = (Vec::new(), Vec::new());
        for node in self.nodes {
            inside.push(SubscriberClient::enter(node));
            tokio::time::sleep(PAUSE).await;
            if inside.len() >= first {
                looks.push(self.look_twice(&inside, inside.len() - 1).await?);
            }
            if looks.last().is_some_and(|look: &CapacitySample| !look.holds()) {
                break;
            }
        }
        Ok(looks)
    }

    /// Subscribes one after the other until a subscription is declined.
    async fn track(&self) -> Result<Vec<CapacitySample>, String> {
        let [provider, subscribers @ ..] = self.nodes else { return Err("there is no provider".to_owned()) };
        let whose = (id(provider).await?, participants::cell(0));
        let mut watching = Vec::new();
        for node in subscribers {
            watching.push(SubscriberClient::subscribe(node, whose));
            if !until_coming(&watching[watching.len() - 1..], 1).await {
                break;
            }
        }
        let all = watching.len();
        watching.retain(|listener| listener.active_streams() > 0);
        let most = self.look_twice(&watching, 1).await?;
        let beyond = CapacitySample { count: all, missing: all - watching.len(), ..most };
        Ok(if beyond.missing > 0 { vec![most, beyond] } else { vec![most] })
    }

    /// Measures these receivers, each of which should get `each` streams. Other programs on this machine cause
    /// losses as well, so a loss must occur twice to count.
    async fn look_twice(&self, listeners: &[SubscriberClient], each: usize) -> Result<CapacitySample, String> {
        let all_come = until_coming(listeners, each).await;
        tokio::time::sleep(SETTLE).await;
        let look = self.look(listeners, each).await?;
        if look.holds() || !all_come {
            return Ok(look);
        }
        let again = self.look(listeners, each).await?;
        Ok(if (again.missing, again.lost) < (look.missing, look.lost) { again } else { look })
    }

    async fn look(&self, listeners: &[SubscriberClient], each: usize) -> Result<CapacitySample, String> {
        let (begin, before) = (now_ms(), self.sent_bytes()?);
        // A busy machine wakes up late.
        let began = Instant::now();
        tokio::time::sleep(self.window).await;
        let (after, passed) = (self.sent_bytes()?, began.elapsed());
        let come: usize = listeners.iter().map(SubscriberClient::active_streams).sum();
        tokio::time::sleep(GRACE).await;
        let lost = listeners.iter().flat_map(|listener| listener.lost(begin, self.window)).fold(0.0, f64::max);
        let most = before.iter().zip(&after).map(|(before, after)| after - before).max();
        Ok(CapacitySample {
            count: listeners.len(),
            missing: (listeners.len() * each).saturating_sub(come),
            lost,
            sent: participants::as_streams(most.unwrap_or(0), passed),
        })
    }

    /// Bytes of whole frames that each super node has sent.
    fn sent_bytes(&self) -> Result<Vec<u64>, String> {
        let links = self.lab.counters().map_err(|error| error.to_string())?;
        let hosts = &self.lab.topology().hosts[..self.hubs];
        let sent = |name: &String| {
            let own = links.iter().filter(|link| link.host == *name && link.direction == "to-net");
            own.map(|link| link.bytes_in).sum()
        };
        Ok(hosts.iter().map(|host| sent(&host.name)).collect())
    }
}

/// Waits until each of these receives `each` streams; false if some do not.
async fn until_coming(listeners: &[SubscriberClient], each: usize) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if listeners.iter().all(|listener| listener.active_streams() >= each) {
            return true;
        }
        tokio::time::sleep(LOOK).await;
    }
    false
}

async fn id(daemon: &Daemon) -> Result<NodeId, String> {
    let status = Daemon::status(daemon.launch.socket.clone()).await;
    status.map(|status| status.node).ok_or_else(|| format!("{} does not say who it is", daemon.launch.name))
}
