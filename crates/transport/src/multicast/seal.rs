//! Multicast packets, sealed with the key that the nodes of a group share.
//!
//! ```text
//! version 1 | salt 16 | count 8 | AES-256-GCM( time 8 | message ) | tag 16
//! ```
//!
//! Each run of a daemon draws a salt. A sealing key of its own follows from the salt and the group's key (HKDF, RFC
//! 5869), so the count can be the nonce without coordination among senders. A receiver accepts a packet whose time is
//! within [`TOLERANCE`] of its own clock, and each count of a salt once. So a packet that is replayed after that time
//! is late, and one that is replayed sooner is known. Only a receiver that has just started can be given packets of the
//! last [`TOLERANCE`] again, so every message must be harmless when repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use roost_identity::GroupKey;

/// The longest message, bytes: its packet passes every IPv6 path whole.
pub const MAX_MULTICAST_BYTES: usize = 1200;

/// The most by which two clocks of the group may differ, together with the time that a packet travels.
pub const TOLERANCE: Duration = Duration::from_secs(30);

/// The most runs of daemons that are told apart. New ones beyond it are ignored until one has been silent for twice the
/// tolerance.
const MAX_SENDERS: usize = 1024;

/// The most packets of unknown salts whose key is derived in a second. Such a packet of a stranger costs some
/// microseconds.
const MAX_STRANGERS_PER_SECOND: u32 = 1000;

const VERSION: u8 = 1;
const SALT: usize = 16;
const HEADER: usize = 1 + SALT + 8;
const TIME: usize = 8;
const TAG: usize = 16;

/// Bytes of a packet besides its message.
pub(crate) const OVERHEAD: usize = HEADER + TIME + TAG;

/// The reason for which a packet is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not sealed with the group's key, or changed on the way.
    Forged,
    /// The packet's time is further than [`TOLERANCE`] from our clock.
    Late,
    Replayed,
    /// Too many packets of unknown senders have come within a second.
    OverUnknownLimit,
    /// The sender is new, and [`MAX_SENDERS`] are known already.
    OverSenderLimit,
    /// A packet of this daemon, which multicast returns to its sender.
    Own,
}

/// Seals the packets of one run of a daemon.
pub(crate) struct Sealer {
    key: LessSafeKey,
    salt: [u8; SALT],
    count: u64,
}

/// Opens the packets of the other daemons.
pub(crate) struct Opener {
    group: GroupKey,
    own: [u8; SALT],
    senders: BTreeMap<[u8; SALT], MulticastSender>,
    strangers: (u64, u32),
}

struct MulticastSender {
    key: LessSafeKey,
    /// The greatest count accepted. `taken` has a bit for each of the 64 below it.
    highest: u64,
    taken: u64,
    /// The latest time in a packet, in milliseconds.
    latest: u64,
}

/// Makes both ends for this run. `None` if the system gives no random numbers.
pub(crate) fn ends(group: &GroupKey) -> Option<(Sealer, Opener)> {
    let mut salt = [0; SALT];
    rand::fill(&mut salt).ok()?;
    let key = key_of(group, &salt)?;
    let opener = Opener { group: group.clone(), own: salt, senders: BTreeMap::new(), strangers: (0, 0) };
    Some((Sealer { key, salt, count: 0 }, opener))
}

/// Derives the key of one run of a daemon.
fn key_of(group: &GroupKey, salt: &[u8; SALT]) -> Option<LessSafeKey> {
    let secret = Salt::new(HKDF_SHA256, salt).extract(group.bytes());
    let expanded = secret.expand(&[b"roost multicast 1"], &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(expanded)))
}

