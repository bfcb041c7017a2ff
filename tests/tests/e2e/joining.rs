//! Hosts become members by invitation, with approval, and by a file, as their operators do it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use roost_tests::network::{Daemon, Network, PATIENCE, text};
use roost_tests::process::{Process, binary, free_port, run, wait_until};
use serde_json::Value;

/// The authority of a network's group, which listens on loopback.
pub(crate) struct Authority {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Authority {
    pub(crate) fn start(network: &Network) -> Self {
        Self::start_at(network, "127.0.0.1:0", |_| ())
    }

    pub(crate) fn start_at(network: &Network, listen: &str, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(binary("roost"));
        command.args(["group", "serve", &network.group(), "--listen", &format!("tls://{listen}")]);
        change(&mut command);
        let process = Process::start(command, network.path("authority.log")).unwrap();
        let address = || {
            let log = process.log();
            let (_, rest) = log.split_once("listens on tls://")?;
            Some(rest.split_once(". ")?.0.to_owned())
        };
        let address = wait_until(PATIENCE, address).unwrap_or_else(|| panic!("{}", process.log()));
        Self { process, address }
    }

    fn invite(&self, network: &Network, arguments: &[&str]) -> String {
        let fixed = ["group", "invite", &network.group(), "--authority", &self.address];
        network.roost_ok(&[&fixed, arguments].concat()).trim().to_owned()
    }
}

/// The folder and the configuration of a host that joins.
fn places(network: &Network, name: &str) -> (PathBuf, PathBuf) {
    (network.path(&format!("hosts/{name}/identity")), network.path(&format!("hosts/{name}/daemon.toml")))
}

fn join_command(network: &Network, invitation: &str, name: &str) -> Command {
    let (identity, config) = places(network, name);
    let mut command = Command::new(binary("roost"));
    command.args(["join", invitation, "--to", &text(&identity), "--config", &text(&config)]);
    command
}

fn join(network: &Network, invitation: &str, name: &str, arguments: &[&str]) -> Output {
    join_command(network, invitation, name).args(arguments).output().unwrap()
}

fn joins(network: &Network, invitation: &str, name: &str, arguments: &[&str]) -> Value {
    let output = join(network, invitation, name, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The one sentence with which a host is refused.
fn refusal(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    said
}

fn start(network: &Network, program: &str, name: &str, arguments: &[&str]) -> Daemon {
    let (identity, config) = places(network, name);
    network.start(program, name, &identity, &[&["--config", &text(&config)], arguments].concat()).ready()
}

#[test]
fn network_grows_by_invitations() {
    let network = Network::new();
    let authority = Authority::start(&network);
    let link = authority.invite(&network, &["--role", "supernode", "--name", "sn1"]);
    joins(&network, &link, "sn1", &[]);
    let hub = start(&network, "supernode", "sn1", &[]);
    network.roost_ok(&["group", "hubs", &network.group(), "set", &hub.endpoint("udp")]);

    let link = authority.invite(&network, &["--role", "node", "--uses", "3"]);
    let nodes = ["uav1", "uav2", "uav3"].map(|name| {
        let joined = joins(&network, &link, name, &["--name", name]);
        assert_eq!(
            (&joined["name"], &joined["role"], &joined["group"]),
            (&name.into(), &"node".into(), &"grove".into())
        );
        assert_eq!(joined["hubs"][0], hub.endpoint("udp"));
        // The hub is in the configuration that the host has got.
        start(&network, "overlay-node", name, &["--at", "1,1", "--services", "sensor"])
    });
    let answer = nodes[2].json(&["request", "sensor", "--from", "uav1"]);
    assert_eq!(answer["summary"]["complete"], true, "{answer:#}");

    let fourth = refusal(&join(&network, &link, "uav4", &["--name", "uav4"]));
    assert!(fourth.contains("used already"), "{fourth}");
    let again = refusal(&join(&network, &link, "uav1", &[]));
    assert!(again.contains("an identity in"), "{again}");
    assert!(authority.process.log().contains("a device has joined"), "{}", authority.process.log());
}

/// The certificate is backdated by five minutes, so two thirds of so short a validity are over at once.
#[test]
fn daemon_renews_its_certificate() {
    let network = Network::new();
    let mut authority = Authority::start(&network);
    let link = authority.invite(&network, &["--role", "supernode", "--name", "sn1", "--certificate", "100s"]);
    let joined = joins(&network, &link, "sn1", &[]);
    authority.process.kill();
    let hub = start(&network, "supernode", "sn1", &[]);
    let failing = |status: &Value| status["authority_failing_since_unix_s"].as_u64();
    hub.wait_for("it does not tell that the authority is away", failing);
    assert!(hub.metric("roost_authority_failing_since_seconds ", "") > 0.0);
    let screen = String::from_utf8(hub.roost(&["status"]).stdout).unwrap();
    assert!(screen.contains("cannot be renewed since"), "{screen}");
    let address = authority.address.clone();
    let _authority = Authority::start_at(&network, &address, |_| ());
    let first = joined["not_after_unix_s"].as_u64().unwrap();
    let renewed = |status: &Value| status["certificate_not_after_unix_s"].as_u64().filter(|until| *until > first);
    let until = wait_until(PATIENCE * 2, || renewed(&hub.status()?)).unwrap_or_else(|| panic!("{}", hub.log()));
    assert_eq!(hub.metric("roost_certificate_not_after_seconds ", ""), until as f64);
    assert_eq!(failing(&hub.status().unwrap()), None);
    network.roost_ok(&["group", "verify", &network.group(), &text(&places(&network, "sn1").0)]);
}

#[test]
fn operator_approves_a_waiting_host() {
    let network = Network::new();
    let authority = Authority::start(&network);
    let link = authority.invite(&network, &["--role", "node", "--name", "uav7", "--approve"]);
    let log = network.path("join.log");
    let mut joining = Process::start(join_command(&network, &link, "uav7"), log).unwrap();
    let requests = || -> Value {
        let listed = network.roost_ok(&["group", "requests", &network.group(), "--json"]);
        serde_json::from_str(&listed).unwrap()
    };
    let waiting = wait_until(PATIENCE, || requests()["requests"].get(0).cloned()).unwrap();
    let words = waiting["words"].as_str().unwrap();
    let said = wait_until(PATIENCE, || joining.log().contains(words).then_some(()));
    assert!(said.is_some(), "{}", joining.log());
    network.roost_ok(&["group", "approve", &network.group(), "uav7"]);
    assert_eq!(joining.wait(PATIENCE), Some(0), "{}", joining.log());
    network.roost_ok(&["group", "verify", &network.group(), &text(&places(&network, "uav7").0)]);

    let link = authority.invite(&network, &["--role", "node", "--name", "uav8", "--approve"]);
    let mut joining = Process::start(join_command(&network, &link, "uav8"), network.path("denied.log")).unwrap();
    wait_until(PATIENCE, || requests()["requests"].get(0).cloned()).unwrap();
    network.roost_ok(&["group", "deny", &network.group(), "uav8"]);
    assert_eq!(joining.wait(PATIENCE), Some(5), "{}", joining.log());
    assert!(joining.log().contains("denied"), "{}", joining.log());
}

#[test]
fn host_joins_by_file() {
    let network = Network::new();
    let (identity, _) = places(&network, "uav7");
    let [request, bundle] = ["uav7.req", "uav7.bundle"].map(|name| text(&network.path(name)));
    let made = ["identity", "request", "--name", "uav7", "--role", "node", "--to", &text(&identity)];
    fs::write(&request, network.roost_ok(&made)).unwrap();
    let early = refusal(&join(&network, &request, "uav7", &[]));
    assert!(early.contains("is not what roost group sign wrote"), "{early}");
    fs::write(&bundle, network.roost_ok(&["group", "sign", &network.group(), &request])).unwrap();
    let elsewhere = refusal(&join(&network, &bundle, "thief", &[]));
    assert!(elsewhere.contains("no key"), "{elsewhere}");
    let joined = joins(&network, &bundle, "uav7", &[]);
    assert_eq!(joined["name"], "uav7");
    assert!(identity.join("multicast.key").exists());
}

#[test]
fn host_waits_for_an_authority() {
    let network = Network::new();
    let port = format!("127.0.0.1:{}", free_port());
    let arguments = ["group", "invite", &network.group(), "--role", "node", "--name", "uav7", "--authority", &port];
    let link = network.roost_ok(&arguments).trim().to_owned();
    let failed = refusal(&join(&network, &link, "uav7", &["--timeout", "100ms"]));
    assert!(failed.contains("cannot be reached"), "{failed}");
    let mut joining = Process::start(join_command(&network, &link, "uav7"), network.path("join.log")).unwrap();
    let tries = wait_until(PATIENCE, || joining.log().contains("trying again").then_some(()));
    assert!(tries.is_some(), "{}", joining.log());
    let _authority = Authority::start_at(&network, &port, |_| ());
    assert_eq!(joining.wait(PATIENCE), Some(0), "{}", joining.log());
}

#[test]
fn failed_join_spares_the_invitation() {
    let (network, other) = (Network::new(), Network::new());
    let authority = Authority::start(&network);
    let link = authority.invite(&network, &["--role", "node", "--name", "uav7"]);
    // Nobody can make a folder below a file, not even root.
    fs::write(network.path("file"), "").unwrap();
    let to = text(&network.path("file/identity"));
    let unwritable = refusal(&run("roost", &["join", &link, "--to", &to]));
    assert!(unwritable.contains("cannot write"), "{unwritable}");
    for (arguments, words) in [
        (&["--role", "supernode"][..], "is for the role node"),
        (&["--name", "uav8"], "is for uav7"),
        (&["--owner", "nobody-of-this-name"], "no user"),
    ] {
        let said = refusal(&join(&network, &link, "uav7", arguments));
        assert!(said.contains(words), "{said}");
    }
    let cut = refusal(&join(&network, &link[..link.len() - 5], "uav7", &[]));
    assert!(cut.contains("is not an invitation"), "{cut}");
    // The address of this authority with another group's fingerprint, and the other way round.
    let foreign = Authority::start(&other);
    let of_other = foreign.invite(&other, &["--role", "node"]).replace(&foreign.address, &authority.address);
    let pinned = refusal(&join(&network, &of_other, "uav7", &[]));
    assert!(pinned.contains("is not this group's authority"), "{pinned}");
    assert!(!places(&network, "uav7").0.exists());
    assert_eq!(joins(&network, &link, "uav7", &[])["name"], "uav7");
}

#[test]
fn sealed_group_serves_with_a_credential() {
    let network = Network::new();
    let (credentials, group) = (network.path("credentials"), network.group());
    fs::create_dir(&credentials).unwrap();
    let passphrase = credentials.join("group-passphrase");
    fs::write(&passphrase, "correct horse\n").unwrap();
    let file = ["--passphrase-file", &text(&passphrase)];
    network.roost_ok(&[&["group", "seal", &group], &file[..]].concat());
    let sealed = refusal(&run("roost", &["group", "issue", &group, "a", "--role", "node"]));
    assert!(sealed.contains("--passphrase-file"), "{sealed}");
    network.roost_ok(&[&["group", "issue", &group, "a", "--role", "node"], &file[..]].concat());
    let authority = Authority::start_at(&network, "127.0.0.1:0", |command| {
        command.env("CREDENTIALS_DIRECTORY", &credentials);
    });
    // Neither an invitation nor a list needs the key.
    joins(&network, &authority.invite(&network, &["--role", "node"]), "uav7", &["--name", "uav7"]);
    assert!(network.roost_ok(&["group", "show", &group]).contains("uav7"));
    fs::write(&passphrase, "wrong horse").unwrap();
    let wrong = refusal(&run("roost", &[&["group", "unseal", &group], &file[..]].concat()));
    assert!(wrong.contains("does not open"), "{wrong}");
}
