//! A node that follows a receiver of gpsd, or the orbit of a satellite.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_api::types::Following;
use roost_core::directory::NOWHERE;
use roost_core::node::{Node, NodeCommand, NodePlace};
use roost_geo::{Datum, ExactPosition, Orbit, Place, gpsd};
use roost_runtime::driver::{DriverStopped, Mailbox};
use roost_services::track::gpsd::{Lines, WATCH};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const GPSD: &str = "127.0.0.1:2947";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A receiver reports every second, with a fix or without; after this silence the connection counts as dead.
const SILENCE: Duration = Duration::from_secs(30);
/// Without a fix for so long, others must not take the node to go on as it went.
const HOLD: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The time between two looks at a file of elements, and its size.
const ORBIT_PAUSE: Duration = Duration::from_secs(60);
const MAX_ORBIT_BYTES: u64 = 16 * 1024;

/// The setting `at`, as far as it names something to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceSource {
    Gpsd(String),
    Orbit(PathBuf),
}

/// The state of what is followed, since a time.
#[derive(Debug)]
pub(crate) struct FollowState {
    source: String,
    state: Mutex<(&'static str, SystemTime)>,
}

impl PlaceSource {
    /// `gpsd`, `gpsd:HOST:PORT` or `tle:FILE`; none for a place.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "gpsd" => Some(Self::Gpsd(GPSD.to_owned())),
            Some(("gpsd", address)) => Some(Self::Gpsd(address.to_owned())),
            Some(("tle", file)) => Some(Self::Orbit(file.into())),
            _ => None,
        }
    }

    /// # Errors
    /// Fails for an address without a port, and for a file that is no element set.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Gpsd(address) => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
                _ => Err(format!("gpsd:{address} names no host and port; write gpsd:127.0.0.1:2947, or gpsd alone")),
            },
            Self::Orbit(file) => read_orbit(file).map(drop),
        }
    }

    /// The place at the start: that of the orbit now, and nowhere until a receiver has a fix.
    pub(crate) fn start(&self, datum: &Datum) -> Result<NodePlace, String> {
        match self {
            Self::Gpsd(_) => Ok(NOWHERE.into()),
            Self::Orbit(file) => Ok(orbit_place(&read_orbit(file)?, datum)),
        }
    }
}

impl FollowState {
    pub(crate) fn new(source: String) -> Self {
        Self { source, state: Mutex::new(("no_fix", SystemTime::now())) }
    }

    pub(crate) fn row(&self) -> Following {
        let (state, since) = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since_s = since.elapsed().unwrap_or_default().as_secs_f64();
        Following { source: self.source.clone(), state: state.to_owned(), since_s }
    }

    fn set(&self, state: &'static str) {
        let mut held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if held.0 != state {
            *held = (state, SystemTime::now());
            tracing::info!(source = self.source, state, "the followed place");
        }
    }
}

pub(crate) async fn follow(source: PlaceSource, datum: Datum, mailbox: Mailbox<Node>, state: Arc<FollowState>) {
    let stopped = match source {
        PlaceSource::Gpsd(address) => follow_receiver(&address, &datum, &mailbox, &state).await,
        PlaceSource::Orbit(file) => follow_file(&file, &datum, &mailbox, &state).await,
    };
    if stopped.is_err() {
        tracing::debug!("the node has stopped, and nothing is followed any more");
    }
}

