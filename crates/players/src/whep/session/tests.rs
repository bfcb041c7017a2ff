//! Sessions with the browser's side of the same library, in virtual time.

use std::time::Duration;

use proptest::prelude::*;
use str0m::media::MediaData;

use super::*;

const BROWSER: &str = "127.0.0.1:5000";
const DAEMON: &str = "127.0.0.1:6000";

/// A browser that receives video, the daemon's session, and no network between them.
struct Pair {
    browser: Rtc,
    session: Session,
    now: Instant,
    received: Vec<MediaData>,
}

fn config() -> RtcConfig {
    RtcConfig::new().clear_codecs().enable_h264(true)
}

fn browser(now: Instant, config: RtcConfig) -> (Rtc, String, str0m::change::SdpPendingOffer) {
    let mut browser = config.build(now);
    let candidate = Candidate::host(BROWSER.parse().unwrap(), Protocol::Udp).unwrap();
    browser.add_local_candidate(candidate);
    let mut change = browser.sdp_api();
    change.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
    let (offer, pending) = change.apply().unwrap();
    (browser, offer.to_sdp_string(), pending)
}

impl Pair {
    fn new() -> Self {
        let now = Instant::now();
        let (mut browser, offer, pending) = browser(now, config());
        let (session, answer) = Session::answer(now, &offer, DAEMON.parse().unwrap()).unwrap();
        let answer = str0m::change::SdpAnswer::from_sdp_string(&answer).unwrap();
        browser.sdp_api().accept_answer(pending, answer).unwrap();
        Self { browser, session, now, received: Vec::new() }
    }

    /// Lets time pass, and carries each datagram to the other side.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            let (own, others) = (self.poll_session(), self.poll_browser());
            self.now = own.min(others).max(self.now + Duration::from_millis(1)).min(end);
            self.session.wake(self.now);
            self.browser.handle_input(Input::Timeout(self.now)).unwrap();
        }
    }

    fn poll_session(&mut self) -> Instant {
        loop {
            match self.session.poll() {
                Step::Send { datagram, .. } => {
                    let (source, destination) = (DAEMON.parse().unwrap(), BROWSER.parse().unwrap());
                    let contents = DatagramRecv::try_from(&datagram[..]).unwrap();
                    let receive = Receive { proto: Protocol::Udp, source, destination, contents };
                    self.browser.handle_input(Input::Receive(self.now, receive)).unwrap();
                }
                Step::Wait(until) => return until,
                Step::End => return self.now + Duration::from_secs(1),
            }
        }
    }

    fn poll_browser(&mut self) -> Instant {
        loop {
            match self.browser.poll_output().unwrap() {
                Output::Transmit(send) => {
                    let (from, to) = (BROWSER.parse().unwrap(), DAEMON.parse().unwrap());
                    self.session.receive(self.now, Incoming { from, to, datagram: &send.contents });
                }
                Output::Event(Event::MediaData(data)) => self.received.push(data),
                Output::Event(_) => {}
                Output::Timeout(until) => return until,
            }
        }
    }
}

/// A key frame with its parameters, or another picture.
fn picture(time: u64, is_key: bool, bytes: usize) -> Picture {
    let start = [0, 0, 0, 1];
    let sets: [&[u8]; 2] = [&[0x67, 0x42, 0xc0, 0x1f, 0xd9], &[0x68, 0xce, 0x3c, 0x80]];
    let body = [&[if is_key { 0x65 } else { 0x41 }][..], &vec![0xab; bytes]].concat();
    let units: Vec<&[u8]> = if is_key { vec![sets[0], sets[1], &body] } else { vec![&body] };
    let data: Vec<u8> = units.iter().flat_map(|unit| [&start[..], unit].concat()).collect();
    Picture { time, is_key, data: data.into() }
}

#[test]
fn pictures_reach_the_browser_in_time() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(2));
    assert!(pair.session.is_connected());
    // Two are past, then 25 a second over the end of the clock, and a file that begins anew.
    let wrap = 1 << 33;
    let times = [wrap - 9000, wrap - 7200, wrap - 3600, 0, 3600, 500];
    for (number, time) in times.into_iter().enumerate() {
        let picture = picture(time, number == 0, 3000);
        if number < 2 {
            pair.session.catch_up(pair.now, &picture);
        } else {
            pair.session.show(pair.now, &picture);
        }
        pair.run(Duration::from_millis(40));
    }
    pair.run(Duration::from_secs(1));
    let ticks: Vec<u64> = pair.received.iter().map(|data| data.time.numer()).collect();
    let steps: Vec<u64> = ticks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, [PAST_TICKS, 3600, 3600, 3600, USUAL_TICKS]);
    assert!(pair.received.iter().all(|data| data.data.len() >= 3000));
}

#[test]
fn session_ends_without_its_browser() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(2));
    let (start, mut now) = (pair.now, pair.now);
    while !matches!(pair.session.poll(), Step::End) {
        now += Duration::from_millis(100);
        pair.session.wake(now);
        assert!(now < start + Duration::from_secs(60), "it goes on for ever");
    }
}

#[test]
fn offers_without_h264_are_refused() {
    let (_, offer, _) = browser(Instant::now(), RtcConfig::new().clear_codecs().enable_vp8(true));
    let refused = Session::answer(Instant::now(), &offer, DAEMON.parse().unwrap()).unwrap_err();
    assert!(matches!(refused, OfferError::NoH264), "{refused}");
}

proptest! {
    // Each has a handshake.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn strange_offers_and_datagrams_are_survived(
        cut in 0_usize..4000,
        noise in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let now = Instant::now();
        let (_, offer, _) = browser(now, config());
        let mut bytes = offer.into_bytes();
        let cut = cut.min(bytes.len());
        bytes.splice(cut.., noise.iter().copied());
        let _ = Session::answer(now, &String::from_utf8_lossy(&bytes), DAEMON.parse().unwrap());
        let mut pair = Pair::new();
        let (from, to) = (BROWSER.parse().unwrap(), DAEMON.parse().unwrap());
        pair.session.receive(now, Incoming { from, to, datagram: &noise });
        pair.run(Duration::from_secs(2));
        prop_assert!(pair.session.is_connected());
    }
}
