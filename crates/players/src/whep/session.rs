//! A session with one browser, without I/O.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use roost_services::video::pictures::Picture;
use str0m::change::SdpOffer;
use str0m::format::Codec;
use str0m::media::{Direction, Frequency, MediaKind, MediaTime, Mid, Pt};
use str0m::net::{DatagramRecv, Protocol, Receive};
use str0m::{Candidate, Event, IceConnectionState, Input, Output, Rtc, RtcConfig};

/// Ticks of a picture whose time does not follow from that before, as at the end of a looped file: 25 a second.
const USUAL_TICKS: u64 = 3600;

/// The longest time between two pictures, ticks; a longer one is a jump.
const MAX_TICKS: u64 = 10 * 90_000;

/// Ticks of a picture that is past: those before the browser came are shown at once.
const PAST_TICKS: u64 = 90;

/// The most pictures that wait to be packed.
const MAX_WAITING: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    #[error("the browser's offer is not understood: {0}")]
    Malformed(String),
    #[error("the browser offers to receive no H.264: its maker may have left it out")]
    NoH264,
}

/// A browser that gets pictures. It takes the time and what has come, and says what to send.
#[derive(Debug)]
pub(super) struct Session {
    rtc: Rtc,
    mid: Option<Mid>,
    is_connected: bool,
    has_ended: bool,
    /// The time of the last picture by its source, and by the browser's clock.
    last: Option<u64>,
    clock: u64,
    /// A picture is packed at a time.
    waiting: VecDeque<(u64, Vec<u8>)>,
    now: Instant,
}

#[derive(Debug)]
pub(super) enum Step {
    Send { to: SocketAddr, datagram: Vec<u8> },
    Wait(Instant),
    End,
}

pub(super) struct Incoming<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub datagram: &'a [u8],
}

impl Session {
    /// Answers an offer; the browser reaches this side at `at`.
    pub(super) fn answer(now: Instant, offer: &str, at: SocketAddr) -> Result<(Self, String), OfferError> {
        let malformed = |error: &dyn std::fmt::Display| OfferError::Malformed(error.to_string());
        let offer = SdpOffer::from_sdp_string(offer).map_err(|error| malformed(&error))?;
        let config = RtcConfig::new().set_ice_lite(true).clear_codecs().enable_h264(true);
        let mut rtc = config.build(now);
        let candidate = Candidate::host(at, Protocol::Udp).map_err(|error| malformed(&error))?;
        rtc.add_local_candidate(candidate);
        let answer = rtc.sdp_api().accept_offer(offer).map_err(|error| malformed(&error))?;
        let (last, waiting) = (None, VecDeque::new());
        let session = Self { rtc, mid: None, is_connected: false, has_ended: false, last, clock: 0, waiting, now };
        let answer = answer.to_sdp_string();
        // The answer names what both sides have.
        if !answer.contains(" H264/90000") {
            return Err(OfferError::NoH264);
        }
        Ok((session, answer))
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.is_connected
    }

    pub(super) fn receive(&mut self, now: Instant, incoming: Incoming<'_>) {
        self.now = now;
        let Incoming { from, to, datagram } = incoming;
        // Whoever sends something else is not the browser.
        let Ok(contents) = DatagramRecv::try_from(datagram) else { return };
        let input = Input::Receive(now, Receive { proto: Protocol::Udp, source: from, destination: to, contents });
        if self.rtc.accepts(&input) {
            self.handle(input);
        }
    }

    pub(super) fn wake(&mut self, now: Instant) {
        self.now = now;
        self.handle(Input::Timeout(now));
    }

    /// Sends a picture that came before the browser, to be shown at once.
    pub(super) fn catch_up(&mut self, now: Instant, picture: &Picture) {
        let first = self.last.replace(picture.time).is_none();
        self.send(now, picture, if first { 0 } else { PAST_TICKS });
    }

    /// Sends a picture of the present, which is shown at its own pace.
    pub(super) fn show(&mut self, now: Instant, picture: &Picture) {
        let since = self.last.replace(picture.time).map(|last| picture.time.wrapping_sub(last) % (1 << 33));
        let ticks = match since {
            None => 0,
            Some(ticks @ 1..=MAX_TICKS) => ticks,
            Some(_) => USUAL_TICKS,
        };
        self.send(now, picture, ticks);
    }

    /// Queues a picture that comes so many ticks after the one before.
    fn send(&mut self, now: Instant, picture: &Picture, ticks: u64) {
        self.now = now;
        self.clock += ticks;
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((self.clock, picture.data.to_vec()));
        }
        self.handle(Input::Timeout(now));
    }

    /// Says what to do next. It is called until it says to wait.
    pub(super) fn poll(&mut self) -> Step {
        loop {
            if self.has_ended || !self.rtc.is_alive() {
                return Step::End;
            }
            match self.rtc.poll_output() {
                Ok(Output::Transmit(send)) => {
                    return Step::Send { to: send.destination, datagram: send.contents.to_vec() };
                }
                Ok(Output::Event(event)) => self.learn(&event),
                Ok(Output::Timeout(until)) if !self.pack() => return Step::Wait(until),
                Ok(Output::Timeout(_)) => {}
                Err(_) => self.has_ended = true,
            }
        }
    }

    /// Packs the next picture that waits; false if there is none.
    fn pack(&mut self) -> bool {
        let Some((clock, data)) = self.waiting.pop_front() else { return false };
        let (Some(mid), Some(payload_type)) = (self.mid, self.payload_type()) else { return false };
        let Some(writer) = self.rtc.writer(mid) else { return false };
        // A picture that cannot be packed is left out.
        let _ = writer.write(payload_type, self.now, MediaTime::new(clock, Frequency::NINETY_KHZ), data);
        self.handle(Input::Timeout(self.now));
        true
    }

    fn handle(&mut self, input: Input<'_>) {
        if self.rtc.handle_input(input).is_err() {
            self.has_ended = true;
        }
    }

    fn learn(&mut self, event: &Event) {
        match event {
            Event::Connected => self.is_connected = true,
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) => self.has_ended = true,
            Event::MediaAdded(media) if media.kind == MediaKind::Video => {
                self.mid = Some(media.mid);
                // A picture does not fit the packets of another mode.
                self.has_ended |= self.payload_type().is_none();
            }
            _ => {}
        }
    }

    /// The payload type of H.264 in fragments, which pictures need.
    fn payload_type(&mut self) -> Option<Pt> {
        let mid = self.mid?;
        if !matches!(self.rtc.media(mid)?.direction(), Direction::SendOnly | Direction::SendRecv) {
            return None;
        }
        let writer = self.rtc.writer(mid)?;
        let mut h264 = writer.payload_params().filter(|params| params.spec().codec == Codec::H264);
        h264.find(|params| params.spec().format.packetization_mode == Some(1)).map(|params| params.pt())
    }
}

#[cfg(test)]
mod tests;
