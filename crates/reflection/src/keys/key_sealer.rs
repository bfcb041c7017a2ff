//! Stream keys sealed for hubs to keep: any node of the group opens the box and no super node can, by the
//! key that the group's nodes share.
//!
//! ```text
//! version 1 | nonce 12 | AES-256-GCM( time 8, opening ) | tag 16
//! ```
//!
//! Each provider has a key of its own, which comes from the group's (HKDF, RFC 5869), so that
//! random nonces suffice: a provider seals twice a second at most, and reaches the 2^32 of one key
//! in decades. The provider and the service are authenticated along with the box.
//!
//! The time is the wall clock's, seconds since 1970: a super node may keep a box along with the packets
//! that it opens, and hand over both as if they were of now.

use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use bytes::Bytes;
use roost_wire::messages::{MAX_SEALED_BYTES, ProvisionalAccept};
use roost_wire::{NodeId, Service};

use super::SecretSource;

const VERSION: u8 = 1;
const HEADER: usize = 1 + NONCE_LEN;
const TIME: usize = size_of::<u64>();
/// The greatest age of a sealed box: an epoch lasts ten minutes, and clocks differ.
const MAX_AGE: Duration = Duration::from_secs(660);
const SALT: &[u8] = b"roost opening 1";

/// Seals and opens boxes with the group's key, for one node.
pub struct KeySealer {
    node: NodeId,
    group_key: [u8; 32],
}

impl KeySealer {
    pub fn new(node: NodeId, group_key: [u8; 32]) -> Self {
        Self { node, group_key }
    }

    /// Seals the key of a stream of this node; `None` if it is too long, or there is no randomness.
    pub fn seal(
        &self,
        unix_s: u64,
        secrets: &mut dyn SecretSource,
        service: Service,
        opening: &ProvisionalAccept,
    ) -> Option<Bytes> {
        let mut nonce = [0; NONCE_LEN];
        if !secrets.fill(&mut nonce) {
            return None;
        }
        let mut content = unix_s.to_be_bytes().to_vec();
        content.extend(opening.encode());
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), associated_data(self.node, service));
        let mut sealed = vec![VERSION];
        sealed.extend_from_slice(nonce.as_ref());
        self.key(self.node)?.seal_in_place_append_tag(nonce, Aad::from(aad), &mut content).ok()?;
        sealed.extend(content);
        (sealed.len() <= MAX_SEALED_BYTES).then(|| sealed.into())
    }

    /// Opens a box that is said to be `provider`'s for `service`; `None` if no node of the group has sealed it so,
    /// or not of late. Any of them can seal it: the provider's own answer decides.
    pub fn open(&self, unix_s: u64, provider: NodeId, service: Service, sealed: &[u8]) -> Option<ProvisionalAccept> {
        let (header, sealed) = sealed.split_at_checked(HEADER)?;
        let (version, nonce) = header.split_first()?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok().filter(|_| *version == VERSION)?;
        let mut content = sealed.to_vec();
        let aad = Aad::from(associated_data(provider, service));
        let opened = self.key(provider)?.open_in_place(nonce, aad, &mut content);
        let (time, opening) = opened.ok()?.split_first_chunk::<TIME>()?;
        let is_of_now = u64::from_be_bytes(*time).abs_diff(unix_s) <= MAX_AGE.as_secs();
        is_of_now.then(|| ProvisionalAccept::decode(opening).ok()).flatten()
    }

    fn key(&self, provider: NodeId) -> Option<LessSafeKey> {
        let secret = Salt::new(HKDF_SHA256, SALT).extract(&self.group_key);
        let of = [provider.as_bytes().as_slice()];
        let expanded = secret.expand(&of, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(expanded)))
    }
}

/// Authenticated in clear: the provider and the service.
fn associated_data(provider: NodeId, service: Service) -> Vec<u8> {
    let mut data = vec![VERSION];
    data.extend_from_slice(provider.as_bytes());
    match service {
        Service::Named(name) => data.extend_from_slice(name.as_str().as_bytes()),
        known => data.push(known.row() as u8),
    }
    data
}

#[cfg(test)]
mod tests {
    use roost_wire::messages::StreamKeys;
    use roost_wire::{Cell, Epoch, EpochSecret, StreamId};

    use super::*;

    /// A sealer of node 1 in a group.
    fn sealer(group: u8) -> KeySealer {
        KeySealer::new(node(1), [group; 32])
    }

    /// Seals as node 1 of group 1.
    fn seal(opening: &ProvisionalAccept, nonce: u8) -> Option<Bytes> {
        let mut secrets = |bytes: &mut [u8]| {
            bytes.fill(nonce);
            true
        };
        sealer(1).seal(NOW, &mut secrets, Service::Video, opening)
    }

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    const NOW: u64 = 1_800_000_000;

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
        let sealed = seal(&opening(), 7).unwrap();
        assert_eq!(sealer(1).open(NOW, node(1), Service::Video, &sealed), Some(opening()));
        assert!(!sealed.windows(8).any(|part| part == [1; 8]), "the secret is not there in clear");
        assert_ne!(seal(&opening(), 8).unwrap(), sealed);
    }

    #[test]
    fn other_group_provider_or_service_fails() {
        let sealed = seal(&opening(), 7).unwrap();
        assert_eq!(sealer(2).open(NOW, node(1), Service::Video, &sealed), None, "another group's");
        assert_eq!(sealer(1).open(NOW, node(2), Service::Video, &sealed), None, "another provider's");
        assert_eq!(sealer(1).open(NOW, node(1), Service::Track, &sealed), None, "another service's");
    }

    #[test]
    fn altered_or_truncated_box_fails() {
        let sealed = seal(&opening(), 7).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert_eq!(sealer(1).open(NOW, node(1), Service::Video, &changed), None, "byte {at}");
            assert_eq!(sealer(1).open(NOW, node(1), Service::Video, &sealed[..at]), None, "cut off at {at}");
        }
    }

    #[test]
    fn box_outside_epoch_time_fails() {
        let sealed = seal(&opening(), 7).unwrap();
        let open = |at| sealer(1).open(at, node(1), Service::Video, &sealed);
        let age = MAX_AGE.as_secs();
        for (apart, opened) in [(age, Some(opening())), (age + 1, None)] {
            assert_eq!([open(NOW + apart), open(NOW - apart)], [opened.clone(), opened], "{apart}");
        }
    }

    #[test]
    fn no_randomness_seals_nothing() {
        assert_eq!(sealer(1).seal(NOW, &mut |_: &mut [u8]| false, Service::Video, &opening()), None);
    }

    #[test]
    fn oversized_opening_is_not_sealed() {
        let long = ProvisionalAccept { format: "x".repeat(MAX_SEALED_BYTES), ..opening() };
        assert_eq!(seal(&long, 7), None);
    }
}
