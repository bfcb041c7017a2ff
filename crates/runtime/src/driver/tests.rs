//! The loop around a toy machine: it echoes, counts, and rings once.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use roost_wire::{Address, Channel, Delivery, DialId, NodeId, RoleSet, Service};
use tokio::sync::mpsc;

use super::*;
use crate::clock::testing::SettableClock;

/// Answers each message with itself, rings once after 5 ms, and leaves when told.
#[derive(Default)]
struct Echo {
    heard: u32,
    rang: bool,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Said>,
}

#[derive(Debug, PartialEq)]
enum Said {
    Rang,
    Down,
    Broken(u32),
    Slept,
    Left,
}

struct Leave;

impl Machine for Echo {
    type Command = Leave;
    type Event = Said;

    fn handle(&mut self, now: Time, input: Input<Leave>) {
        match input {
            Input::Message { connection, message } => {
                self.heard += 1;
                let channel = Channel::Reliable { flow: 1 };
                let is_data = message.starts_with(b"data");
                self.transmits.push_back(Transmit::Message {
                    connection,
                    channel,
                    delivery: if is_data { Delivery::for_service(Service::Image) } else { Delivery::CONTROL },
                    traffic: Traffic::Lookup,
                    message,
                });
            }
            Input::Multicast { message, .. } => {
                self.transmits.push_back(Transmit::Multicast { traffic: Traffic::Lookup, message });
            }
            Input::Timeout => {
                assert!(now >= ring_at(), "woken too early");
                self.rang = true;
                self.events.push_back(Said::Rang);
            }
            Input::ConnectionDown { .. } => self.events.push_back(Said::Down),
            Input::FlowBroken { flow, .. } => self.events.push_back(Said::Broken(flow)),
            Input::HostSuspended => self.events.push_back(Said::Slept),
            Input::Command(Leave) => {
                let (connection, reason) = (ConnectionId(1), "leaving".to_owned());
                self.transmits.push_back(Transmit::Close { connection, reason });
                self.events.push_back(Said::Left);
            }
            _ => {}
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    fn poll_event(&mut self) -> Option<Said> {
        self.events.pop_front()
    }

    fn poll_deadline(&self) -> Option<Deadline> {
        (!self.rang).then(|| Deadline { at: ring_at(), reason: "ring" })
    }
}

fn ring_at() -> Time {
    Time::ZERO + Duration::from_millis(5)
}

/// Tells the test what the machine says.
struct Teller(mpsc::UnboundedSender<Said>);

impl EventHandler<Echo> for Teller {
    fn handle_event(&mut self, event: Said) -> LoopControl {
        let next = if event == Said::Left { LoopControl::Stop } else { LoopControl::Continue };
        self.0.send(event).unwrap();
        next
    }
}

/// A network in memory; connection 9 is always full.
struct Memory {
    incoming: mpsc::UnboundedReceiver<Event>,
    log: Arc<Mutex<Vec<String>>>,
    unflushed: usize,
}

impl Network for Memory {
    async fn recv_many(&mut self, into: &mut Vec<Event>, max: usize) -> usize {
        let count = self.incoming.recv_many(into, max).await;
        if count == 0 { std::future::pending().await } else { count }
    }

    fn send(&mut self, connection: ConnectionId, _: Channel, _: &Delivery, message: Bytes) -> Result<(), SendError> {
        if connection == ConnectionId(9) {
            return Err(SendError::Full(connection));
        }
        self.unflushed += 1;
        self.log.lock().unwrap().push(format!("send {} {}", connection.0, message.len()));
        Ok(())
    }

    fn multicast(&mut self, message: Bytes) {
        self.log.lock().unwrap().push(format!("multicast {}", message.len()));
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed) > 0 {
            self.log.lock().unwrap().push("flush".to_owned());
        }
    }

    fn dial(&mut self, _: DialId, _: Vec<Address>, _: RoleSet, _: Option<NodeId>) {}

    fn close(&mut self, connection: ConnectionId, reason: String) {
        self.log.lock().unwrap().push(format!("close {} {reason}", connection.0));
    }
}

struct Rig {
    incoming: mpsc::UnboundedSender<Event>,
    said: mpsc::UnboundedReceiver<Said>,
    log: Arc<Mutex<Vec<String>>>,
    mailbox: Mailbox<Echo>,
    stop: CancellationToken,
    traffic: Arc<TrafficBytes>,
    task: tokio::task::JoinHandle<()>,
}

fn rig() -> Rig {
    rig_with(|driver| driver)
}

fn rig_with(change: impl FnOnce(Driver<Echo, Teller, Memory>) -> Driver<Echo, Teller, Memory>) -> Rig {
    let (incoming, receiver) = mpsc::unbounded_channel();
    let (teller, said) = mpsc::unbounded_channel();
    let log = Arc::new(Mutex::default());
    let traffic = Arc::new(TrafficBytes::default());
    let network = Memory { incoming: receiver, log: Arc::clone(&log), unflushed: 0 };
    let (driver, mailbox) = driver(Echo::default(), |_| Teller(teller), network, Arc::clone(&traffic));
    let stop = CancellationToken::new();
    let task = tokio::spawn(change(driver).run(stop.clone(), Leave));
    Rig { incoming, said, log, mailbox, stop, traffic, task }
}

fn message(connection: u64, bytes: &'static [u8]) -> Event {
    Event::Message { connection: ConnectionId(connection), message: Bytes::from_static(bytes) }
}

#[tokio::test]
async fn batch_is_flushed_once() {
    let mut rig = rig();
    for _ in 0..3 {
        rig.incoming.send(message(1, b"four")).unwrap();
    }
    assert_eq!(rig.said.recv().await, Some(Said::Rang));
    assert_eq!(rig.mailbox.inspect(|machine, _| machine.heard).await, Ok(3));
    let log = rig.log.lock().unwrap().clone();
    assert_eq!(log, ["send 1 4", "send 1 4", "send 1 4", "flush"]);
    assert_eq!(rig.traffic.sent(Traffic::Lookup), 12);
}

#[tokio::test]
async fn slow_remote_is_disconnected() {
    let mut rig = rig();
    rig.incoming.send(message(9, b"x")).unwrap();
    assert_eq!(rig.said.recv().await, Some(Said::Down));
    assert!(rig.log.lock().unwrap()[0].starts_with("close 9"));
}

#[tokio::test]
async fn data_without_room_ends_its_flow() {
    let mut rig = rig();
    rig.incoming.send(message(9, b"data")).unwrap();
    assert_eq!(rig.said.recv().await, Some(Said::Broken(1)));
    assert!(!rig.log.lock().unwrap().iter().any(|entry| entry.starts_with("close")));
}

#[tokio::test]
async fn machine_hears_of_suspend() {
    let clock = SettableClock::default();
    let mut rig = rig_with(|driver| driver.with_clock(clock.clone()));
    clock.pass(Duration::from_secs(3_600));
    assert_eq!(rig.said.recv().await, Some(Said::Slept));
    assert_eq!(rig.said.recv().await, Some(Said::Rang), "what was due in suspend is due at once");
}

#[tokio::test]
async fn deadline_counts_suspended_time() {
    let clock = SettableClock::default();
    let mut rig = rig_with(|driver| driver.with_clock(clock.clone()));
    // The clock stands: 5 ms of it never pass.
    assert!(tokio::time::timeout(Duration::from_millis(100), rig.said.recv()).await.is_err());
    clock.pass(Duration::from_millis(5));
    assert_eq!(tokio::time::timeout(2 * LOOK, rig.said.recv()).await, Ok(Some(Said::Rang)));
}

#[tokio::test]
async fn stopping_lets_the_machine_leave() {
    let mut rig = rig();
    rig.stop.cancel();
    rig.task.await.unwrap();
    while rig.said.recv().await.expect("the machine says that it left") != Said::Left {}
    assert_eq!(rig.log.lock().unwrap().last().unwrap(), "close 1 leaving");
    assert_eq!(rig.mailbox.inspect(|_, _| ()).await, Err(DriverStopped));
}
