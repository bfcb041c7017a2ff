//! Two ends of a connection, and lines between them on which streams arrive late but whole, as those of QUIC do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::*;

/// A path: bytes per second, delay one way and its jitter, the number of chunks in a thousand that lose a packet, and
/// the times in which it carries nothing.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) rate: f64,
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
    pub(super) loss: u64,
    pub(super) down: Vec<(Duration, Duration)>,
    /// A later delay, with the time from which it applies.
    pub(super) then: Option<(Duration, Duration)>,
}

impl Line {
    pub(super) fn new(mbit_s: f64, delay_ms: f64) -> Self {
        let (rate, delay) = (mbit_s * 125_000.0, Duration::from_secs_f64(delay_ms / 1e3));
        Self { rate, delay, jitter: Duration::ZERO, loss: 0, down: Vec::new(), then: None }
    }

    pub(super) fn jitter(mut self, ms: f64) -> Self {
        self.jitter = Duration::from_secs_f64(ms / 1e3);
        self
    }

    pub(super) fn down(mut self, from_ms: u64, to_ms: u64) -> Self {
        self.down.push((Duration::from_millis(from_ms), Duration::from_millis(to_ms)));
        self
    }

    pub(super) fn then(mut self, from_ms: u64, delay_ms: u64) -> Self {
        self.then = Some((Duration::from_millis(from_ms), Duration::from_millis(delay_ms)));
        self
    }

    pub(super) fn lossy(mut self, per_mille: u64) -> Self {
        self.loss = per_mille;
        self
    }

    fn delay(&self, at: Duration) -> Duration {
        self.then.filter(|(from, _)| at >= *from).map_or(self.delay, |(_, delay)| delay)
    }

    fn rtt(&self, at: Duration) -> Duration {
        2 * self.delay(at) + Duration::from_micros(200)
    }

    /// The arrival time of a chunk sent at `at`. If the line is down on the way, it is sent again when the line is up.
    fn passed(&self, at: Duration) -> Duration {
        let arrives = at + self.delay(at);
        let cut = self.down.iter().find(|(from, to)| at < *to && arrives >= *from);
        cut.map_or(arrives, |(_, to)| *to + self.rtt(at) + self.delay(at))
    }
}

enum Happens {
    Arrives { copy: CopyId, content: Bytes },
    Acknowledged { copy: CopyId },
}

pub(super) struct MultipathHarness {
    pub(super) sender: MultipathConnection,
    pub(super) receiver: MultipathConnection,
    origin: Instant,
    pub(super) now: Duration,
    lines: Vec<Line>,
    busy: Vec<Duration>,
    events: BTreeMap<(Duration, u64), (PathId, Happens)>,
    cancelled: BTreeSet<CopyId>,
    pub(super) delivered: VecDeque<(Duration, Bytes)>,
    pub(super) path_events: Vec<(Duration, PathEvent)>,
    pub(super) sent: Vec<usize>,
    pub(super) transmissions: usize,
    /// True if the first chunk is never acknowledged. `withheld` is that chunk.
    pub(super) withholds: bool,
    withheld: Option<Bytes>,
    random: u64,
    counter: u64,
}

impl MultipathHarness {
    pub(super) fn new(lines: Vec<Line>) -> Self {
        let origin = Instant::now();
        let count = lines.len();
        let mut world = Self {
            sender: MultipathConnection::new(128 << 20),
            receiver: MultipathConnection::new(0),
            origin,
            now: Duration::ZERO,
            lines,
            busy: vec![Duration::ZERO; count],
            events: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            delivered: VecDeque::new(),
            path_events: Vec::new(),
            sent: vec![0; count],
            transmissions: 0,
            withholds: false,
            withheld: None,
            random: 1,
            counter: 0,
        };
        for path in 0..count {
            let measured = world.greeted(path);
            world.sender.add_path(origin, PathId(path as u32), path as u8, measured);
        }
        world
    }

    /// The measurements after the handshake, which carried a packet of 1200 bytes each way. The window is the initial
    /// one of a congestion control.
    fn greeted(&self, path: usize) -> PathMetrics {
        let rtt = self.measured(path).rtt + Duration::from_secs_f64(2400.0 / self.lines[path].rate);
        PathMetrics { rtt, window: 32 * 1200 }
    }