fn nonce(count: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&count.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Sealer {
    /// Makes the packet of a message; `None` if the message is too long. `now` is the wall clock in milliseconds.
    pub(crate) fn seal(&mut self, now: u64, message: &[u8]) -> Option<Vec<u8>> {
        if message.len() > MAX_MULTICAST_BYTES {
            return None;
        }
        self.count += 1;
        let mut packet = Vec::with_capacity(message.len() + OVERHEAD);
        packet.push(VERSION);
        packet.extend(self.salt);
        packet.extend(self.count.to_be_bytes());
        let mut sealed = Vec::with_capacity(TIME + message.len() + TAG);
        sealed.extend(now.to_be_bytes());
        sealed.extend(message);
        self.key.seal_in_place_append_tag(nonce(self.count), Aad::from(&packet[..]), &mut sealed).ok()?;
        packet.extend(sealed);
        Some(packet)
    }
}

impl Opener {
    /// Opens a packet in place and returns its message. `now` is the wall clock in milliseconds.
    pub(crate) fn open<'a>(&mut self, now: u64, packet: &'a mut [u8]) -> Result<&'a [u8], Fault> {
        let fits = (OVERHEAD..=OVERHEAD + MAX_MULTICAST_BYTES).contains(&packet.len());
        if !fits || packet[0] != VERSION {
            return Err(Fault::Forged);
        }
        let (header, sealed) = packet.split_at_mut(HEADER);
        let (salt, count) = (array::<SALT>(&header[1..]), u64::from_be_bytes(array(&header[1 + SALT..])));
        if salt == self.own {
            return Err(Fault::Own);
        }
        let fresh = if self.senders.contains_key(&salt) { None } else { Some(self.stranger(now, &salt)?) };
        let known = self.senders.get_mut(&salt);
        if known.as_ref().is_some_and(|sender| sender.has_taken(count)) {
            return Err(Fault::Replayed);
        }
        let key = known.as_ref().map(|sender| &sender.key).or(fresh.as_ref()).ok_or(Fault::Forged)?;
        let opened = key.open_in_place(nonce(count), Aad::from(&*header), sealed).map_err(|_| Fault::Forged)?;
        let (time, message) = opened.split_at(TIME);
        let time = u64::from_be_bytes(array(time));
        if time.abs_diff(now) > millis(TOLERANCE) {
            return Err(Fault::Late);
        }
        match (known, fresh) {
            (Some(sender), _) => sender.record_packet(count, time),
            (None, Some(key)) => {
                self.senders.insert(salt, MulticastSender { key, highest: count, taken: 0, latest: time });
            }
            (None, None) => {}
        }
        Ok(message)
    }

    /// The key of a sender that is not known yet, if there is room for one.
    fn stranger(&mut self, now: u64, salt: &[u8; SALT]) -> Result<LessSafeKey, Fault> {
        let second = now / 1000;
        let (of, count) = self.strangers;
        let count = if of == second { count } else { 0 };
        if count >= MAX_STRANGERS_PER_SECOND {
            return Err(Fault::OverUnknownLimit);
        }
        self.strangers = (second, count + 1);
        if self.senders.len() >= MAX_SENDERS {
            // All packets that a removed sender has sent so far are late by now.
            self.senders.retain(|_, sender| sender.latest + 2 * millis(TOLERANCE) > now);
        }
        if self.senders.len() >= MAX_SENDERS {
            return Err(Fault::OverSenderLimit);
        }
        key_of(&self.group, salt).ok_or(Fault::Forged)
    }
}

impl MulticastSender {
    fn has_taken(&self, count: u64) -> bool {
        match self.highest.checked_sub(count) {
            None => false,
            Some(0) => true,
            Some(behind) => behind > 64 || self.taken & (1 << (behind - 1)) != 0,
        }
    }

