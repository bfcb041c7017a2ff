//! Tests that run in a sandbox.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use roost_lab::sandbox::{self, SandboxEntry};
use roost_lab::{DeviceBackend, Lab, LabOptions, TcpCongestion, Usage};
use roost_topology::Topology;
use roost_topology::model::HostIndex;
use roost_wait::wait_until;

use crate::topologies;

/// Enters a sandbox and runs the test or helper `name` there.
pub(crate) fn run(name: &str, arguments: &[&str]) -> ExitCode {
    match sandbox::enter() {
        Ok(SandboxEntry::Inside) => {}
        Ok(SandboxEntry::Done(code)) => return code,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(3);
        }
    }
    match (crate::INSIDE.iter().find(|(known, _)| *known == name), name, arguments) {
        (Some((_, test)), ..) => test(),
        (None, "exit", [code]) => return ExitCode::from(code.parse::<u8>().unwrap()),
        (None, "hold", []) => hold(),
        (None, "keys", []) => keys(),
        (None, "listen", []) => listen(),
        (None, "where", []) => println!("child of {}", std::os::unix::process::parent_id()),
        (None, "read", []) => read_a_line(),
        (None, "star", [hosts]) => drop(start(&topologies::star(hosts.parse().unwrap()))),
        _ => panic!("there is no `{name}`"),
    }
    ExitCode::SUCCESS
}

/// Prints `ready` when a lab runs with a program in each host, and waits for its end.
#[expect(clippy::zombie_processes, reason = "they are to be killed with it")]
fn hold() {
    let lab = start(&topologies::star(4));
    for host in 0..4 {
        lab.run_in(host, || Command::new("sleep").arg("1000").spawn().unwrap()).unwrap();
    }
    println!("ready");
    loop {
        thread::park();
    }
}

/// Becomes `sh` with a script that prints each interrupt.
fn keys() {
    let line = "trap 'echo got it' INT; echo ready; sleep 2; sleep 1; echo end";
    panic!("{}", Command::new("sh").args(["-c", line]).exec());
}

fn read_a_line() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("told {}", line.trim());
}

pub(crate) fn ping_takes_twice_link_delay() {
    let mut topology = topologies::hosts(&["near", "far"]);
    topologies::link(&mut topology, [0, 1], Duration::from_millis(10));
    let lab = start(&topology);
    let rtt = ping(&lab, 0, &lab.address(1).unwrap().to_string());
    assert!(rtt >= 20.0, "{rtt} ms");
}

pub(crate) fn routers_forward_packets() {
    let mut topology = topologies::hosts(&["a", "b", "c", "d"]);
    for ends in [[0, 1], [1, 2], [2, 3]] {
        topologies::link(&mut topology, ends, Duration::from_millis(5));
    }
    let lab = start(&topology);
    let rtt = ping(&lab, 0, "d");
    assert!(rtt >= 30.0, "{rtt} ms");
    let counted = packets(&lab, "net1");
    assert!(counted >= 6, "three requests and three answers crossed the link in the middle: {counted}");
}

pub(crate) fn host_answers_on_each_interface() {
    let mut topology = topologies::hosts(&["one", "two"]);
    topologies::lan(&mut topology, &[0, 1], Duration::from_millis(2));
    topologies::link(&mut topology, [0, 1], Duration::from_millis(20));
    let lab = start(&topology);
    let fast = ping(&lab, 0, "two-net0");
    assert!(fast >= 4.0 && packets(&lab, "net0") >= 6 && packets(&lab, "net1") == 0, "{fast} ms, one way only");
    let slow = ping(&lab, 0, "two-net1");
    assert!(slow >= 40.0 && packets(&lab, "net1") >= 6, "{slow} ms");
    // Packets that leave by one interface may carry the other's address.
    let other_source = ["-n", "-c1", "-W5", "-I", "10.1.2.2", "10.1.1.3"];
    assert!(lab.run_in(0, || Command::new("ping").args(other_source).output().unwrap()).unwrap().status.success());
}

