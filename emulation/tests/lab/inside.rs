//! What is checked in a sandbox.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Command, ExitCode};
use std::time::Duration;

use roost_emulation::lab::sandbox::{self, Entry};
use roost_emulation::lab::{Lab, Options};
use roost_emulation::scenario::topology::HostIndex;

use crate::topologies;

/// Enters a sandbox and does what `name` stands for.
pub(crate) fn run(name: &str, _rest: &[&str]) -> ExitCode {
    match sandbox::enter() {
        Ok(Entry::Inside) => {}
        Ok(Entry::Done(code)) => return code,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(3);
        }
    }
    let Some((_, test)) = crate::INSIDE.iter().find(|(known, _)| *known == name) else { return ExitCode::from(2) };
    test();
    ExitCode::SUCCESS
}

pub(crate) fn a_ping_over_a_link_takes_its_delay_twice() {
    let mut topology = topologies::hosts(&["near", "far"]);
    topologies::link(&mut topology, [0, 1], Duration::from_millis(10));
    let lab = Lab::start(&topology, &Options::default()).unwrap();
    let rtt = ping(&lab, 0, &lab.address(1).unwrap().to_string());
    assert!((20.0..40.0).contains(&rtt), "{rtt} ms");
}

/// The shortest of three round-trip times, in milliseconds.
fn ping(lab: &Lab, from: HostIndex, to: &str) -> f64 {
    let output = lab.run_in(from, || Command::new("ping").args(["-n", "-c3", "-i0.2", "-W2", to]).output().unwrap());
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let times = text.split("time=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    times.min_by(f64::total_cmp).unwrap_or_else(|| panic!("no answer: {text}"))
}

pub(crate) fn a_group_reaches_the_other_members_of_a_lan() {
    let lab = Lab::start(&topologies::star(3), &Options::default()).unwrap();
    let group: SocketAddrV4 = "239.2.3.1:6969".parse().unwrap();
    let listen = |host| {
        lab.run_in(host, || {
            let socket = UdpSocket::bind(group).unwrap();
            socket.join_multicast_v4(group.ip(), &Ipv4Addr::UNSPECIFIED).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            socket
        })
    };
    let sockets = [listen(1).unwrap(), listen(2).unwrap()];
    lab.run_in(0, || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"here", group).unwrap()).unwrap();
    for socket in sockets {
        let mut bytes = [0; 16];
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..length], from.ip()), (&b"here"[..], lab.address(0).unwrap().into()));
    }
}
