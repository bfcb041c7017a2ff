//! A set of services: what a node offers, or what a watch is about.

use std::fmt;
use std::sync::Arc;

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use smallvec::SmallVec;

use super::kind::{FlowKind, Service, ServiceCode};
use super::metadata::Metadata;
use super::name::Form;
use super::offer::{MAX_OFFERS, MAX_OFFERS_BYTES, Offer};
use crate::refusal::{Refusal, check_bound};

/// Services, each with what its offer tells. A clone is cheap, and one of known services alone is a byte.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ServiceSet {
    /// The known services, with or without an instance: a bit for each.
    known: u8,
    /// Every service that has more to tell than its bit, in the order of services.
    offers: Option<Arc<Vec<Offer>>>,
}

/// The part of a set that is about one service.
#[derive(Debug)]
pub struct ServiceExcerpt<'a> {
    known: u8,
    /// In the order of services, each once.
    offers: SmallVec<[&'a Offer; 4]>,
}

/// A node offers more than a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a node offers at most {MAX_OFFERS} services with names, rates or metadata, of {MAX_OFFERS_BYTES} bytes together"
)]
pub struct TooManyOffers;

const KNOWN: u8 = 0b1111;

/// The most bytes of one node's offers in a list of nodes.
const MAX_LISTED_BYTES: usize = 512;

impl ServiceSet {
    pub const EMPTY: Self = Self { known: 0, offers: None };

    /// The services that every node knows.
    pub const ALL: Self = Self { known: KNOWN, offers: None };

    #[must_use]
    pub fn with(self, service: Service) -> Self {
        self.with_offer(Offer::new(service))
    }

    /// The set with this offer, in place of an offer of the same service.
    #[must_use]
    pub fn with_offer(mut self, offer: Offer) -> Self {
        let was_plain = self.has_plain(offer.service.base());
        let mut offers = self.offers.take().map_or_else(Vec::new, Arc::unwrap_or_clone);
        if let Some(known) = offer.service.code().known() {
            self.known |= 1 << known;
            // The bit alone would mean the instance from now on.
            if was_plain && offer.service != offer.service.base() {
                offers.push(Offer::new(offer.service.base()));
            }
        }
        offers.retain(|held| held.service != offer.service);
        if !offer.is_plain() || offers.iter().any(|held| held.service.base() == offer.service.base()) {
            offers.push(offer);
        }
        offers.sort_by_key(|offer| offer.service);
        self.offers = (!offers.is_empty()).then(|| Arc::new(offers));
        self
    }

    /// True if one of the offers is meant by a request for `service`.
    pub fn contains(&self, service: Service) -> bool {
        match service {
            Service::Named(_) => self.offers().iter().any(|offer| offer.service.satisfies(&service)),
            known => self.known >> known.row() & 1 == 1,
        }
    }

    /// True if one of the offers is meant by a request for `service` with this metadata.
    pub fn has(&self, service: Service, metadata: &Metadata) -> bool {
        if metadata.is_empty() {
            return self.contains(service);
        }
        let meant = |offer: &&Offer| offer.service.satisfies(&service) && offer.metadata.includes(metadata);
        self.offers().iter().any(|offer| meant(&offer))
    }

    /// The offer that a request for `service` with this metadata gets; the first one of several.
    pub fn offer(&self, service: Service, metadata: &Metadata) -> Option<Offer> {
        let meant = |offer: &&Offer| offer.service.satisfies(&service) && offer.metadata.includes(metadata);
        let told = self.offers().iter().find(meant).cloned();
        told.or_else(|| (metadata.is_empty() && self.has_plain(service)).then(|| Offer::new(service)))
    }

    /// The form of the data of such a service, with the rate or size that its offer tells.
    pub fn flow_kind(&self, service: Service) -> FlowKind {
        let told = self.offers().iter().find(|offer| offer.service.satisfies(&service));
        told.map_or_else(|| service.flow_kind(), Offer::flow_kind)
    }

    /// The bits of known services, if the set is no more than that.
    pub fn plain_bits(&self) -> Option<u8> {
        self.offers.is_none().then_some(self.known)
    }

    /// The number of sets that are no more than their bits.
    pub const PLAIN_SETS: usize = KNOWN as usize + 1;

