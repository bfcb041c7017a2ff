//! A node that follows a receiver of gpsd, or the orbit of a satellite.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_api::types::Following;
use roost_core::directory::NOWHERE;
use roost_core::node::{Node, NodeCommand, NodePlace};
use roost_geo::{Datum, FollowState, Followed, Orbit, OrbitFollower, Place, ReceiverFollower};
use roost_runtime::driver::{DriverStopped, Mailbox};
use roost_services::track::gpsd::{Lines, WATCH};
use roost_wire::Time;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

const GPSD: &str = "127.0.0.1:2947";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
pub(crate) struct FollowStatus {
    source: String,
    state: Mutex<(FollowState, SystemTime)>,
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
    /// Fails for an address without a port, and for a file that has no elements of now.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Gpsd(address) => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
                _ => Err(format!("gpsd:{address} names no host and port; write gpsd:127.0.0.1:2947, or gpsd alone")),
            },
            Self::Orbit(file) => {
                let position = read_orbit(file)?.position(unix());
                position.map(drop).map_err(|error| format!("{}: {error}", file.display()))
            }
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

impl FollowStatus {
    pub(crate) fn new(source: String) -> Self {
        Self { source, state: Mutex::new((FollowState::NoFix, SystemTime::now())) }
    }

    pub(crate) fn row(&self) -> Following {
        let (state, since) = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since_s = since.elapsed().unwrap_or_default().as_secs_f64();
        Following { source: self.source.clone(), state: state.name().to_owned(), since_s }
    }

    fn set(&self, state: FollowState) {
        let mut held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if held.0 != state {
            *held = (state, SystemTime::now());
            tracing::info!(source = self.source, state = state.name(), "the followed place");
        }
    }
}

/// Follows a source from the place at the start.
pub(crate) async fn follow(
    source: PlaceSource,
    start: NodePlace,
    datum: Datum,
    mailbox: Mailbox<Node>,
    status: Arc<FollowStatus>,
) {
    let stopped = match (source, start.orbit) {
        (PlaceSource::Gpsd(address), _) => Receiver::new(&datum, &mailbox, &status).follow(&address).await,
        (PlaceSource::Orbit(file), Some(told)) => {
            let follower = OrbitFollower::new(told);
            follow_file(&file, &datum, &mailbox, OrbitFile { follower, status: &status }).await
        }
        (PlaceSource::Orbit(_), None) => Ok(()),
    };
    if stopped.is_err() {
        tracing::debug!("the node has stopped, and nothing is followed any more");
    }
}

/// The connections to gpsd.
struct Receiver<'a> {
    began: Instant,
    follower: ReceiverFollower,
    mailbox: &'a Mailbox<Node>,
    status: &'a FollowStatus,
}

impl<'a> Receiver<'a> {
    fn new(datum: &Datum, mailbox: &'a Mailbox<Node>, status: &'a FollowStatus) -> Self {
        Self { began: Instant::now(), follower: ReceiverFollower::new(Time::ZERO, *datum), mailbox, status }
    }

    async fn follow(mut self, address: &str) -> Result<(), DriverStopped> {
        loop {
            if let Some(dial_at) = self.follower.dial_at() {
                sleep_until(self.instant(dial_at)).await;
            }
            let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
            if let Ok(Ok(mut stream)) = stream
                && stream.write_all(WATCH).await.is_ok()
            {
                self.follower.on_connected(self.now());
                self.publish(None).await?;
                self.read(stream).await?;
            }
            if self.follower.dial_at().is_none_or(|dial_at| dial_at <= self.now()) {
                let followed = self.follower.on_disconnected(self.now());
                self.publish(followed).await?;
            }
        }
    }

    /// Reads until the connection ends.
    async fn read(&mut self, mut stream: TcpStream) -> Result<(), DriverStopped> {
        let (mut lines, mut buffer) = (Lines::default(), [0; 4096]);
        while let Some(deadline) = self.follower.deadline() {
            let received = timeout_at(self.instant(deadline), stream.read(&mut buffer)).await;
            let now = self.now();
            let mut followed = None;
            match received {
                Err(_) => followed = self.follower.on_timeout(now),
                Ok(Ok(0) | Err(_)) => return Ok(()),
                Ok(Ok(count)) => {
                    lines.push(&buffer[..count], |line| followed = self.follower.on_line(now, line).or(followed))
                }
            }
            self.publish(followed).await?;
        }
        Ok(())
    }

    async fn publish(&self, followed: Option<Followed>) -> Result<(), DriverStopped> {
        self.status.set(self.follower.state());
        let command = match followed {
            None => return Ok(()),
            Some(Followed::Fix(fix)) => NodeCommand::Fix(fix),
            Some(Followed::Stand { cell, position }) => {
                NodeCommand::Move(NodePlace { cell, position: Some(position), orbit: None })
            }
        };
        self.mailbox.command(command).await
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    fn instant(&self, time: Time) -> Instant {
        self.began + time.since(Time::ZERO)
    }
}

async fn follow_file(
    file: &Path,
    datum: &Datum,
    mailbox: &Mailbox<Node>,
    mut orbit: OrbitFile<'_>,
) -> Result<(), DriverStopped> {
    orbit.status.set(FollowState::Fix);
    loop {
        sleep(ORBIT_PAUSE).await;
        if let Some(orbit) = orbit.look(file).await {
            mailbox.command(NodeCommand::Move(orbit_place(&orbit, datum))).await?;
        }
    }
}

/// A file with the elements of an orbit, which others replace.
struct OrbitFile<'a> {
    follower: OrbitFollower,
    status: &'a FollowStatus,
}