async fn follow_receiver(
    address: &str,
    datum: &Datum,
    mailbox: &Mailbox<Node>,
    state: &FollowState,
) -> Result<(), DriverStopped> {
    let mut pause = FIRST_PAUSE;
    let mut receiver = Receiver { datum, mailbox, state, last: None };
    loop {
        if let Ok(Ok(stream)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            pause = FIRST_PAUSE;
            receiver.read(stream).await?;
        }
        receiver.hold().await?;
        state.set("unreachable");
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A connection to gpsd, and the last fix.
struct Receiver<'a> {
    datum: &'a Datum,
    mailbox: &'a Mailbox<Node>,
    state: &'a FollowState,
    last: Option<ExactPosition>,
}

impl Receiver<'_> {
    async fn read(&mut self, mut stream: TcpStream) -> Result<(), DriverStopped> {
        let (mut lines, mut buffer, mut quiet) = (Lines::default(), [0; 4096], Duration::ZERO);
        if stream.write_all(WATCH).await.is_err() {
            return Ok(());
        }
        self.state.set("no_fix");
        while quiet < SILENCE {
            let mut fix = None;
            match timeout(HOLD, stream.read(&mut buffer)).await {
                Err(_) => quiet += HOLD,
                Ok(Ok(0) | Err(_)) => return Ok(()),
                Ok(Ok(count)) => {
                    quiet = Duration::ZERO;
                    lines.push(&buffer[..count], |line| fix = line.and_then(gpsd::parse).or(fix));
                }
            }
            match fix {
                Some(fix) => self.publish(fix).await?,
                None if quiet > Duration::ZERO => self.hold().await?,
                None => {}
            }
        }
        Ok(())
    }

    async fn publish(&mut self, fix: ExactPosition) -> Result<(), DriverStopped> {
        if self.datum.cell(fix.at).is_err() {
            self.state.set("out_of_reach");
            return Ok(());
        }
        self.state.set("fix");
        self.last = Some(fix);
        self.mailbox.command(NodeCommand::Fix(fix)).await
    }

    /// The last position stays, and nobody takes the node to move on.
    async fn hold(&mut self) -> Result<(), DriverStopped> {
        let Some(last) = self.last.take() else { return Ok(()) };
        self.state.set("no_fix");
        let Ok(cell) = self.datum.cell(last.at) else { return Ok(()) };
        let position = Some(ExactPosition { course_deg: None, speed_mps: None, ..last });
        self.mailbox.command(NodeCommand::Move(NodePlace { cell, position, orbit: None })).await
    }
}

async fn follow_file(
    file: &Path,
    datum: &Datum,
    mailbox: &Mailbox<Node>,
    state: &FollowState,
) -> Result<(), DriverStopped> {
    let mut told = read_orbit(file).ok().map(|orbit| orbit.elements());
    state.set("fix");
    loop {
        sleep(ORBIT_PAUSE).await;
        match read_orbit(file) {
            Ok(orbit) if told == Some(orbit.elements()) => state.set("fix"),
            Ok(orbit) => {
                told = Some(orbit.elements());
                state.set("fix");
                mailbox.command(NodeCommand::Move(orbit_place(&orbit, datum))).await?;
            }
            // The elements that it had are good for days.
            Err(error) => {
                tracing::warn!(%error, "the orbit stays as it was");
                state.set("unreadable");
            }
        }
    }
}

fn read_orbit(file: &Path) -> Result<Orbit, String> {
    let unread = |error: std::io::Error| format!("cannot read the orbit in {}: {error}", file.display());
    let size = std::fs::metadata(file).map_err(unread)?.len();
    if size > MAX_ORBIT_BYTES {
        return Err(format!("{} is no element set: it has {size} bytes, and one has 200", file.display()));
    }
    let text = std::fs::read_to_string(file).map_err(unread)?;
    Orbit::from_tle(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// The place of a satellite now. One out of the datum's reach is nowhere on the grid.
fn orbit_place(orbit: &Orbit, datum: &Datum) -> NodePlace {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let position = orbit.position(unix).ok();
    let cell = position.and_then(|position| datum.cell(position.at).ok());
    NodePlace { cell: cell.unwrap_or(NOWHERE), position: None, orbit: Some(orbit.elements()) }
}

/// The place of a node without anything to follow.
pub(crate) fn standing(place: Place) -> NodePlace {
    NodePlace { cell: place.cell, position: place.exact, orbit: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_from_places() {
        let parsed = |text: &str| PlaceSource::parse(text);
        assert_eq!(parsed("gpsd"), Some(PlaceSource::Gpsd(GPSD.to_owned())));
        assert_eq!(parsed("gpsd:[::1]:2948"), Some(PlaceSource::Gpsd("[::1]:2948".to_owned())));
        assert_eq!(parsed("tle:/etc/roost/iss.tle"), Some(PlaceSource::Orbit("/etc/roost/iss.tle".into())));
        for place in ["27,92", "cell:27,92", "geo:47.3,8.5", "47.3,8.5", "32TMT6547"] {
            assert_eq!(parsed(place), None, "{place}");
        }
    }

    #[test]
    fn unusable_source_says_why() {
        let error = |text: &str| PlaceSource::parse(text).unwrap().check().unwrap_err();
        for address in ["gpsd:localhost", "gpsd::2947", "gpsd:h:0", "gpsd:h:x"] {
            assert!(error(address).contains("gpsd:127.0.0.1:2947"), "{address}");
        }
        assert!(error("tle:/nonexistent/file").starts_with("cannot read the orbit in /nonexistent/file"));
        assert_eq!(PlaceSource::parse("gpsd:receiver:2947").unwrap().check(), Ok(()));
    }
}