    pub fn of_plain_bits(bits: u8) -> &'static Self {
        static PLAIN: [ServiceSet; ServiceSet::PLAIN_SETS] = {
            let mut sets = [const { ServiceSet::EMPTY }; ServiceSet::PLAIN_SETS];
            let mut bits = 0;
            while bits <= KNOWN {
                sets[bits as usize].known = bits;
                bits += 1;
            }
            sets
        };
        &PLAIN[usize::from(bits & KNOWN)]
    }

    /// Memory beside the set itself, bytes; clones share it.
    pub fn heap_bytes(&self) -> usize {
        self.offers().iter().map(|offer| size_of::<Offer>() + offer.bytes()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.known == 0 && self.offers.is_none()
    }

    /// The offers that have more to tell than one of [`Service::ALL`].
    pub fn offers(&self) -> &[Offer] {
        self.offers.as_ref().map_or(&[], |offers| offers)
    }

    /// The services in the set, in their usual order; instances count one by one.
    pub fn iter(&self) -> impl Iterator<Item = Service> + '_ {
        let plain = Service::ALL.into_iter().filter(|service| self.has_plain(*service));
        plain.chain(self.offers().iter().map(|offer| offer.service))
    }

    /// The codes of the services, each once.
    pub fn codes(&self) -> impl Iterator<Item = ServiceCode> + '_ {
        let known = Service::ALL.into_iter().filter(|service| self.contains(*service)).map(Service::code);
        let offers = self.offers();
        let codes = offers.iter().enumerate().map(|(number, offer)| (number, offer.service.code()));
        let own = codes.filter(|(number, code)| {
            code.known().is_none() && offers[..*number].iter().all(|before| before.service.code() != *code)
        });
        known.chain(own.map(|(_, code)| code))
    }

    /// The services for which `holds` is true.
    #[must_use]
    pub fn filtered(&self, mut holds: impl FnMut(Service) -> bool) -> Self {
        let plain = Service::ALL.into_iter().filter(|service| self.has_plain(*service) && holds(*service));
        let plain = plain.fold(0, |bits, service| bits | 1 << service.row());
        let mut set = Self { known: plain, offers: None };
        let kept: Vec<Offer> = self.offers().iter().filter(|offer| holds(offer.service)).cloned().collect();
        for code in kept.iter().filter_map(|offer| offer.service.code().known()) {
            set.known |= 1 << code;
        }
        set.offers = (!kept.is_empty()).then(|| Arc::new(kept));
        set
    }

    /// The offers of one service with its instances, as far as an answer has room for them, and all known services. The
    /// ones that a request for `service` with this metadata means go first.
    #[must_use]
    pub fn about(&self, service: Service, metadata: &Metadata) -> Self {
        let ServiceExcerpt { known, offers } = self.excerpt(service, metadata);
        let offers = (!offers.is_empty()).then(|| Arc::new(offers.into_iter().cloned().collect()));
        Self { known, offers }
    }

    /// [`Self::about`], without a copy.
    pub fn excerpt(&self, service: Service, metadata: &Metadata) -> ServiceExcerpt<'_> {
        let base = service.base();
        let family = self.offers().iter().filter(|offer| offer.service.satisfies(&base));
        let is_meant = |offer: &Offer| offer.service.satisfies(&service) && offer.metadata.includes(metadata);
        let mut offers: SmallVec<[&Offer; 4]> = SmallVec::new();
        let mut room = MAX_LISTED_BYTES;
        for meant in [true, false] {
            for offer in family.clone().filter(|offer| is_meant(offer) == meant) {
                if let Some(rest) = room.checked_sub(offer.bytes()) {
                    room = rest;
                    offers.push(offer);
                }
            }
        }
        if offers.len() > 1 {
            offers.sort_unstable_by_key(|offer| offer.service);
        }
        ServiceExcerpt { known: self.known, offers }
    }

    /// No fewer bytes than [`Self::about`] takes in a message.
    pub fn listed_bytes(&self) -> usize {
        self.bytes().min(MAX_LISTED_BYTES)
    }

    /// True if a list of nodes has room for the set.
    pub(crate) fn is_brief(&self) -> bool {
        self.bytes() <= MAX_LISTED_BYTES
    }

    /// True if the form of every offer is known.
    pub(crate) fn has_forms(&self) -> bool {
        self.offers().iter().all(|offer| offer.service.form() != Form::Any)
    }

    /// No fewer bytes than the offers take in a message.
    fn bytes(&self) -> usize {
        self.offers().iter().map(Offer::bytes).sum()
    }

    /// Makes a set of offers.
    ///
    /// # Errors
    /// Fails when they are more than a record holds.
    pub fn from_offers(offers: impl IntoIterator<Item = Offer>) -> Result<Self, TooManyOffers> {
        let set = offers.into_iter().fold(Self::EMPTY, Self::with_offer);
        set.check_limits().map_err(|_| TooManyOffers)?;
        Ok(set)
    }

    pub(crate) fn check_limits(&self) -> Result<(), Refusal> {
        check_bound(self.offers().len() <= MAX_OFFERS && self.bytes() <= MAX_OFFERS_BYTES, "too many offers")
    }

    /// True if a known service has its bit and no offer in the list.
    fn has_plain(&self, service: Service) -> bool {
        let is_known = !matches!(service, Service::Named(_)) && self.contains(service);
        is_known && self.offers().iter().all(|offer| offer.service.base() != service)
    }
}

