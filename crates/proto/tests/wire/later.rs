//! Messages and values of later versions are skipped, and what is around them is read.

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use proptest::prelude::*;
use roost_proto::wire::{
    Capabilities, Coverage, Decline, Hello, HopAction, HopReport, LookupResult, Message, ProtocolVersion, PushState,
    Reason, RouteDirection, WatchChange, WireError,
};
use roost_proto::{Scope, ServiceSet};

use super::messages::{
    addresses, change_message, decline_message, found_message, inquiry_message, pushed_message, record,
    request_with_params, traced_message, watch_message,
};

/// An item of CBOR, as far as its arrays can be edited.
#[derive(Clone)]
enum Item {
    Array(Vec<Self>),
    Other(Vec<u8>),
}

impl Item {
    fn read(decoder: &mut Decoder<'_>) -> Self {
        if decoder.datatype().unwrap() == Type::Array {
            let length = decoder.array().unwrap().unwrap();
            return Self::Array((0..length).map(|_| Self::read(decoder)).collect());
        }
        let start = decoder.position();
        decoder.skip().unwrap();
        Self::Other(decoder.input()[start..decoder.position()].to_vec())
    }

    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Array(items) => {
                Encoder::new(&mut *into).array(items.len() as u64).unwrap();
                items.iter().for_each(|item| item.write(into));
            }
            Self::Other(bytes) => into.extend(bytes),
        }
    }

    fn number(number: u64) -> Self {
        Self::Other(minicbor::to_vec(number).unwrap())
    }

    fn items(&mut self) -> &mut Vec<Self> {
        match self {
            Self::Array(items) => items,
            Self::Other(bytes) => panic!("{bytes:?} is no array"),
        }
    }

    fn at(&mut self, path: &[usize]) -> &mut Self {
        path.iter().fold(self, |item, index| &mut item.items()[*index])
    }
}

/// The message with the item at `path` in its array changed.
fn edited(message: &Message, path: &[usize], change: impl FnOnce(&mut Item)) -> Vec<u8> {
    let mut item = Item::read(&mut Decoder::new(&message.encode()));
    change(item.at(path));
    let mut bytes = Vec::new();
    item.write(&mut bytes);
    bytes
}

fn with_number(message: &Message, path: &[usize], number: u64) -> Vec<u8> {
    edited(message, path, |item| *item = Item::number(number))
}

/// Numbers that no enumeration has yet.
fn unknown() -> impl Strategy<Value = u64> {
    prop_oneof![20..24u64, 24..256u64, 256..65_536u64, (1 << 40..1u64 << 62)]
}

