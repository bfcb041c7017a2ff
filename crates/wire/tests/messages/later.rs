//! Messages and values of later versions are skipped, and what is around them is read.

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use proptest::prelude::*;
use roost_wire::messages::{
    Capabilities, Coverage, Decline, DirectoryMessage, Hello, Holdings, HopAction, HopReport, LookupResult,
    MAX_SENTENCE_BYTES, Message, MulticastMessage, ProbeMessage, ProtocolVersion, PushState, Reason, ReflectionPolicy,
    RegistrationMessage, RequestMessage, RouteDirection, ServiceRequest, StatedDatum, WatchChange, WireError,
};
use roost_wire::{SchemeSet, Scope, ServiceSet};

use super::messages::{change_message, decline_message, found_message, pushed_message, traced_message, watch_message};
use super::requests::{full_request, multicast_request};
use super::words::{addresses, record};

/// An item of CBOR, as far as its arrays and maps can be edited.
#[derive(Clone)]
enum Item {
    Array(Vec<Self>),
    Map(Vec<(u64, Self)>),
    Other(Vec<u8>),
}

impl Item {
    fn read(decoder: &mut Decoder<'_>) -> Self {
        if decoder.datatype().unwrap() == Type::Array {
            let length = decoder.array().unwrap().unwrap();
            return Self::Array((0..length).map(|_| Self::read(decoder)).collect());
        }
        if decoder.datatype().unwrap() == Type::Map {
            let length = decoder.map().unwrap().unwrap();
            return Self::Map((0..length).map(|_| (decoder.u64().unwrap(), Self::read(decoder))).collect());
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
            Self::Map(fields) => {
                Encoder::new(&mut *into).map(fields.len() as u64).unwrap();
                for (key, item) in fields {
                    Encoder::new(&mut *into).u64(*key).unwrap();
                    item.write(into);
                }
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
            Self::Map(_) | Self::Other(_) => panic!("no array"),
        }
    }

    fn fields(&mut self) -> &mut Vec<(u64, Self)> {
        match self {
            Self::Map(fields) => fields,
            Self::Array(_) | Self::Other(_) => panic!("no map"),
        }
    }

    /// The item at a path of indices and keys.
    fn at(&mut self, path: &[usize]) -> &mut Self {
        path.iter().fold(self, |item, step| match item {
            Self::Map(fields) => &mut fields.iter_mut().find(|(key, _)| *key == *step as u64).unwrap().1,
            item => &mut item.items()[*step],
        })
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
        let message = Message::Registration(RegistrationMessage::Publish(record));
        let bytes = edited(&message, &[1, 5], |list| list.items().insert(at, Item::Array(address)));
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn unknown_transports_leave_optional_lists(
        hub in super::words::node(),
        list in addresses(),
        scheme in unknown(),
    ) {
        let message = Message::Registration(RegistrationMessage::SetStandby { hub, addresses: Some(list) });
        let address = Item::Array(vec![Item::number(scheme), Item::Other(b"\x64name".to_vec())]);
        let bytes = edited(&message, &[2], |list| list.items().push(address));
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn unknown_services_leave_known_ones(record in record(), bits in any::<u64>()) {
        let mut expected = record.clone();
        expected.services = ServiceSet::ALL;
        let bytes = with_number(&Message::Registration(RegistrationMessage::Publish(record)), &[1, 3], bits | 0b1111);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Registration(RegistrationMessage::Publish(expected))));
    }

    #[test]
    fn unknown_reasons_are_unspecified(decline in decline_message(), reason in unknown()) {
        let bytes = with_number(&Message::Request(RequestMessage::Decline(decline.clone())), &[1, 1], reason);
        let expected = Message::Request(RequestMessage::Decline(Decline { reason: Reason::Unspecified, ..decline }));
        prop_assert_eq!(Message::decode(&bytes), Ok(expected));
    }

    #[test]
    fn sentences_are_added_to_earlier_declines(decline in decline_message(), more in unknown()) {
        let message = |decline: &Decline| Message::Request(RequestMessage::Decline(decline.clone()));
        let earlier = Decline { sentence: None, ..decline.clone() };
        let said = Decline { sentence: Some("no map of there".parse().unwrap()), ..decline };
        // The fields of a build without it.
        let cut = edited(&message(&said), &[1], |decline| decline.items().truncate(4));
        prop_assert_eq!(Message::decode(&cut), Ok(message(&earlier)));
        // A later build may add another one.
        let later = edited(&message(&said), &[1], |decline| decline.items().push(Item::Array(vec![Item::number(more)])));
        prop_assert_eq!(Message::decode(&later), Ok(message(&said)));
    }

    #[test]
    fn declines_with_other_texts_are_malformed(decline in decline_message(), at in 0..5usize) {
        let said = Decline { sentence: Some("no map of there".parse().unwrap()), ..decline };
        let texts = [String::new(), "x".repeat(MAX_SENTENCE_BYTES + 1), "x".repeat(60_000), "two\nlines".to_owned(), "\u{1b}[2J".to_owned()];
        let bytes = edited(&Message::Request(RequestMessage::Decline(said)), &[1, 4], |text| {
            *text = Item::Other(minicbor::to_vec(&texts[at]).unwrap());
        });
        prop_assert!(Message::decode(&bytes).is_err());
    }

    #[test]
    fn unknown_coverage_is_partial(found in found_message(), change in change_message(), coverage in unknown()) {
        let bytes = with_number(&Message::Directory(DirectoryMessage::LookupResult(found.clone())), &[1, 2], coverage);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Directory(DirectoryMessage::LookupResult(LookupResult { coverage: Coverage::Partial, ..found }))));
        let change = WatchChange { coverage: Some(Coverage::Complete), ..change };
        let bytes = with_number(&Message::Directory(DirectoryMessage::WatchChange(change.clone())), &[1, 4], coverage);
        let expected = WatchChange { coverage: Some(Coverage::Partial), ..change };
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Directory(DirectoryMessage::WatchChange(expected))));
    }

    #[test]
    fn unknown_ways_lead_no_further(mut watch in watch_message(), way in unknown()) {
        watch.direction = Some(RouteDirection::Up);
        let bytes = with_number(&Message::Directory(DirectoryMessage::Watch(watch.clone())), &[1, 4], way);
        watch.direction = Some(RouteDirection::Down);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Directory(DirectoryMessage::Watch(watch))));
    }

    #[test]
    fn unknown_values_of_options_are_defaults(request in full_request(), number in unknown(), bits in any::<u64>()) {
        let message = Message::Request(RequestMessage::Request(request.clone()));
        let read = |key, value| match Message::decode(&with_number(&message, &[1, 2, key], value)) {
            Ok(Message::Request(RequestMessage::Request(request))) => ServiceRequest::clone(&request.spec),
            other => panic!("{other:?}"),
        };
        let spec = || ServiceRequest::clone(&request.spec);
        prop_assert_eq!(read(2, number), ServiceRequest { scope: Scope::Home, ..spec() });
        prop_assert_eq!(read(6, bits | 0b111), ServiceRequest { transports: SchemeSet::ALL, ..spec() });
        prop_assert_eq!(read(7, number), ServiceRequest { profile: None, ..spec() });
        prop_assert_eq!(read(8, number), ServiceRequest { class: None, ..spec() });
        prop_assert_eq!(read(9, number), ServiceRequest { reflect: ReflectionPolicy::Never, ..spec() });
    }

    #[test]
    fn unknown_options_are_passed_on(request in full_request(), key in 100u64..1 << 40, value in any::<u64>()) {
        let bytes = edited(&Message::Request(RequestMessage::Request(request.clone())), &[1, 2], |spec| {
            spec.fields().push((key, Item::Array(vec![Item::number(value)])));
        });
        let Ok(Message::Request(RequestMessage::Request(read))) = Message::decode(&bytes) else { panic!() };
        prop_assert_eq!(&*read.spec, &*request.spec);
        prop_assert_eq!(&Message::Request(RequestMessage::Request(read)).encode()[..], &bytes[..]);
    }

    #[test]
    fn requests_for_unknown_services_are_later(request in full_request(), number in unknown()) {
        let message = Message::Request(RequestMessage::Request(request));
        for path in [&[1, 2, 0][..], &[1, 2, 1, 0], &[1, 2, 3]] {
            prop_assert_eq!(Message::decode(&with_number(&message, path, number)), Err(WireError::LaterVersion(5)));
        }
    }

    #[test]
    fn multicast_requests_keep_known_addresses(inquiry in multicast_request(), scheme in unknown()) {
        let message = Message::Multicast(MulticastMessage::MulticastRequest(inquiry));
        let address = Item::Array(vec![Item::number(scheme)]);
        let bytes = edited(&message, &[1, 0, 4, 1], |list| list.items().insert(0, address));
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn unknown_reports_are_told_as_such(traced in traced_message(), id in super::words::id(), number in unknown()) {
        let bytes = with_number(&Message::Request(RequestMessage::HopReport(traced.clone())), &[1, 2, 3], number);
        let mut hop = traced.hop.clone();
        hop.step = HopAction::Unknown;
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Request(RequestMessage::HopReport(HopReport { hop, ..traced }))));
        let bytes = with_number(&pushed_message(id), &[2], number);
        prop_assert_eq!(Message::decode(&bytes), Ok(Message::Request(RequestMessage::PushStatus { id, state: PushState::Unspecified })));
    }

    #[test]
    fn a_later_hello_is_read(major in any::<u16>(), minor in any::<u16>(), bits in any::<u64>(), more in any::<u64>()) {
        let protocol = ProtocolVersion { major, minor };
        let datum = Some(StatedDatum { origin: "47.37,8.54".parse().unwrap(), cell_m: 1000 });
        let message = Message::Probe(ProbeMessage::Hello(Hello { protocol, capabilities: Capabilities::NONE, clock_s: Some(bits), holdings: Some(Holdings::default()), datum }));
        let bytes = edited(&message, &[1], |hello| {
            hello.items()[1] = Item::number(bits);
            hello.items().push(Item::Array(vec![Item::number(more)]));
        });
        let Ok(Message::Probe(ProbeMessage::Hello(hello))) = Message::decode(&bytes) else { panic!() };
        prop_assert_eq!(hello.protocol, protocol);
        prop_assert_eq!(hello.capabilities.contains_all(Capabilities::SKIPS_UNKNOWN), bits & 1 != 0);
        prop_assert_eq!(hello.refusal(datum).is_none(), major == ProtocolVersion::CURRENT.major);
    }
}

#[test]
fn datum_takes_sixteen_bytes_more() {
    let hello =
        |datum| Message::Probe(ProbeMessage::Hello(Hello { clock_s: Some(1_800_000_000), datum, ..Hello::OWN }));
    let datum = StatedDatum { origin: "47.37,8.54".parse().unwrap(), cell_m: 1000 };
    let with = hello(Some(datum)).encode();
    assert_eq!(with.len() - hello(None).encode().len(), 16);
    assert_eq!(Message::decode(&with).unwrap(), hello(Some(datum)));
}

#[test]
fn a_hello_takes_thirteen_bytes() {
    let hello = Hello { clock_s: Some(1_800_000_000), ..Hello::OWN };
    assert_eq!(
        (
            Message::Probe(ProbeMessage::Hello(Hello::OWN)).encode().len(),
            Message::Probe(ProbeMessage::Hello(hello)).encode().len()
        ),
        (8, 13)
    );
}