impl FromIterator<Service> for ServiceSet {
    fn from_iter<I: IntoIterator<Item = Service>>(services: I) -> Self {
        services.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for ServiceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Bits alone are a number. With offers it is an array of the other services' bits and the offers.
impl<C> Encode<C> for ServiceSet {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        match &self.offers {
            None => e.u8(self.known)?.ok(),
            Some(offers) => e.array(2)?.u8(plain(self.known, &**offers))?.encode_with(offers.as_slice(), ctx)?.ok(),
        }
    }
}

/// As the set of the same offers.
impl<C> Encode<C> for ServiceExcerpt<'_> {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        if self.offers.is_empty() {
            return e.u8(self.known)?.ok();
        }
        let plain = plain(self.known, self.offers.iter().copied());
        e.array(2)?.u8(plain)?.encode_with(self.offers.as_slice(), ctx)?.ok()
    }
}

/// Of these bits of known services those that have no offer in the list.
fn plain<'a>(known: u8, offers: impl IntoIterator<Item = &'a Offer>) -> u8 {
    // The row of own services has no bit in `known`.
    known & !offers.into_iter().fold(0, |bits, offer| bits | 1 << offer.service.row())
}

impl<'b, C> Decode<'b, C> for ServiceSet {
    /// Leaves out known services of later versions.
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        if !matches!(d.datatype()?, Type::Array) {
            return Ok(Self { known: d.u64()? as u8 & KNOWN, offers: None });
        }
        if d.array()? != Some(2) {
            return Err(DecodeError::message("a set of services is its bits and its offers"));
        }
        let known = d.u64()? as u8 & KNOWN;
        let count = d.array()?.filter(|count| *count <= MAX_OFFERS as u64);
        let count = count.ok_or_else(|| DecodeError::message("too many offers"))?;
        let mut set = Self { known, offers: None };
        for _ in 0..count {
            let offer = Offer::decode(d, ctx)?;
            offer.check_limits()?;
            set = set.with_offer(offer);
        }
        set.check_limits()?;
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn service(text: &str) -> Service {
        text.parse().unwrap()
    }

    fn offers() -> impl Strategy<Value = ServiceSet> {
        let texts =
            ["video", "track", "image", "sensor", "video#bow", "video#mast", "acme/lidar:stream", "acme/map:object"];
        let offer = (prop::sample::select(texts.to_vec()), prop::option::of(1_u32..5_000), any::<bool>()).prop_map(
            |(text, kbps, ir)| {
                let metadata = if ir { "sensor=ir".parse().unwrap() } else { Metadata::default() };
                Offer { kbps, metadata, ..Offer::new(service(text)) }
            },
        );
        prop::collection::vec(offer, 0..8).prop_map(|offers| ServiceSet::from_offers(offers).unwrap())
    }

