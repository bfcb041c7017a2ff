//! Key frames on request: who joins a stream of RTP has its sender asked for one.

use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use roost_tests::network::{Daemon, Network, PATIENCE};
use roost_tests::process::{free_port, wait_until};
use roost_wait::beats;

/// H.264 of which decoding can begin: parameter sets and an IDR picture, in one packet (STAP-A).
const KEY_FRAME: [u8; 14] = [24, 0, 2, 0x67, 1, 0, 2, 0x68, 2, 0, 3, 0x65, 3, 3];
/// A picture that needs those before it.
const OTHER_FRAME: [u8; 3] = [0x41, 4, 4];

/// Longer than anybody who waits for a key frame lets pass before asking again.
const SILENCE: Duration = Duration::from_secs(2);

/// A camera: sends no key frame unless it is asked for one.
struct KeyFrameCamera {
    asked: Arc<Mutex<Vec<Instant>>>,
    /// True if it answers.
    answers: Arc<AtomicBool>,
    key_frames: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeyFrameCamera {
    /// Sends RTP to a port, and RTCP to the one after it, as cameras do.
    fn start(port: u16) -> Self {
        let mut camera = Self {
            asked: Arc::default(),
            answers: Arc::default(),
            key_frames: Arc::default(),
            stop: Arc::default(),
            thread: None,
        };
        let (asked, answers) = (Arc::clone(&camera.asked), Arc::clone(&camera.answers));
        let (key_frames, stop) = (Arc::clone(&camera.key_frames), Arc::clone(&camera.stop));
        let own = free_port();
        let bind = |port| UdpSocket::bind(("127.0.0.1", port)).unwrap();
        let (rtp, rtcp) = (bind(own), bind(own + 1));
        rtcp.set_nonblocking(true).unwrap();
        camera.thread = Some(std::thread::spawn(move || {
            let mut buffer = [0; 200];
            for number in beats(Duration::from_millis(20)).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let number = number as u16;
                let mut is_asked = false;
                while let Ok(length) = rtcp.recv(&mut buffer) {
                    assert_eq!(buffer[8..10], [0x81, 206], "a picture loss indication: {:?}", &buffer[..length]);
                    assert_eq!(buffer[16..20], [0, 0, 0, 9], "of this stream");
                    asked.lock().unwrap().push(Instant::now());
                    is_asked = true;
                }
                let is_key = is_asked && answers.load(Ordering::Relaxed);
                key_frames.fetch_add(usize::from(is_key), Ordering::Relaxed);
                let [high, low] = number.to_be_bytes();
                let header = [0x80, 0xe0, high, low, 0, 0, high, low, 0, 0, 0, 9];
                let picture = if is_key { &KEY_FRAME[..] } else { &OTHER_FRAME };
                // Nobody listens as long as nobody watches.
                let _ = rtp.send_to(&[&header, picture].concat(), ("127.0.0.1", port));
                if number.is_multiple_of(50) {
                    let _ =
                        rtcp.send_to(&[&[0x80, 200, 0, 6, 0, 0, 0, 9][..], &[0; 20]].concat(), ("127.0.0.1", port + 1));
                }
            }
        }));
        camera
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The shortest time between two requests.
    fn shortest_pause(&self) -> Option<Duration> {
        self.asked.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).min()
    }
}

impl Drop for KeyFrameCamera {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the camera was asked for something else");
    }
}

/// Plays what comes to a node.
struct Player {
    roost: Child,
    socket: UdpSocket,
}

impl Player {
    fn start(node: &Daemon) -> Self {
        let port = free_port();
        let socket = UdpSocket::bind(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let to = format!("rtp://127.0.0.1:{port}");
        let mut roost = node.command(&["subscribe", "video", "--at", "5,5", "--for", "60s", "-o", &to]);
        Self { roost: roost.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), socket }
    }

    /// The pictures up to the first key frame that comes.
    fn until_key_frame(&self) -> usize {
        let mut buffer = [0; 200];
        let mut others = 0;
        loop {
            let length = self.socket.recv(&mut buffer).expect("a key frame comes");
            if buffer[12..length] == KEY_FRAME {
                return others;
            }
            others += 1;
            assert!(others < 1500, "no key frame has come for half a minute");
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.roost.kill();
        let _ = self.roost.wait();
    }
}

#[test]
fn key_frame_requests_are_rate_limited() {
    let network = Network::new();
    let [first, second] = network.pair();
    let (one, two) = (first.endpoint("udp"), second.endpoint("udp"));
    let port = free_port();
    let source = format!("rtp://127.0.0.1:{port}?encoding=h264");
    let _provider = network.node("p", "5,5", &["--super", &one, "--services", "video", "--sources-video", &source]);
    let nodes = [("a", &one), ("b", &two), ("c", &two)].map(|(name, hub)| network.node(name, "1,1", &["--super", hub]));
    let camera = KeyFrameCamera::start(port);
    let began = Instant::now();
    let players: Vec<Player> = nodes.iter().map(Player::start).collect();
    let asked = |times| wait_until(PATIENCE, || (camera.times_asked() >= times).then_some(()));
    assert!(asked(3).is_some(), "asked {} times:\n{}", camera.times_asked(), first.log());
    // A request that comes a moment too early by the clock here was on its way for less time than the one
    // before.
    let (most, shortest) = (began.elapsed().as_secs() as usize + 1, camera.shortest_pause());
    assert!(camera.times_asked() <= most && shortest > Some(Duration::from_millis(900)), "{shortest:?}");
    camera.answers.store(true, Ordering::Relaxed);
    for player in &players {
        player.until_key_frame();
    }
    let times = camera.times_asked();
    assert!(camera.key_frames.load(Ordering::Relaxed) <= 2);
    // A player that comes when there is a key frame in the caches begins with it, and asks nobody.
    let node = network.node("d", "1,1", &["--super", &two]);
    let late = Player::start(&node);
    assert!(late.until_key_frame() == 0, "it begins with the key frame");
    // So does who comes to a node that has the stream already.
    assert_eq!(Player::start(&node).until_key_frame(), 0);
    std::thread::sleep(SILENCE);
    assert_eq!(camera.times_asked(), times, "nobody waits for a key frame any more");
}