pub(crate) fn hosts_have_one_congestion_control() {
    let mut topology = topologies::hosts(&["near", "far"]);
    topologies::link(&mut topology, [0, 1], Duration::ZERO);
    let start = |tcp| Lab::start(&topology, &LabOptions { tcp, ..LabOptions::default() });
    let seen = |lab: &Lab, host| {
        let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
        lab.run_in(host, read).unwrap().trim().to_owned()
    };
    // Reno is in every kernel, and any namespace may use it.
    let lab = start(TcpCongestion::Named("reno".to_owned())).unwrap();
    assert_eq!((seen(&lab, 0), seen(&lab, 1), lab.facts()["tcp"].as_str()), ("reno".into(), "reno".into(), "reno"));
    let lab = start(TcpCongestion::Cubic).unwrap();
    let (has, fact) = (seen(&lab, 1), &lab.facts()["tcp"]);
    match lab.warnings() {
        [] => assert_eq!(has, "cubic"),
        [warning] => assert!(has == "reno" && warning.contains("tcp_allowed_congestion_control"), "{has}: {warning}"),
        more => panic!("{more:?}"),
    }
    assert!(fact.starts_with(&has), "{has}: {fact}");
    let error = start(TcpCongestion::Named("nonesuch".to_owned())).unwrap_err();
    assert!(error.is_of_the_system() && error.to_string().contains("congestion control nonesuch"), "{error}");
}

pub(crate) fn hosts_resolve_each_other_by_name() {
    let mut topology = topologies::hosts(&["near", "far"]);
    // Many systems have a line with their own name; only this sandbox sees the mount.
    let mut own = tempfile::NamedTempFile::new().unwrap();
    own.write_all(b"127.0.0.1 localhost\n127.0.1.1 far\n").unwrap();
    let own = own.into_temp_path();
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert!(
        Command::new("mount").arg("--bind").args([own.as_os_str(), "/etc/hosts".as_ref()]).status().unwrap().success()
    );
    topologies::link(&mut topology, [0, 1], Duration::ZERO);
    let lab = start(&topology);
    let far = lab.run_in(0, || Command::new("getent").args(["ahostsv4", "far"]).output().unwrap()).unwrap();
    let far = String::from_utf8(far.stdout).unwrap();
    assert!(far.starts_with("10.1.1.3 "), "the machine's own `far` comes after the lab's: {far}");
    let name = lab.run_in(1, || Command::new("uname").arg("-n").output().unwrap()).unwrap();
    assert_eq!(name.stdout, b"far\n");
    let unknown = lab.run_in(0, || Command::new("getent").args(["hosts", "nobody.example"]).status().unwrap()).unwrap();
    assert_eq!(unknown.code(), Some(2), "of others nothing is known");
    drop(lab);
    assert!(!std::fs::read_to_string("/etc/hosts").unwrap().contains("10.1.1.3"));
}

pub(crate) fn outside_resolvers_are_not_asked() {
    // Only this sandbox sees the mounts.
    let switch = tempfile::tempdir().unwrap();
    let text = "passwd: files\nhosts: mymachines resolve files dns\n";
    std::fs::write(switch.path().join("nsswitch.conf"), text).unwrap();
    let script = "mount -t tmpfs none /run && mkdir /run/nscd && touch /run/nscd/socket && touch -a /etc/nsswitch.conf; \
                  mount --bind \"$0\"/nsswitch.conf /etc/nsswitch.conf";
    assert!(Command::new("sh").args(["-c", script]).arg(switch.path()).status().unwrap().success());
    let lab = start(&topologies::star(2));
    let look = || (std::fs::read_to_string("/etc/nsswitch.conf").unwrap(), Path::new("/run/nscd/socket").exists());
    assert_eq!(lab.run_in(0, look).unwrap(), ("passwd: files\nhosts: files\n".to_owned(), false));
    drop(lab);
    assert_eq!(look(), (text.to_owned(), true));
}