    fn measured(&self, path: usize) -> PathMetrics {
        let line = &self.lines[path];
        let waits = self.busy[path].saturating_sub(self.now);
        // A congestion control would settle at this window: the line and a queue of 12 ms.
        let window = line.rate * (line.rtt(self.now).as_secs_f64() + 0.012);
        PathMetrics { rtt: line.rtt(self.now) + waits, window: window as u64 + 15_000 }
    }

    pub(super) fn at(&self) -> Instant {
        self.origin + self.now
    }

    pub(super) fn send(&mut self, message: Message) {
        assert!(self.sender.send(self.at(), message));
        self.drain_outputs();
    }

    /// Adds a removed path again, as a new one.
    pub(super) fn add_again(&mut self, path: usize) {
        let (at, measured) = (self.at(), self.greeted(path));
        self.lines.push(self.lines[path].clone());
        self.busy.push(Duration::ZERO);
        self.sent.push(0);
        self.sender.add_path(at, PathId(self.lines.len() as u32 - 1), path as u8, measured);
        self.drain_outputs();
    }

    pub(super) fn remove_path(&mut self, path: u32) {
        let at = self.at();
        self.sender.remove_path(at, PathId(path));
        // Chunks that had not arrived are lost with the path's connection.
        self.events.retain(|_, (of, _)| *of != PathId(path));
        self.drain_outputs();
    }

    pub(super) fn run_until(&mut self, end: Duration) {
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let deadline = self.sender.deadline().map(|at| at.saturating_duration_since(self.origin).max(self.now));
            let Some(next) = [event, deadline].into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now = next;
            if event == Some(next) {
                if let Some((_, (path, happens))) = self.events.pop_first() {
                    self.happen(path, happens);
                }
            } else {
                let at = self.at();
                self.sender.handle_timeout(at);
            }
            self.drain_outputs();
        }
        self.now = end;
    }

    /// Runs until nothing is under way. Fails after ten minutes.
    pub(super) fn run_to_idle(&mut self) {
        let end = self.now + Duration::from_secs(600);
        while !self.sender.is_idle() {
            assert!(self.now < end, "it never becomes idle: {:?}", self.sender);
            self.run_until(self.now + Duration::from_millis(10));
        }
    }

    fn happen(&mut self, path: PathId, happens: Happens) {
        match happens {
            Happens::Arrives { copy, content } => {
                if self.cancelled.remove(&copy) {
                    return;
                }
                self.receiver.handle_chunk(&content).expect("a sound chunk");
                while let Some(message) = self.receiver.poll_message() {
                    self.delivered.push_back((self.now, message));
                }
                if self.withheld.as_ref() == Some(&content) {
                    return;
                }
                let back = self.lines[path.0 as usize].passed(self.now);
                self.schedule(back, path, Happens::Acknowledged { copy });
            }
            Happens::Acknowledged { copy } => {
                let (at, measured) = (self.at(), self.measured(path.0 as usize));
                self.sender.handle_acknowledgement(at, copy, measured);
            }
        }
    }

    fn schedule(&mut self, at: Duration, path: PathId, happens: Happens) {
        self.counter += 1;
        self.events.insert((at, self.counter), (path, happens));
    }

    fn drain_outputs(&mut self) {
        while let Some(event) = self.sender.poll_event() {
            self.path_events.push((self.now, event));
        }
        while let Some(action) = self.sender.poll_action() {
            match action {
                Action::Transmit { path, copy, content, .. } => self.transmit(path, copy, &content.concat()),
                Action::Cancel { copy, .. } => {
                    self.cancelled.insert(copy);
                }
                Action::Probe { .. } => {}
            }
        }
    }

    fn transmit(&mut self, path: PathId, copy: CopyId, content: &[u8]) {
        let index = path.0 as usize;
        let bytes = content.len() + 60;
        self.sent[index] += bytes;
        self.transmissions += 1;
        if self.withholds && content.len() > 1 {
            self.withheld.get_or_insert_with(|| Bytes::copy_from_slice(content));
        }
        let line = &self.lines[index];
        let left = self.busy[index].max(self.now) + Duration::from_secs_f64(bytes as f64 / line.rate);
        let mut arrives = line.passed(left);
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if (self.random >> 33) % 1000 < line.loss {
            arrives += line.rtt(self.now) + Duration::from_millis(1);
        }
        arrives += line.jitter.mul_f64((self.random >> 40) as f64 / f64::from(1 << 24));
        self.busy[index] = left;
        self.schedule(arrives, path, Happens::Arrives { copy, content: Bytes::copy_from_slice(content) });
    }
}