impl OrbitFile<'_> {
    /// The orbit in the file, if it is another than before.
    async fn look(&mut self, file: &Path) -> Option<Orbit> {
        let path = file.to_owned();
        let read = tokio::task::spawn_blocking(move || read_orbit(&path)).await;
        let orbit = read.map_err(|error| error.to_string()).flatten();
        if let Err(error) = &orbit {
            tracing::warn!(error, "the orbit stays as it was");
        }
        let looked = self.follower.on_look(unix(), orbit.ok());
        self.status.set(self.follower.state());
        looked.unwrap_or_else(|error| {
            tracing::warn!(file = %file.display(), %error, "the satellite has no place");
            None
        })
    }
}

/// Reads the elements in a file. Devices and pipes have no end.
fn read_orbit(file: &Path) -> Result<Orbit, String> {
    let unread = |error: std::io::Error| format!("cannot read the orbit in {}: {error}", file.display());
    if !std::fs::metadata(file).map_err(unread)?.is_file() {
        return Err(format!("{} is no file: name a file with an element set", file.display()));
    }
    let mut text = String::new();
    File::open(file).map_err(unread)?.take(MAX_ORBIT_BYTES + 1).read_to_string(&mut text).map_err(unread)?;
    if text.len() as u64 > MAX_ORBIT_BYTES {
        return Err(format!(
            "{} is no element set: it has more than {MAX_ORBIT_BYTES} bytes, and one has 200",
            file.display()
        ));
    }
    Orbit::from_tle(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn unix() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The place of a satellite now. One out of the datum's reach is nowhere on the grid.
fn orbit_place(orbit: &Orbit, datum: &Datum) -> NodePlace {
    let position = orbit.position(unix()).ok();
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

    /// The elements of the space station, as if of so many days ago.
    fn elements(days_ago: u64, mean_anomaly: &str) -> String {
        let mut day = unix().as_secs() / 86_400 - days_ago;
        let mut year = 1970;
        let days = |year: u64| if year.is_multiple_of(4) { 366 } else { 365 };
        while day >= days(year) {
            day -= days(year);
            year += 1;
        }
        let first = format!(
            "1 25544U 98067A   {:02}{:012.8} -.00002182  00000-0 -11606-4 0  292",
            year % 100,
            (day + 1) as f64
        );
        let second = format!("2 25544  51.6416 247.4627 0006703 130.5360 {mean_anomaly} 15.7212539156353");
        let sum = |line: &str| {
            let value = |letter: char| if letter == '-' { Some(1) } else { letter.to_digit(10) };
            line.chars().filter_map(value).sum::<u32>() % 10
        };
        format!("{first}{}\n{second}{}\n", sum(&first), sum(&second))
    }

    #[test]
    fn file_without_elements_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let error = |file: PathBuf| PlaceSource::Orbit(file).check().unwrap_err();
        assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        for file in [path("fifo"), "/dev/zero".into(), folder.path().to_owned()] {
            assert!(error(file).ends_with("is no file: name a file with an element set"));
        }
        std::fs::write(path("long"), vec![b'x'; MAX_ORBIT_BYTES as usize + 1]).unwrap();
        assert!(error(path("long")).contains("more than 16384 bytes"));
        // A file of a size that nobody tells.
        assert!(error("/proc/self/smaps".into()).contains("/proc/self/smaps"));
        std::fs::write(path("old"), elements(31, "325.0288")).unwrap();
        assert!(error(path("old")).contains("days away from that time, and good for 30: take newer ones"));
        std::fs::write(path("new"), elements(1, "325.0288")).unwrap();
        assert_eq!(PlaceSource::Orbit(path("new")).check(), Ok(()));
    }

    #[tokio::test]
    async fn file_changes_while_it_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("iss.tle");
        let (first, second) = (elements(1, "325.0288"), elements(0, "326.0288"));
        let orbit = |text: &str| Orbit::from_tle(text).unwrap().elements();
        let status = FollowStatus::new("tle:iss.tle".to_owned());
        let mut followed = OrbitFile { follower: OrbitFollower::new(orbit(&first)), status: &status };
        let looks =
            [(&first, None, "fix"), (&String::new(), None, "unreadable"), (&second, Some(orbit(&second)), "fix")];
        for (text, news, state) in looks {
            std::fs::write(&file, text).unwrap();
            let looked = followed.look(&file).await.map(|orbit| orbit.elements());
            assert_eq!((looked, status.row().state.as_str()), (news, state));
        }
        std::fs::write(&file, elements(40, "325.0288")).unwrap();
        assert!(followed.look(&file).await.is_none());
        assert_eq!(status.row().state, "expired");
        std::fs::remove_file(&file).unwrap();
        assert!(followed.look(&file).await.is_none());
        assert_eq!(status.row().state, "unreadable");
    }
}
