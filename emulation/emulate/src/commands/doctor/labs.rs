//! Tests of labs, by making them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use roost_lab::linktest::{self, LinktestKind, LinktestReport};
use roost_lab::{DeviceBackend, Lab, LabError, LabOptions};
use roost_terminal::Finding;

/// Two hosts, 1 ms apart.
const NETWORK: &str = r#"
[[host]]
name = "one"
[[host]]
name = "other"
[[link]]
name = "link"
between = ["one", "other"]
rate = "100Mbit"
delay = "1ms"
"#;
/// An error of the mean delay beyond this is reported, milliseconds.
const DELAY_OFF_MS: f64 = 0.25;

/// Tests whether this user may make namespaces.
pub(super) fn namespaces(entered: Result<(), LabError>) -> Finding {
    const CHECK: &str = "namespaces";
    match entered {
        Ok(()) => Finding::ok(CHECK, "those of processes, networks and mounts can be made"),
        // The sentence ends with advice.
        Err(error) => {
            let text = error.to_string();
            let (found, fix) = text.split_once("): ").unwrap_or((text.as_str(), "run this command with `sudo`"));
            let closing = if found.len() < text.len() && found.contains('(') { ")" } else { "" };
            Finding::fail(CHECK, format!("{found}{closing}"), fix)
        }
    }
}

/// Makes a lab of each kind and measures its one link.
pub(super) fn check() -> Vec<Finding> {
    let tap = try_one(DeviceBackend::Tap);
    let veth = try_one(DeviceBackend::Veth);
    let seen = [&tap, &veth].into_iter().find_map(|tried| tried.as_ref().ok());
    let facts = seen.map(|seen| [of_realtime(&seen.realtime), of_awake(&seen.awake), of_tcp(&seen.tcp)]);
    let mut findings = vec![of_tap(&tap, veth.is_ok()), of_veth(&veth, tap.is_ok())];
    findings.extend(facts.into_iter().flatten());
    findings.extend([tap, veth].into_iter().flatten().map(|seen| seen.off).reduce(f64::min).map(of_delay));
    findings
}

/// The observation of a lab, or the reason for its failure.
type LabAttempt = Result<LabObservation, String>;

struct LabObservation {
    realtime: String,
    awake: String,
    tcp: String,
    /// The carrier's receive buffer, if the system reports it.
    buffer: Option<String>,
    /// Error of the mean delay, milliseconds.
    off: f64,
}

fn try_one(backend: DeviceBackend) -> LabAttempt {
    let topology = roost_ns::load_text(Path::new("doctor.toml"), NETWORK).map_err(|error| error.to_string())?;
    let options = LabOptions { backend, realtime: true, ..LabOptions::default() };
    let lab = Lab::start(&topology, &options).map_err(|error| error.to_string())?;
    let fact = |name: &str| lab.facts().get(name).cloned();
    let [realtime, awake, tcp] = ["realtime", "processors_awake", "tcp"].map(|name| fact(name).unwrap_or_default());
    let buffer = fact("receive_buffer");
    let options = linktest::LinktestOptions {
        quick: true,
        tests: vec![LinktestKind::Delay],
        ..linktest::LinktestOptions::default()
    };
    let report = linktest::run(&lab, lab.topology(), &options, &AtomicBool::new(false), &mut |_| {});
    let off = worst(&report.map_err(|error| error.to_string())?);
    lab.stop(std::time::Duration::ZERO).map_err(|error| error.to_string())?;
    Ok(LabObservation { realtime, awake, tcp, buffer, off: off.ok_or("packets do not arrive")? })
}