pub(crate) fn multicast_reaches_other_lan_members() {
    for backend in backends() {
        // No packet is lost at the start either.
        let lab = Lab::start(&topologies::star(3), &LabOptions { backend, ..LabOptions::default() }).unwrap();
        let group: SocketAddrV4 = "239.2.3.1:6969".parse().unwrap();
        let sockets = [1, 2].map(|host| lab.run_in(host, || member_of(group)).unwrap());
        lab.run_in(0, || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"here", group).unwrap()).unwrap();
        for socket in sockets {
            let mut bytes = [0; 16];
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            assert_eq!((&bytes[..length], from.ip()), (&b"here"[..], lab.address(0).unwrap().into()), "{backend}");
        }
    }
}

fn member_of(group: SocketAddrV4) -> UdpSocket {
    let socket = UdpSocket::bind(group).unwrap();
    socket.join_multicast_v4(group.ip(), &Ipv4Addr::UNSPECIFIED).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

pub(crate) fn tcp_stream_is_complete_per_backend() {
    const BYTES: usize = 4_000_000;
    let mut topology = topologies::hosts(&["near", "far"]);
    topologies::link(&mut topology, [0, 1], Duration::from_millis(1));
    for backend in backends() {
        let lab = Lab::start(&topology, &LabOptions { backend, ..LabOptions::default() }).unwrap();
        let listener = lab.run_in(1, || TcpListener::bind("0.0.0.0:7000").unwrap()).unwrap();
        let target = (lab.address(1).unwrap(), 7000);
        let mut sender = lab.run_in(0, || TcpStream::connect(target).unwrap()).unwrap();
        let sent: Vec<u8> = (0..BYTES).map(|at| (at * at % 251) as u8).collect();
        let mut received = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| sender.write_all(&sent).and_then(|()| sender.shutdown(std::net::Shutdown::Both)).unwrap());
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        });
        assert!(received == sent, "{backend}: {} of {BYTES} bytes", received.len());
        // Frames longer than the limit would be counted here.
        assert!(lab.wires().iter().all(|wire| wire.malformed == 0), "{backend}: {:?}", lab.wires());
    }
}

pub(crate) fn missing_tap_falls_back_to_veth() {
    // Only this sandbox sees the mount.
    if Path::new("/dev/net/tun").exists() {
        let hidden = Command::new("mount").args(["--bind", "/dev/null", "/dev/net/tun"]).status().unwrap();
        assert!(hidden.success());
    }
    let lab = start(&topologies::star(2));
    assert_eq!(lab.facts()["backend"], "veth");
    assert!(lab.facts()["receive_buffer"].ends_with(" bytes"), "{:?}", lab.facts());
    ping(&lab, 0, "host1");
    let error = Lab::start(&topologies::star(2), &LabOptions { backend: DeviceBackend::Tap, ..LabOptions::default() })
        .unwrap_err();
    assert!(error.is_of_the_system() && error.to_string().starts_with("/dev/net/tun does not open"), "{error}");
}

