//! The delivery of messages: a transport's orders for each, and the choices of a request.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use minicbor::Encode;

use crate::open::open;
use crate::service::{Form, Service};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// At most once, without order or retransmission. The default for control,
    /// which is idempotent and retried by the machine that asks.
    Datagram,
    /// Exactly once, in the order sent among the messages of the same flow.
    /// Flows do not wait for one another.
    Reliable { flow: u32 },
}

/// Over which of its paths a connection sends a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum DeliveryClass {
    /// Each chunk over the path where it is through first: for throughput.
    #[n(0)]
    #[default]
    Stripe,
    /// Over all paths at once: for what must be there at the first attempt.
    #[n(1)]
    Duplicate,
    /// Over the first path, and the next only while that does not answer: for
    /// networks where the others cost.
    #[n(2)]
    Backup,
}

open!(DeliveryClass, [Stripe, Duplicate, Backup]);

impl DeliveryClass {
    pub const ALL: [Self; 3] = [Self::Stripe, Self::Duplicate, Self::Backup];

    /// The class's name in flags, settings and queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stripe => "stripe",
            Self::Duplicate => "duplicate",
            Self::Backup => "backup",
        }
    }
}

impl fmt::Display for DeliveryClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown class {0:?}: expected stripe, duplicate or backup")]
pub struct ParseDeliveryClassError(String);

impl FromStr for DeliveryClass {
    type Err = ParseDeliveryClassError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|class| class.name() == text).ok_or_else(|| ParseDeliveryClassError(text.to_owned()))
    }
}

/// The classes in which a provider sends what is asked for without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryClasses {
    pub video: DeliveryClass,
    pub track: DeliveryClass,
    pub image: DeliveryClass,
    pub sensor: DeliveryClass,
}

impl DeliveryClasses {
    /// The class for the data of a service.
    pub const fn for_service(self, service: Service) -> DeliveryClass {
        match service.base() {
            Service::Video => self.video,
            Service::Track => self.track,
            Service::Image => self.image,
            Service::Sensor => self.sensor,
            Service::Named(_) => DeliveryClass::Stripe,
        }
    }
}

/// A request's choice of delivery for its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPreferences {
    /// The use of the data, which decides the rest.
    pub profile: Option<Profile>,
    /// Over which paths, whatever the profile says of that.
    pub class: Option<DeliveryClass>,
}

impl DeliveryPreferences {
    /// Adds this class if neither the request nor its profile has one.
    pub fn or_class(self, usual: DeliveryClass) -> Self {
        let asked = self.class.or_else(|| self.profile.and_then(Profile::class));
        Self { class: Some(asked.unwrap_or(usual)), ..self }
    }

    /// True if a stream must come whole and in order.
    pub fn is_whole(self) -> bool {
        self.profile.is_some_and(Profile::is_whole)
    }
}

/// Orders for a message, beside its channel. A transport does what it can: over UDP and TCP, which have one
/// path, classes make no difference; over UDP datagrams never wait, so that none goes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub class: DeliveryClass,
    /// Waiting messages leave in this order: 0 is the most urgent, 7 the least. All messages of a flow must
    /// have the same. Default 3.
    pub priority: u8,
    /// After how long, beyond the round trip, a message that has not arrived is
    /// of no use any more and is given up, wherever it is. Default: never for
    /// reliable messages, for datagrams half a second or four round trips.
    pub lifetime: Option<Duration>,
}

impl Default for Delivery {
    fn default() -> Self {
        Self { class: DeliveryClass::Stripe, priority: 3, lifetime: None }
    }
}

/// The priority of a service under [`Profile::Piloting`], and of one under
/// [`Profile::Command`]: before and after all others.
const FIRST: u8 = 1;
const LAST: u8 = 6;

impl Delivery {
    /// Messages of nodes and hubs about requests, leases and one another: they are small, and others wait for
    /// them.
    pub const CONTROL: Self = Self { class: DeliveryClass::Duplicate, priority: 0, lifetime: None };

    /// The data of a service: track before sensor, video, image. Own streams go as video does, own objects as images.
    pub const fn for_service(service: Service) -> Self {
        let priority = match service.base() {
            Service::Track => 2,
            Service::Sensor => 3,
            Service::Video => 4,
            Service::Image => 5,
            Service::Named(name) if matches!(name.form(), Form::Stream) => 4,
            Service::Named(_) => 5,
        };
        Self { class: DeliveryClass::Stripe, priority, lifetime: None }
    }

    /// The data of a request that asked for it in a particular way.
    pub fn for_request(service: Service, terms: DeliveryPreferences) -> Self {
        let usual = Self::for_service(service);
        let DeliveryPreferences { class, profile } = terms.or_class(usual.class);
        let priority = match profile {
            None | Some(Profile::Surveillance) => usual.priority,
            Some(Profile::Command) => LAST,
            Some(Profile::Piloting) => FIRST,
        };
        let life = profile.and_then(Profile::lifetime).filter(|_| service.is_stream());
        Self { class: class.unwrap_or(usual.class), priority, lifetime: life }
    }

