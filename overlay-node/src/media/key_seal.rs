//! What opens this node's streams, sealed so that any node of the group can open
//! it and no super node: by the key that the group's nodes share.
//!
//! ```text
//! version 1 | nonce 12 | AES-256-GCM( time 8, opening ) | tag 16
//! ```
//!
//! Each provider has a key of its own, which comes from the group's (HKDF, RFC 5869), so that
//! random nonces suffice: a provider seals twice a second at most, and reaches the 2^32 of one key
//! in decades. Whose it is and for which service is authenticated along with it.
//!
//! The time is the wall clock's, seconds since 1970: a super node may keep a box along with the packets
//! that it opens, and hand over both as if they were of now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use bytes::Bytes;
use roost_identity::GroupKey;
use roost_proto::wire::{MAX_SEALED_BYTES, ProvisionalAccept};
use roost_proto::{NodeId, Service};

const VERSION: u8 = 1;
const HEADER: usize = 1 + NONCE_LEN;
const TIME: usize = size_of::<u64>();
/// How far from now it may have been sealed: an epoch lasts ten minutes, and clocks differ.
const MAX_AGE: Duration = Duration::from_secs(660);
const SALT: &[u8] = b"roost opening 1";

/// Seals and opens with the group's key.
pub(crate) struct KeySealer(GroupKey);

impl KeySealer {
    pub(crate) fn new(key: GroupKey) -> Self {
        Self(key)
    }

    /// Seals what opens a stream of `provider`, which is this node; `None` if it is too long, or the
    /// system gives no randomness.
    pub(crate) fn seal(
        &self,
        now: SystemTime,
        provider: NodeId,
        service: Service,
        opening: &ProvisionalAccept,
    ) -> Option<Bytes> {
        let mut nonce = [0; NONCE_LEN];
        roost_daemon::random_bytes(&mut nonce).ok()?;
        let mut content = seconds(now).to_be_bytes().to_vec();
        content.extend(opening.encode());
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), about(provider, service));
        let mut sealed = vec![VERSION];
        sealed.extend_from_slice(nonce.as_ref());
        self.key(provider)?.seal_in_place_append_tag(nonce, Aad::from(aad), &mut content).ok()?;
        sealed.extend(content);
        (sealed.len() <= MAX_SEALED_BYTES).then(|| sealed.into())
    }

    /// Opens what is sealed as `provider`'s for `service`; `None` if no node of the group has sealed it so, or not
    /// of late. Any of them can: the provider's own word decides.
    pub(crate) fn open(
        &self,
        now: SystemTime,
        provider: NodeId,
        service: Service,
        sealed: &[u8],
    ) -> Option<ProvisionalAccept> {
        let (header, sealed) = sealed.split_at_checked(HEADER)?;
        let (version, nonce) = header.split_first()?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok().filter(|_| *version == VERSION)?;
        let mut content = sealed.to_vec();
        let opened = self.key(provider)?.open_in_place(nonce, Aad::from(about(provider, service)), &mut content);
        let (time, opening) = opened.ok()?.split_first_chunk::<TIME>()?;
        let is_of_now = u64::from_be_bytes(*time).abs_diff(seconds(now)) <= MAX_AGE.as_secs();
        is_of_now.then(|| ProvisionalAccept::decode(opening).ok()).flatten()
    }

    fn key(&self, provider: NodeId) -> Option<LessSafeKey> {
        let secret = Salt::new(HKDF_SHA256, SALT).extract(self.0.bytes());
        let of = [provider.as_bytes().as_slice()];
        let expanded = secret.expand(&of, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(expanded)))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Whose it is, and for what.
fn about(provider: NodeId, service: Service) -> Vec<u8> {
    let mut about = vec![VERSION];
    about.extend_from_slice(provider.as_bytes());
    about.push(service as u8);
    about
}

#[cfg(test)]
mod tests {
    use roost_proto::wire::StreamKeys;
    use roost_proto::{Cell, Epoch, EpochSecret, StreamId};

    use super::*;

    fn lock(key: u8) -> KeySealer {
        KeySealer::new(GroupKey::from_bytes([key; 32]))
    }

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn opening() -> ProvisionalAccept {
        let next = Some((Epoch(2), EpochSecret::from_bytes([2; 32])));
        let reflected =
            StreamKeys { stream: StreamId(7), epoch: Epoch(1), secret: EpochSecret::from_bytes([1; 32]), next };
        ProvisionalAccept {
            stream_keys: reflected,
            bits_per_second: 1_000,
            format: "video/mp2t".to_owned(),
            cell: Cell::new(1, 2),
        }
    }

    #[test]
    fn group_members_open_sealed_keys() {
        let sealed = lock(1).seal(now(), node(1), Service::Video, &opening()).unwrap();
        assert_eq!(lock(1).open(now(), node(1), Service::Video, &sealed), Some(opening()));
        assert!(!sealed.windows(8).any(|part| part == [1; 8]), "the secret is not there in clear");
        assert_ne!(lock(1).seal(now(), node(1), Service::Video, &opening()).unwrap(), sealed);
    }

    #[test]
    fn other_group_provider_or_service_fails() {
        let sealed = lock(1).seal(now(), node(1), Service::Video, &opening()).unwrap();
        assert_eq!(lock(2).open(now(), node(1), Service::Video, &sealed), None, "another group's");
        assert_eq!(lock(1).open(now(), node(2), Service::Video, &sealed), None, "another provider's");
        assert_eq!(lock(1).open(now(), node(1), Service::Track, &sealed), None, "another service's");
    }

    #[test]
    fn altered_or_truncated_box_fails() {
        let sealed = lock(1).seal(now(), node(1), Service::Video, &opening()).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert_eq!(lock(1).open(now(), node(1), Service::Video, &changed), None, "byte {at}");
            assert_eq!(lock(1).open(now(), node(1), Service::Video, &sealed[..at]), None, "cut off at {at}");
        }
    }

    #[test]
    fn box_outside_epoch_time_fails() {
        let sealed = lock(1).seal(now(), node(1), Service::Video, &opening()).unwrap();
        let open = |at| lock(1).open(at, node(1), Service::Video, &sealed);
        for (apart, opened) in [(MAX_AGE, Some(opening())), (MAX_AGE + Duration::from_secs(1), None)] {
            assert_eq!([open(now() + apart), open(now() - apart)], [opened.clone(), opened], "{apart:?}");
        }
    }

    #[test]
    fn oversized_opening_is_not_sealed() {
        let long = ProvisionalAccept { format: "x".repeat(MAX_SEALED_BYTES), ..opening() };
        assert_eq!(lock(1).seal(now(), node(1), Service::Video, &long), None);
    }
}