proptest! {
    #[test]
    fn unknown_messages_are_of_later_versions(number in unknown(), body in any::<Vec<u8>>(), nested in any::<u8>()) {
        let number = number.saturating_add(200);
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        encoder.array(3).unwrap().u64(number).unwrap().bytes(&body).unwrap().array(1).unwrap().u8(nested).unwrap();
        prop_assert_eq!(Message::decode(&bytes), Err(WireError::LaterVersion(number)));
    }

    #[test]
    fn unknown_transports_leave_other_addresses(
        record in record(),
        scheme in unknown(),
        at in any::<prop::sample::Index>(),
        rest in prop::collection::vec(any::<u64>(), 0..9),
    ) {
        let at = at.index(record.addresses.len() + 1);
        let mut address = vec![Item::number(scheme)];
        address.extend(rest.into_iter().map(|number| Item::Array(vec![Item::number(number)])));
        let message = Message::Publish(record);
        let bytes = edited(&message, &[1, 5], |list| list.items().insert(at, Item::Array(address)));
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn unknown_transports_leave_optional_lists(
        hub in super::messages::node(),
        list in addresses(),
        scheme in unknown(),
    ) {
        let message = Message::SetStandby { hub, addresses: Some(list) };
        let address = Item::Array(vec![Item::number(scheme), Item::Other(b"\x64name".to_vec())]);
        let bytes = edited(&message, &[2], |list| list.items().push(address));
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn unknown_services_leave_known_ones(record in record(), bits in any::<u64>()) {
        let mut expected = record.clone();
        expected.services = ServiceSet::ALL;
        let bytes = with_number(&Message::Publish(record), &[1, 3], bits | 0b1111);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Publish(expected)));
    }

    #[test]
    fn unknown_reasons_are_unspecified(decline in decline_message(), reason in unknown()) {
        let bytes = with_number(&Message::Decline(decline), &[1, 1], reason);
        let expected = Message::Decline(Decline { reason: Reason::Unspecified, ..decline });
        prop_assert_eq!(Message::decode(&bytes), Ok(expected));
    }

    #[test]
    fn unknown_coverage_is_partial(found in found_message(), change in change_message(), coverage in unknown()) {
        let bytes = with_number(&Message::LookupResult(found.clone()), &[1, 2], coverage);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::LookupResult(LookupResult { coverage: Coverage::Partial, ..found })));
        let change = WatchChange { coverage: Some(Coverage::Complete), ..change };
        let bytes = with_number(&Message::WatchChange(change.clone()), &[1, 4], coverage);
        let expected = WatchChange { coverage: Some(Coverage::Partial), ..change };
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::WatchChange(expected)));
    }

    #[test]
    fn unknown_ways_lead_no_further(mut watch in watch_message(), way in unknown()) {
        watch.direction = Some(RouteDirection::Up);
        let bytes = with_number(&Message::Watch(watch.clone()), &[1, 4], way);
        watch.direction = Some(RouteDirection::Down);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Watch(watch)));
    }

    #[test]
    fn unknown_wishes_are_no_wishes(mut request in request_with_params(), number in unknown(), bits in any::<u64>()) {
        request.scope = Some(Scope::Area);
        let item = |message: &Message, path: &[usize]| with_number(message, path, number);
        let mut expected = request.clone();
        expected.scope = Some(Scope::Home);
        let message = Message::Request(request.clone());
        prop_assert_eq!(Message::decode(&item(&message, &[1, 8])), Ok(Message::Request(expected)));
        for place in [3, 8] {
            let mut expected = request.clone();
            let params = expected.params.as_mut().unwrap();
            if place == 3 { params.profile = None } else { params.delivery_class = None }
            prop_assert_eq!(Message::decode(&item(&message, &[1, 7, place])), Ok(Message::Request(expected)));
        }
        let mut expected = request;
        expected.params.as_mut().unwrap().transports = Some(roost_proto::SchemeSet::ALL);
        let bytes = with_number(&message, &[1, 7, 1], bits | 0b111);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Request(expected)));
    }

    #[test]
    fn requests_for_unknown_services_are_later(request in request_with_params(), number in unknown()) {
        let message = Message::Request(request);
        for path in [&[1, 2][..], &[1, 3, 0], &[1, 4]] {
            prop_assert_eq!(Message::decode(&with_number(&message, path, number)), Err(WireError::LaterVersion(5)));
        }
    }

    #[test]
    fn inquiries_keep_their_known_addresses(inquiry in inquiry_message(), scheme in unknown()) {
        let message = Message::MulticastRequest(inquiry);
        let address = Item::Array(vec![Item::number(scheme)]);
        let bytes = edited(&message, &[1, 6], |list| list.items().insert(0, address));
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn unknown_reports_are_told_as_such(traced in traced_message(), id in super::messages::id(), number in unknown()) {
        let bytes = with_number(&Message::HopReport(traced.clone()), &[1, 2, 3], number);
        let mut hop = traced.hop.clone();
        hop.step = HopAction::Unknown;
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::HopReport(HopReport { hop, ..traced })));
        let bytes = with_number(&pushed_message(id), &[2], number);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::PushStatus { id, state: PushState::Unspecified }));
    }

    #[test]
    fn a_later_hello_is_read(major in any::<u16>(), minor in any::<u16>(), bits in any::<u64>(), more in any::<u64>()) {
        let protocol = ProtocolVersion { major, minor };
        let message = Message::Hello(Hello { protocol, capabilities: Capabilities::NONE, clock_s: Some(bits) });
        let bytes = edited(&message, &[1], |hello| {
            hello.items()[1] = Item::number(bits);
            hello.items().push(Item::Array(vec![Item::number(more)]));
        });
        let Ok(Message::Hello(hello)) = Message::decode(&bytes) else { panic!() };
        prop_assert_eq!(hello.protocol, protocol);
        prop_assert_eq!(hello.capabilities.contains_all(Capabilities::SKIPS_UNKNOWN), bits & 1 != 0);
        prop_assert_eq!(hello.refusal().is_none(), major == ProtocolVersion::CURRENT.major);
    }
}

#[test]
fn a_hello_takes_thirteen_bytes() {
    let hello = Hello { clock_s: Some(1_800_000_000), ..Hello::OWN };
    assert_eq!((Message::Hello(Hello::OWN).encode().len(), Message::Hello(hello).encode().len()), (8, 13));
}