    #[test]
    fn instances_stand_beside_their_service() {
        let only_bow = ServiceSet::EMPTY.with(service("video#bow"));
        assert!(only_bow.contains(Service::Video) && only_bow.contains(service("video#bow")));
        assert_eq!(only_bow.iter().collect::<Vec<_>>(), [service("video#bow")]);
        for both in
            [only_bow.clone().with(Service::Video), ServiceSet::EMPTY.with(Service::Video).with(service("video#bow"))]
        {
            assert_eq!(both.iter().collect::<Vec<_>>(), [Service::Video, service("video#bow")]);
            assert_eq!(both.codes().count(), 1);
        }
        assert!(!ServiceSet::ALL.contains(service("video#bow")));
    }

    #[test]
    fn metadata_selects_an_offer() {
        let ir = Offer { metadata: "sensor=ir".parse().unwrap(), ..Offer::new(service("video#bow")) };
        let set = ServiceSet::EMPTY.with(service("video#mast")).with_offer(ir.clone());
        assert_eq!(set.offer(Service::Video, &ir.metadata), Some(ir.clone()));
        assert!(!set.has(service("video#mast"), &ir.metadata) && set.has(Service::Video, &ir.metadata));
        assert!(!ServiceSet::ALL.has(Service::Video, &ir.metadata));
        assert_eq!(ServiceSet::ALL.offer(Service::Video, &Metadata::default()), Some(Offer::new(Service::Video)));
    }

    #[test]
    fn unknown_form_is_about_every_form() {
        let set = ServiceSet::EMPTY.with(service("acme/lidar#bow:stream")).with(service("acme/map:object"));
        let about = set.about(service("acme/lidar"), &Metadata::EMPTY);
        assert_eq!(about.iter().collect::<Vec<_>>(), [service("acme/lidar#bow:stream")]);
    }

    #[test]
    fn answer_has_the_offer_that_is_meant() {
        let offer = |number: usize| Offer {
            metadata: format!("place={number},note={}", "x".repeat(60)).parse().unwrap(),
            ..Offer::new(service(&format!("acme/lidar#i{number}:stream")))
        };
        let set = ServiceSet::from_offers((0..8).map(offer)).unwrap();
        let (last, place) = (service("acme/lidar#i7:stream"), "place=6".parse().unwrap());
        let about = set.about(last, &Metadata::EMPTY);
        assert!(about.contains(last) && about.bytes() <= MAX_LISTED_BYTES && about.offers().len() > 1);
        assert!(set.about(service("acme/lidar"), &place).has(service("acme/lidar"), &place));
    }

    #[test]
    fn too_many_offers_are_refused() {
        let many = |count: usize| (0..count).map(|number| Offer::new(service(&format!("a/{number}:object"))));
        assert!(ServiceSet::from_offers(many(MAX_OFFERS)).is_ok());
        assert_eq!(ServiceSet::from_offers(many(MAX_OFFERS + 1)), Err(TooManyOffers));
        let set = many(MAX_OFFERS + 1).fold(ServiceSet::EMPTY, ServiceSet::with_offer);
        assert!(minicbor::decode::<ServiceSet>(&minicbor::to_vec(&set).unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn sets_read_back(set in offers()) {
            let bytes = minicbor::to_vec(&set).unwrap();
            prop_assert_eq!(minicbor::decode::<ServiceSet>(&bytes).unwrap(), set);
        }

        #[test]
        fn a_part_contains_what_it_keeps(set in offers(), number in 0_usize..4) {
            let kept = Service::ALL[number];
            let part = set.filtered(|service| service.base() == kept);
            prop_assert_eq!(part.contains(kept), set.contains(kept));
            prop_assert!(part.iter().all(|service| service.base() == kept));
            prop_assert_eq!(set.filtered(|_| true), set.clone());
            let excerpt = minicbor::to_vec(set.excerpt(kept, &Metadata::EMPTY)).unwrap();
            prop_assert_eq!(excerpt, minicbor::to_vec(set.about(kept, &Metadata::EMPTY)).unwrap());
            prop_assert_eq!(set.about(kept, &Metadata::EMPTY).offer(kept, &Metadata::EMPTY), set.offer(kept, &Metadata::default()));
        }
    }
}