    /// The orders for this channel: reliable messages, such as the end of a stream, never come too late.
    pub fn on_channel(self, channel: Channel) -> Self {
        match channel {
            Channel::Datagram => self,
            Channel::Reliable { .. } => Self { lifetime: None, ..self },
        }
    }
}

/// A requester's priority, from the mission requirements of *Using SCTP to Improve QoS and Network
/// Fault-Tolerance of DRE Systems* (2004). Without one a stream's datagrams may be lost or overtake one
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum Profile {
    /// To steer by: the lowest latency. Over all paths at once and before all
    /// other data; what of a stream is late is dropped, and counted.
    #[n(0)]
    Piloting,
    /// To see everything as it happens: a stream comes whole and in order, and
    /// goes on where it was when the connection breaks.
    #[n(1)]
    Surveillance,
    /// To decide by: fidelity, whatever time it takes. As surveillance, but
    /// after all other data.
    #[n(2)]
    Command,
}

open!(Profile, [Piloting, Surveillance, Command]);

impl Profile {
    pub const ALL: [Self; 3] = [Self::Piloting, Self::Surveillance, Self::Command];

    /// The profile's name in flags and queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Piloting => "piloting",
            Self::Surveillance => "surveillance",
            Self::Command => "command",
        }
    }

    /// The delay after the quickest datagram at which a stream's datagram is of no more use; `None` if there is
    /// none. People who steer notice about a quarter of a second.
    pub const fn lifetime(self) -> Option<Duration> {
        match self {
            Self::Piloting => Some(Duration::from_millis(250)),
            Self::Surveillance | Self::Command => None,
        }
    }

    /// Over which paths, if it says something of that.
    pub const fn class(self) -> Option<DeliveryClass> {
        match self {
            Self::Piloting => Some(DeliveryClass::Duplicate),
            Self::Surveillance | Self::Command => None,
        }
    }

    /// True if a stream must come whole and in order.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Surveillance | Self::Command)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile {0:?}: expected piloting, surveillance or command")]
pub struct ParseProfileError(String);

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|profile| profile.name() == text).ok_or_else(|| ParseProfileError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_has_priority_over_services() {
        let services = [Service::Track, Service::Sensor, Service::Video, Service::Image];
        let order = [Delivery::CONTROL].into_iter().chain(services.map(Delivery::for_service));
        assert!(order.map(|delivery| delivery.priority).is_sorted_by(|before, after| before < after));
    }

    #[test]
    fn profiles_order_data_priority() {
        for service in Service::ALL {
            let [first, usual, last] = [Some(Profile::Piloting), None, Some(Profile::Command)]
                .map(|profile| Delivery::for_request(service, DeliveryPreferences { profile, class: None }).priority);
            let all = Service::ALL.map(|service| Delivery::for_service(service).priority);
            assert!(all.iter().all(|other| first < *other && *other < last) && all.contains(&usual));
            assert!(Delivery::CONTROL.priority < first);
        }
        // An object is of no use in parts.
        let piloting = DeliveryPreferences { profile: Some(Profile::Piloting), class: None };
        assert_eq!(Delivery::for_request(Service::Image, piloting).lifetime, None);
        let video = Delivery::for_request(Service::Video, piloting);
        assert!(
            video.on_channel(Channel::Datagram).lifetime.is_some()
                && video.on_channel(Channel::Reliable { flow: 1 }).lifetime.is_none()
        );
    }

    #[test]
    fn request_class_overrides_profile_and_provider() {
        let class = |profile, class, usual| {
            Delivery::for_request(Service::Video, DeliveryPreferences { profile, class }.or_class(usual)).class
        };
        let (stripe, duplicate, backup) = (DeliveryClass::Stripe, DeliveryClass::Duplicate, DeliveryClass::Backup);
        assert_eq!(class(None, None, backup), backup);
        assert_eq!(class(Some(Profile::Command), None, backup), backup);
        assert_eq!(class(Some(Profile::Piloting), None, backup), duplicate);
        assert_eq!(class(Some(Profile::Piloting), Some(stripe), backup), stripe);
        assert_eq!(class(None, Some(backup), stripe), backup);
        // The profile keeps everything else.
        let terms = DeliveryPreferences { profile: Some(Profile::Piloting), class: Some(backup) };
        let usual = DeliveryPreferences { class: None, ..terms };
        let [asked, usual] = [terms, usual].map(|terms| Delivery::for_request(Service::Video, terms));
        assert_eq!(asked, Delivery { class: backup, ..usual });
        for class in DeliveryClass::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert!("both".parse::<DeliveryClass>().is_err());
    }

    #[test]
    fn profile_parses_from_its_name() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert!("watching".parse::<Profile>().is_err());
    }
}