    fn record_packet(&mut self, count: u64, time: u64) {
        self.latest = self.latest.max(time);
        match self.highest.checked_sub(count) {
            Some(behind @ 1..=64) => self.taken |= 1 << (behind - 1),
            Some(_) => {}
            None => {
                let ahead = count - self.highest;
                let shifted = u32::try_from(ahead).ok().and_then(|ahead| self.taken.checked_shl(ahead)).unwrap_or(0);
                self.taken = if ahead <= 64 { shifted | 1 << (ahead - 1) } else { 0 };
                self.highest = count;
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The first bytes of a slice that must be long enough.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn pair() -> (Sealer, Opener) {
        let key = GroupKey::from_bytes([7; 32]);
        (ends(&key).unwrap().0, ends(&key).unwrap().1)
    }

    fn open(opener: &mut Opener, now: u64, packet: &[u8]) -> Result<Vec<u8>, Fault> {
        opener.open(now, &mut packet.to_vec()).map(<[u8]>::to_vec)
    }

    #[test]
    fn only_group_members_open_packets() {
        let (mut sealer, mut opener) = pair();
        let packet = sealer.seal(NOW, b"who has video?").unwrap();
        assert_eq!(packet.len(), 14 + OVERHEAD);
        assert_eq!(open(&mut opener, NOW, &packet), Ok(b"who has video?".to_vec()));
        let (_, mut stranger) = ends(&GroupKey::from_bytes([8; 32])).unwrap();
        assert_eq!(open(&mut stranger, NOW, &packet), Err(Fault::Forged));
        for at in 0..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            assert!(open(&mut opener, NOW, &changed).is_err(), "byte {at}");
            assert!(open(&mut opener, NOW, &packet[..at]).is_err(), "cut at {at}");
        }
        assert!(sealer.seal(NOW, &[0; MAX_MULTICAST_BYTES + 1]).is_none());
    }

    #[test]
    fn packet_opens_once_in_any_order() {
        let (mut sealer, mut opener) = pair();
        let packets: Vec<_> = (0..200).map(|_| sealer.seal(NOW, b"x").unwrap()).collect();
        for at in [0, 2, 1, 64, 63, 10, 199, 150] {
            assert!(open(&mut opener, NOW, &packets[at]).is_ok(), "{at}");
            assert_eq!(open(&mut opener, NOW, &packets[at]), Err(Fault::Replayed), "{at}");
        }
        assert_eq!(open(&mut opener, NOW, &packets[3]), Err(Fault::Replayed), "too far behind to tell");
        assert!(open(&mut opener, NOW, &packets[151]).is_ok());
        for at in [0, 2, 1, 64, 63, 10, 199, 150, 151] {
            assert_eq!(open(&mut opener, NOW, &packets[at]), Err(Fault::Replayed), "{at}");
        }
    }

    #[test]
    fn late_and_own_packets_are_rejected() {
        let (mut sealer, mut opener) = pair();
        for (then, taken) in [(NOW - 30_001, false), (NOW + 30_001, false), (NOW - 29_000, true), (NOW + 29_000, true)]
        {
            let packet = sealer.seal(then, b"x").unwrap();
            assert_eq!(open(&mut opener, NOW, &packet).is_ok(), taken, "{then}");
        }
        let (mut sealer, mut own) = ends(&GroupKey::from_bytes([7; 32])).unwrap();
        let packet = sealer.seal(NOW, b"x").unwrap();
        assert_eq!(open(&mut own, NOW, &packet), Err(Fault::Own));
    }

    #[test]
    fn unknown_sender_cost_is_bounded() {
        let key = GroupKey::from_bytes([7; 32]);
        let (_, mut opener) = pair();
        for number in 0..3 * MAX_STRANGERS_PER_SECOND {
            let mut forged = vec![VERSION; 80];
            rand::fill(&mut forged[1..]).unwrap();
            let fault = if number < MAX_STRANGERS_PER_SECOND { Fault::Forged } else { Fault::OverUnknownLimit };
            assert_eq!(open(&mut opener, NOW, &forged), Err(fault));
        }
        assert_eq!((opener.senders.len(), opener.strangers.1), (0, MAX_STRANGERS_PER_SECOND));
        let mut last = Err(Fault::Forged);
        for number in 0..=MAX_SENDERS as u64 {
            let packet = ends(&key).unwrap().0.seal(NOW + 1000, b"x").unwrap();
            last = open(&mut opener, NOW + 1000 + 2 * number, &packet);
        }
        assert_eq!((opener.senders.len(), last), (MAX_SENDERS, Err(Fault::OverSenderLimit)));
        let later = NOW + 62_000;
        let packet = ends(&key).unwrap().0.seal(later, b"x").unwrap();
        assert!(open(&mut opener, later, &packet).is_ok(), "the silent ones have made room");
        assert_eq!(opener.senders.len(), 1);
    }
}
