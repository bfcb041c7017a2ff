//! Calls of which somebody is killed at each moment: none runs twice, and an answer is whole or is no answer.

use std::path::Path;
use std::thread;
use std::time::Duration;

use roost_tests::network::{Network, text};
use roost_tests::process::{Process, wait_until};

/// The time of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Milliseconds from the start of the command `roost call`: it connects, the body is on its way.
    After(u64),
    /// The program has begun.
    Runs,
}

const MOMENTS: [Moment; 4] = [Moment::After(3), Moment::After(15), Moment::After(60), Moment::Runs];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Caller,
    Requester,
    Hub,
    Provider,
    Offer,
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Kills the victim during a call, and looks at the outcome.
fn kill_at(victim: Victim, moment: Moment, transport: &str) {
    let case = format!("{victim:?} at {moment:?} over {transport}");
    let network = Network::new();
    let mut hub = network.supernode("sn1", &[]);
    let endpoint = hub.endpoint(transport);
    let mut provider = network.node("p", "27,92", &["--super", &endpoint]);
    let mut requester = network.node("r", "3,4", &["--super", &endpoint]);
    let (runs, body, answer) = (network.path("runs"), network.path("body"), network.path("answer"));
    let bytes: Vec<u8> = (0..65_536_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&body, &bytes).unwrap();
    let script = format!("echo $$ >> {}; cat {}; sleep 0.4; cat", text(&runs), text(&body));
    let words = ["offer", "acme/twice", "--call", "--", "sh", "-c", &script];
    let mut offer = Process::start(provider.command(&words), network.path("offer.log")).unwrap();
    let found = || requester.roost(&["lookup", "acme/twice", "--any"]).status.success().then_some(());
    assert!(wait_until(Duration::from_secs(20), found).is_some(), "{case}: {}", offer.log());

    let data = format!("@{}", text(&body));
    let words = ["call", "acme/twice", "--any", "--data", &data, "-o", &text(&answer), "--timeout", "8s"];
    let mut call = Process::start(requester.command(&words), network.path("call.log")).unwrap();
    match moment {
        Moment::After(millis) => thread::sleep(Duration::from_millis(millis)),
        Moment::Runs => {
            let runs = wait_until(Duration::from_secs(20), || (!lines(&runs).is_empty()).then_some(()));
            assert!(runs.is_some(), "{case}: {}", call.log());
        }
    }
    match victim {
        Victim::Caller => call.kill(),
        Victim::Requester => requester.process.kill(),
        Victim::Hub => hub.process.kill(),
        Victim::Provider => provider.process.kill(),
        Victim::Offer => offer.kill(),
    }
    let ended = call.wait(Duration::from_secs(40));
    assert!(victim == Victim::Caller || ended.is_some(), "{case}: the call does not end: {}", call.log());
    let is_over = || lines(&runs).iter().all(|number| !Path::new("/proc").join(number).exists()).then_some(());
    assert!(wait_until(Duration::from_secs(10), is_over).is_some(), "{case}: its program goes on");
    assert!(lines(&runs).len() <= 1, "{case}: it has run {} times", lines(&runs).len());
    match ended {
        Some(0) => {
            assert_eq!(lines(&runs).len(), 1, "{case}");
            assert!(std::fs::read(&answer).unwrap() == [&bytes[..], &bytes].concat(), "{case}: damaged");
        }
        _ => assert!(!answer.exists(), "{case}: a part of the answer looks like the whole: {}", call.log()),
    }
    // A hub has no part in the data.
    if victim == Victim::Hub && moment == Moment::Runs {
        assert_eq!(ended, Some(0), "{case}: {}", call.log());
    }
}

#[test]
fn calls_run_once_whoever_dies() {
    let victims = [Victim::Caller, Victim::Requester, Victim::Hub, Victim::Provider, Victim::Offer];
    for (number, victim) in victims.into_iter().enumerate() {
        thread::scope(|scope| {
            for (at, moment) in MOMENTS.into_iter().enumerate() {
                let transport = ["udp", "tcp", "quic"][(number + at) % 3];
                scope.spawn(move || kill_at(victim, moment, transport));
            }
        });
    }
}