pub(crate) fn down_interface_losses_are_not_overruns() {
    for backend in backends() {
        let lab = Lab::start(&topologies::star(2), &LabOptions { backend, ..LabOptions::default() }).unwrap();
        lab.run_in(1, || Command::new("ip").args(["link", "set", "eth0", "down"]).status().unwrap()).unwrap();
        let target = (lab.address(1).unwrap(), 7);
        let socket = lab.run_in(0, || UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        let fate = || lab.wires()[1];
        let until = |is_so: &mut dyn FnMut() -> bool| {
            let holds = wait_until(Duration::from_secs(20), || is_so().then_some(()));
            assert!(holds.is_some(), "{backend}: {:?}", lab.wires());
        };
        // The kernel needs a moment to inform the other end of a veth pair.
        until(&mut || {
            socket.send_to(b"nobody is there", target).unwrap();
            fate().undeliverable > 0
        });
        let under_way = || lab.counters().unwrap().iter().any(|link| link.in_flight > 0);
        until(&mut || !under_way());
        let before = (fate(), lab.overruns().unwrap());
        for _ in 0..5 {
            socket.send_to(b"nobody is there", target).unwrap();
        }
        until(&mut || !under_way() && fate().undeliverable >= before.0.undeliverable + 5);
        assert_eq!((fate().written, lab.overruns().unwrap()), (before.0.written, before.1), "{backend}");
    }
}

/// Tests that a run ignores a hang-up that this process was told to ignore.
fn listen() {
    let _interrupt = roost_lab::Interrupt::listen().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    assert_eq!(u64::from_str_radix(caught.trim(), 16).unwrap() & 1, 0, "SIGHUP is caught");
}

pub(crate) fn hundred_hosts_start() {
    for backend in backends() {
        let lab = Lab::start(&topologies::star(100), &LabOptions { backend, ..LabOptions::default() }).unwrap();
        ping(&lab, 0, "host99");
        ping(&lab, 57, "host3");
        let sleeper = lab.run_in(42, || Command::new("sleep").arg("1000").spawn().unwrap());
        let mut sleeper = sleeper.unwrap();
        assert!(Usage::read_process(sleeper.id()).unwrap().peak_memory_bytes > 0);
        sleeper.kill().and_then(|()| sleeper.wait()).unwrap();
        lab.stop(Duration::ZERO).unwrap();
    }
}

/// Longer than a kernel takes to announce its new interfaces.
const SILENCE: Duration = Duration::from_secs(2);

pub(crate) fn idle_hosts_send_nothing() {
    for backend in backends() {
        let lab = Lab::start(&topologies::star(20), &LabOptions { backend, ..LabOptions::default() }).unwrap();
        thread::sleep(SILENCE);
        let sent: u64 = lab.counters().unwrap().iter().map(|link| link.packets_in).sum();
        let read: u64 = lab.wires().iter().map(|wire| wire.read).sum();
        assert_eq!((sent, read), (0, 0), "{backend}");
        // Any activity must be visible.
        ping(&lab, 0, "host1");
        assert!(packets(&lab, "net0") >= 6 && lab.wires()[0].read >= 3, "{backend}: {:?}", lab.wires()[0]);
    }
}

pub(crate) fn interfaces_end_with_their_namespace() {
    // Interfaces that end one by one would take 20 ms each.
    for backend in backends() {
        let lab = Lab::start(&topologies::star(2), &LabOptions { backend, ..LabOptions::default() }).unwrap();
        let mut later = Command::new("sh");
        later.args(["-c", "read line; cat /proc/net/dev"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let later = lab.run_in(0, || later.spawn().unwrap()).unwrap();
        lab.stop(Duration::ZERO).unwrap();
        let devices = later.wait_with_output().unwrap().stdout;
        assert!(String::from_utf8_lossy(&devices).contains("eth0"), "{backend}");
    }
}

pub(crate) fn one_lab_follows_another() {
    for _ in 0..3 {
        for backend in backends() {
            let lab = Lab::start(&topologies::star(3), &LabOptions { backend, ..LabOptions::default() }).unwrap();
            ping(&lab, 2, "host1");
        }
    }
}

fn start(topology: &Topology) -> Lab {
    Lab::start(topology, &LabOptions::default()).unwrap()
}

/// Packets that hosts have sent into a link or LAN.
fn packets(lab: &Lab, net: &str) -> u64 {
    lab.counters().unwrap().iter().filter(|link| link.link == net).map(|link| link.packets_in).sum()
}

/// Both kinds, where TAP devices exist.
fn backends() -> impl Iterator<Item = DeviceBackend> {
    let tap = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tap.ok().map(|_| DeviceBackend::Tap).into_iter().chain([DeviceBackend::Veth])
}

/// The shortest of three round-trip times, in milliseconds.
fn ping(lab: &Lab, from: HostIndex, to: &str) -> f64 {
    let output = lab.run_in(from, || Command::new("ping").args(["-c3", "-i0.2", "-W5", to]).output().unwrap()).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let times = text.split("time=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    times.min_by(f64::total_cmp).unwrap_or_else(|| panic!("no answer: {text}"))
}
