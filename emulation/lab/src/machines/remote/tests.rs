//! Tests of a conversation with an agent.

use super::*;
use crate::machines::protocol::{Hello, SpawnCall};

/// A machine, and the agent's end of the conversation.
fn greeted() -> (RemoteMachine, UnixStream) {
    let (machine, there) = greet([10, 0, 0, 2].into());
    (machine.unwrap(), there)
}

fn greet(address: IpAddr) -> (Result<RemoteMachine, LabError>, UnixStream) {
    let (here, mut there) = UnixStream::pair().unwrap();
    let hello = Hello { protocol: PROTOCOL, version: "1".to_owned(), port: 7, address: None };
    Packet::write(&Message::Hello(hello), &[], &mut there).unwrap();
    (RemoteMachine::greet("b", here, Some(address), "1"), there)
}

#[test]
fn machine_of_ipv6_is_refused() {
    let error = greet(std::net::Ipv6Addr::LOCALHOST.into()).0.unwrap_err().to_string();
    assert!(error.contains("go over IPv4") && error.contains("::1"), "{error}");
}

#[test]
fn machine_that_reads_nothing_ends() {
    let (machine, _there) = greeted();
    let pending = machine.send(AgentCall::Observe, &[]).unwrap();
    machine.link.reader.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
    let put = || AgentCall::Put { path: "x".into() };
    let error = machine.send(put(), &vec![0; 8 << 20]).map(|pending| pending.id).unwrap_err().to_string();
    assert!(error.contains("takes no messages any more"), "{error}");
    assert!(pending.wait(ANSWER).unwrap_err().to_string().contains("takes no messages"));
    assert!(machine.send(AgentCall::Observe, &[]).is_err());
}

#[test]
fn machine_that_never_answers_ends() {
    let (machine, _there) = greeted();
    let error = machine.send(AgentCall::Observe, &[]).unwrap().wait(Duration::from_millis(1)).unwrap_err();
    assert!(error.to_string().contains("does not answer any more"), "{error}");
    assert!(machine.send(AgentCall::Observe, &[]).is_err(), "nobody waits again");
}

#[test]
fn full_queue_ends_connection_alone() {
    let (machine, _there) = greeted();
    let link = &machine.link;
    let ((connection, _slow), (log, _slow_too)) = (byte_queue(), byte_queue());
    lock(&link.streams).extend([(1, RemoteStream::Connection(connection)), (2, RemoteStream::Log(log))]);
    for _ in 0..3 {
        [1, 2].into_iter().for_each(|id| link.hand_over(id, vec![0; 6 << 20]));
    }
    assert_eq!(machine.overflows(), 2, "each third one");
    assert_eq!(lock(&link.streams).keys().copied().collect::<Vec<u64>>(), [2], "a log goes on after a gap");
}

#[test]
fn full_disk_is_reported() {
    let (machine, mut there) = greeted();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (command, mut heard) =
        (SpawnCall { host: 0, program: "x".into(), args: Vec::new(), socket: "s".into() }, there.try_clone().unwrap());
    let agent = thread::spawn(move || {
        loop {
            if let Message::Call { id, .. } = Packet::read(&mut heard).unwrap().unwrap().message {
                Packet::write(&Message::Data { id }, b"a message", &mut there).unwrap();
                Packet::write(&Message::Answer { id, answer: Ok(Answer::Done) }, &[], &mut there).unwrap();
                return (there, heard);
            }
        }
    });
    let _process = machine.spawn(AgentCall::Spawn(command), full).unwrap();
    let _there = agent.join().unwrap();
    roost_wait::wait_until(ANSWER, || machine.unwritten().map(drop)).expect("nobody is told");
    assert_eq!(machine.overflows(), 0);
}

#[test]
fn waiting_calls_end_at_give_up() {
    let (machine, there) = greeted();
    let pending = machine.send(AgentCall::Observe, &[]).unwrap();
    machine.give_up("interrupted");
    assert!(pending.wait(ANSWER).unwrap_err().to_string().contains("interrupted"));
    let mut said = Vec::new();
    (&there).read_to_end(&mut said).unwrap();
    assert!(!said.is_empty(), "the call, and then the end");
}

#[test]
fn remote_program_has_observed_usage() {
    let (machine, _there) = greeted();
    let process = RemoteProcess { id: 5, link: Arc::clone(&machine.link) };
    assert_eq!(process.usage(), None);
    let usage = Usage { waited: Duration::from_millis(3), ..Usage::default() };
    machine.keep_usages(&[(5, usage)].into());
    assert_eq!(process.usage(), Some(usage));
    // Nobody answers, and nobody waits.
    process.signal(libc::SIGTERM);
}
