//! Video for browsers over WebRTC: the browser posts its offer, and gets an answer (WHEP).
//!
//! H.264 goes as it is. Its encoder should make no B-frames: a browser shows pictures in the order in which they come.
//! Keys and fingerprints come with the offer, so nobody else sees the video.

mod session;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use roost_services::video::pictures::Pictures;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;

use crate::places::{Place, Places};
use crate::shared::{Age, Datagram, Selection, SharedStream, SharedStreams, Viewer, WatchError};
use session::{OfferError, Session, Step};

/// The most browsers that watch at once.
const MAX_SESSIONS: usize = 32;

/// The longest datagram that a browser sends.
const MAX_DATAGRAM: usize = 2048;

/// A browser that does not connect in this time has gone.
const PATIENCE: Duration = Duration::from_secs(15);

/// The browsers that watch videos of a node. Clones are cheap, and share them.
#[derive(Clone, Debug)]
pub struct Whep {
    videos: SharedStreams,
    places: Places,
    sessions: Arc<Mutex<HashMap<u64, oneshot::Sender<()>>>>,
    next: Arc<AtomicU64>,
}

/// A session among those that can be ended.
struct Listed {
    whep: Whep,
    session: u64,
    _place: Place,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.whep.end(self.session);
    }
}

/// The answer to an offer. `session` is the number by which it ends.
#[derive(Clone, Debug)]
pub struct Answer {
    pub session: u64,
    pub description: String,
}

#[derive(Debug, thiserror::Error)]
pub enum WhepError {
    #[error("{MAX_SESSIONS} browsers watch here already: close one")]
    TooMany,
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("browsers play H.264 in MPEG-TS or RTP, and this video is {0}")]
    Format(String),
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error("no port can be opened for the video: {0}")]
    Socket(std::io::Error),
}

impl Whep {
    pub fn new(videos: SharedStreams) -> Self {
        Self { videos, places: Places::new(MAX_SESSIONS, MAX_SESSIONS), sessions: Arc::default(), next: Arc::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<()>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a browser's offer (SDP), and sends it the video from a port of `address`.
    ///
    /// # Errors
    /// Nobody gives the video, it is none for browsers, or the offer is not understood.
    pub async fn answer(&self, selection: &Selection, offer: &str, address: IpAddr) -> Result<Answer, WhepError> {
        let place = self.places.admit(address).ok_or(WhepError::TooMany)?;
        let video = self.videos.watch(selection).await?;
        let pictures =
            Pictures::for_format(video.format()).ok_or_else(|| WhepError::Format(video.format().to_owned()))?;
        let socket = UdpSocket::bind((address, 0)).await.map_err(WhepError::Socket)?;
        let at = socket.local_addr().map_err(WhepError::Socket)?;
        let (session, description) = Session::answer(Instant::now(), offer, at)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (end, ended) = oneshot::channel();
        self.sessions().insert(number, end);
        let playing = Playing { session, socket, at, pictures, video, viewer: None };
        let listed = Listed { whep: self.clone(), session: number, _place: place };
        tokio::spawn(async move {
            tokio::select! {
                () = playing.run() => {}
                _ = ended => {}
            }
            drop(listed);
        });
        Ok(Answer { session: number, description })
    }

    /// Ends a session; false if it has ended.
    pub fn end(&self, session: u64) -> bool {
        self.sessions().remove(&session).is_some()
    }
}

struct Playing {
    session: Session,
    socket: UdpSocket,
    at: SocketAddr,
    pictures: Pictures,
    video: Arc<SharedStream>,
    /// There is one from the moment on at which the browser is connected.
    viewer: Option<Viewer>,
}

impl Playing {
    async fn run(mut self) {
        let started = Instant::now();
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            let deadline = loop {
                match self.session.poll() {
                    Step::Send { to, datagram } => {
                        // The browser asks again for packets that are lost.
                        let _ = self.socket.try_send_to(&datagram, to);
                    }
                    Step::Wait(until) => break until,
                    Step::End => return,
                }
            };
            if self.viewer.is_none() {
                if self.session.is_connected() {
                    self.viewer = Some(self.video.view());
                } else if started.elapsed() > PATIENCE {
                    return;
                }
            }
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    if let Ok((bytes, from)) = received {
                        self.session.receive(Instant::now(), session::Incoming { from, to: self.at, datagram: &buffer[..bytes] });
                    }
                }
                datagram = next(&mut self.viewer) => {
                    let Some(datagram) = datagram else { return };
                    for picture in self.pictures.read(&datagram.bytes) {
                        let now = Instant::now();
                        match datagram.age {
                            Age::Past => self.session.catch_up(now, &picture),
                            Age::Live => self.session.show(now, &picture),
                        }
                    }
                }
                () = tokio::time::sleep_until(deadline.into()) => self.session.wake(Instant::now()),
            }
        }
    }
}

/// The next datagram for a viewer; without one it never comes.
async fn next(viewer: &mut Option<Viewer>) -> Option<Datagram> {
    match viewer {
        Some(viewer) => viewer.next().await,
        None => std::future::pending().await,
    }
}