/// The largest error of the delays, milliseconds; `None` if nothing arrived.
fn worst(report: &LinktestReport) -> Option<f64> {
    let errors = report.measurements.iter().map(|one| one.error.map(f64::abs));
    errors.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

fn of_tap(tried: &LabAttempt, other_works: bool) -> Finding {
    const CHECK: &str = "tap";
    match tried {
        Ok(_) => Finding::ok(CHECK, "packets pass over TAP devices"),
        Err(error) if other_works => Finding::warn(
            CHECK,
            error.clone(),
            "not needed: veth pairs serve instead; for TAP devices, `sudo modprobe tun && sudo chmod 666 /dev/net/tun`",
        ),
        Err(error) => {
            Finding::fail(CHECK, error.clone(), "`sudo modprobe tun && sudo chmod 666 /dev/net/tun`, or use veth pairs")
        }
    }
}

fn of_veth(tried: &LabAttempt, other_works: bool) -> Finding {
    const CHECK: &str = "veth";
    const FIX: &str = "`sudo modprobe veth af_packet`, or a kernel with CONFIG_VETH and CONFIG_PACKET";
    match tried {
        Ok(LabObservation { buffer, .. }) => {
            let short = buffer.as_deref().filter(|text| text.contains(" of "));
            let found = "packets pass over veth pairs and packet sockets";
            let short = short.map(|buffer| format!("{found}; {buffer} are kept while the emulator is held up"));
            match short {
                None => Finding::ok(CHECK, found),
                Some(found) if other_works => Finding::ok(CHECK, format!("{found}, so TAP devices lose less")),
                Some(found) => Finding::warn(CHECK, found, "`sudo sysctl -w net.core.rmem_max=8388608`"),
            }
        }
        Err(error) if other_works => {
            Finding::warn(CHECK, error.clone(), format!("not needed: TAP devices serve; {FIX}"))
        }
        Err(error) => Finding::fail(CHECK, error.clone(), FIX),
    }
}

fn of_realtime(text: &str) -> Finding {
    const CHECK: &str = "real-time";
    let Some(refusal) = refusal(text) else {
        return Finding::ok(CHECK, "packets are carried with real-time priority");
    };
    Finding::warn(
        CHECK,
        format!("{refusal}: without it packets are late by a millisecond or more while the machine is busy"),
        "add `YOU - rtprio 50` to /etc/security/limits.d/roost.conf and log in again, or run as root, \
         or keep the machine quiet",
    )
}

fn of_awake(text: &str) -> Finding {
    const CHECK: &str = "processors";
    let Some(refusal) = refusal(text) else {
        return Finding::ok(CHECK, "idle processors stay awake while a lab runs");
    };
    let found = format!("{refusal}: packets wait until a processor that sleeps has woken");
    Finding::warn(CHECK, found, "run as root, and outside of a container")
}

fn of_tcp(text: &str) -> Finding {
    const CHECK: &str = "TCP";
    let found = format!("TCP in hosts has {text}");
    if text.starts_with("cubic") {
        return Finding::ok(CHECK, found);
    }
    let fix = "`sudo modprobe tcp_cubic; sudo sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic\"`";
    Finding::warn(CHECK, found, fix)
}

/// The refusal that a fact tells, without the advice that follows its reason; `None` if it is a yes.
fn refusal(fact: &str) -> Option<String> {
    let refusal = || fact.split_once("): ").map_or_else(|| fact.to_owned(), |(refusal, _)| format!("{refusal})"));
    (!fact.starts_with("yes")).then(refusal)
}

fn of_delay(off: f64) -> Finding {
    const CHECK: &str = "delay";
    let found = format!("a link of 1 ms is off by {off:.3} ms");
    if off <= DELAY_OFF_MS {
        return Finding::ok(CHECK, found);
    }
    Finding::warn(CHECK, found, "look for what else runs (`top`), or in a virtual machine for its neighbours")
}

#[cfg(test)]
mod tests {
    use roost_terminal::Verdict;

    use super::*;

    fn seen(buffer: Option<String>) -> LabObservation {
        let [realtime, awake, tcp] = ["yes", "yes", "cubic"].map(str::to_owned);
        LabObservation { realtime, awake, tcp, buffer, off: 0.05 }
    }

    #[test]
    fn one_working_backend_is_enough() {
        let works: LabAttempt = Ok(seen(None));
        let fails: LabAttempt = Err("no such device".to_owned());
        assert_eq!(of_tap(&fails, true).verdict, Verdict::Warn);
        assert_eq!(of_tap(&fails, false).verdict, Verdict::Fail);
        assert_eq!(of_veth(&fails, true).verdict, Verdict::Warn);
        assert_eq!((of_tap(&works, false).verdict, of_veth(&works, false).verdict), (Verdict::Ok, Verdict::Ok));
        assert_eq!((of_delay(0.2).verdict, of_delay(0.3).verdict), (Verdict::Ok, Verdict::Warn));
    }

    #[test]
    fn short_buffer_matters_for_veth_only() {
        let short = Some("212992 of 8388608 bytes".to_owned());
        let short: LabAttempt = Ok(seen(short));
        assert_eq!((of_veth(&short, true).verdict, of_veth(&short, false).verdict), (Verdict::Ok, Verdict::Warn));
        assert!(of_veth(&short, false).fix.is_some_and(|fix| fix.contains("net.core.rmem_max")));
    }

    #[test]
    fn refused_exactness_is_a_warning() {
        for judge in [of_realtime, of_awake] {
            assert_eq!(judge("yes").verdict, Verdict::Ok);
            let finding = judge("refused by this system (no such file): run as root");
            assert_eq!(finding.verdict, Verdict::Warn);
            assert!(finding.found.starts_with("refused by this system (no such file): "), "{}", finding.found);
        }
    }

    #[test]
    fn other_tcp_is_a_warning() {
        assert_eq!(of_tcp("cubic").verdict, Verdict::Ok);
        assert_eq!(of_tcp("reno: the system does not let namespaces have cubic").verdict, Verdict::Warn);
    }

    #[test]
    fn refusal_and_fix_are_separated() {
        let error =
            LabError::System("this system refuses a user namespace (not permitted): run it with `sudo`".to_owned());
        let finding = namespaces(Err(error));
        assert_eq!(finding.found, "this system refuses a user namespace (not permitted)");
        assert_eq!(finding.fix.as_deref(), Some("run it with `sudo`"));
        let finding = namespaces(Err(LabError::System("no".to_owned())));
        assert_eq!((finding.found.as_str(), finding.verdict), ("no", Verdict::Fail));
    }
}
