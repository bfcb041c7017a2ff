use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use roost_core::node::Discovery;
use roost_geo::{Place, PlaceError};
use roost_runtime::config::units::size_bytes;
use roost_runtime::config::{ConfigError, Kind, Setting, Settings};
use roost_runtime::media::MediaAddress;
use roost_services::{SourceSpec, Sources};
use roost_transport::{DEFAULT_GROUPS, MulticastConfig};
use roost_wire::{DeliveryClass, DeliveryClasses, HubName, Role, Service};

use crate::following::PlaceSource;
use crate::inbox::Inbox;
use crate::outbox::Outbox;

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The place as the setting says it: only the group's datum tells the cell of a latitude.
    pub(crate) at: String,
    /// The endpoints of each hub that the node may attach to.
    pub(crate) hubs: Vec<HubName>,
    /// The role that the hubs' certificates must have.
    pub(crate) hub_role: Role,
    pub(crate) offer: Offer,
    /// The duration of a stream that was requested without one.
    pub(crate) stream_duration: Duration,
    /// The delivery class of each service, for requests without one.
    pub(crate) classes: DeliveryClasses,
    /// `None` without multicast.
    pub(crate) multicast: Option<MulticastConfig>,
    pub(crate) discovery: Discovery,
    pub(crate) media: MediaAddress,
    /// The folder of received files; `None` takes none.
    pub(crate) inbox: Option<Arc<Inbox>>,
    pub(crate) outbox: Option<Arc<Outbox>>,
}

/// The settings of the offers that a reload may change.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) sources: Sources,
    /// Streams provided at once.
    pub(crate) max_streams: u16,
    /// Uplink for streams together; `None` sets no limit.
    pub(crate) uplink_kbps: Option<u32>,
}

/// The durations that streams may have; a request may not ask for a longer one.
const STREAM_DURATIONS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);

/// Advice on the delivery class of a service.
const CLASS_CHOICE: &str = "`stripe` gives the highest rate over all paths. `duplicate` suits data that must arrive at the first attempt. `backup` suits expensive further paths: it uses the next only while the first does not answer. A request may override this.";

/// The rows that a node adds to the common settings.
pub(crate) fn settings() -> Vec<Setting> {
    let row = |key, kind, default: &str, doc, choose, reload| Setting {
        key,
        kind,
        default: default.to_owned(),
        doc,
        choose,
        reload,
    };
    let kind = |check| Kind::Other { name: "source", check, example: "synthetic" };
    let class =
        |key, doc| row(key, Kind::Choice(&["stripe", "duplicate", "backup"]), "stripe", doc, CLASS_CHOICE, false);
    let source = |key, check, doc, choose| row(key, kind(check), "", doc, choose, true);
    vec![
        row(
            "super",
            Kind::Hubs,
            "",
            "The node's super nodes, the preferred one first. Put all endpoints of one into one entry, separated by commas.",
            "Two or three, so that requests still complete when one dies, or a service record of the DNS that names them: srv://_roost._udp.DOMAIN. Either this or `server`.",
            false,
        ),
        row(
            "server",
            Kind::Hubs,
            "",
            "The server of the client/server baseline, instead of super nodes: all data goes through it.",
            "For comparisons; the overlay needs no server. Either this or `super`.",
            false,
        ),
        row(
            "discovery",
            Kind::Choice(&["supernode", "multicast", "both", "auto"]),
            "supernode",
            "The way to find providers: the super node, multicast in the subnet, both at once, or whichever was quicker.",
            "multicast needs no super node but reaches only the subnet; auto suits many near providers. All except supernode need `multicast`.",
            false,
        ),
        row(
            "multicast",
            Kind::Other { name: "off|on|list of IP:PORT", check: check_groups, example: "239.255.77.5:7705" },
            "off",
            "Whether the node sends and answers requests by multicast; on means 239.255.77.5:7705 and, where there is no IPv4, [ff12::7705]:7705.",
            "on if nodes share a subnet; no router forwards it. Use the same value on all nodes; separate groups with commas.",
            false,
        ),
        row(
            "multicast_interfaces",
            Kind::Other { name: "list of interfaces", check: |_| Ok(()), example: "eth0,wlan0" },
            "",
            "The interfaces for multicast; empty means all that are up except the loopback. An interface that appears later is added then.",
            "Interface names separated by commas, to keep multicast out of other subnets.",
            false,
        ),
        row(
            "at",
            Kind::Other { name: "place", check: check_place, example: "47.3769,8.5417" },
            "",
            "The node's place: latitude and longitude, a geo: URI, an MGRS square, a cell of the grid; or gpsd or tle:FILE to follow.",
            "47.3769,8.5417 in a group with a datum, a cell such as 27,92 in any; `roost move` changes it while the node runs. \
             `gpsd` or `gpsd:HOST:PORT` follows a receiver, `tle:FILE` the orbit of a satellite.",
            false,
        ),
        row(
            "rtsp",
            Kind::SocketAddr,
            "",
            "Address at which players get video by RTSP, as rtsp://HOST:8554/video/27,92; empty serves none.",
            "127.0.0.1:8554 for ffplay or VLC on this host. Any other address needs `rtsp_token`.",
            false,
        ),
        row(
            "rtsp_token",
            Kind::Path,
            "",
            "File with the password of players; made with a random one if it is not there.",
            "Needed as soon as other hosts reach `rtsp`; players give it with any user name. RTSP encrypts neither it nor the video, so it is not the page's.",
            false,
        ),
        row(
            "services",
            Kind::Services,
            "",
            "Services that the node offers: video, track, image, sensor; one with a source of its own is offered too.",
            "Any set of them; without any the node only asks.",
            true,
        ),
        row(
            "max_streams",
            Kind::Count(u16::MAX as u32),
            "8",
            "The maximum number of stream copies (video, track) that the node sends at once, to separate requesters and to receivers of its reflected streams. Further requests go to the next provider.",
            "As many as the uplink and the camera bear. A reflected stream mostly takes one, however many watch it.",
            true,
        ),
        row(
            "uplink",
            Kind::Rate,
            "none",
            "Uplink that the node's streams may take together; further requests go to the next provider.",
            "What the link carries, less what others need; none sets no limit.",
            true,
        ),
        row(
            "stream_duration",
            Kind::Duration,
            "10s",
            "The duration of a stream whose request gives no duration.",
            "Requesters may ask for more or less.",
            false,
        ),
        MediaAddress::setting(
            "The address at which the node sends and receives reflected streams. With off it receives none and sends a separate stream to each requester.",
        ),
        row(
            "inbox",
            Kind::Path,
            "",
            "Folder for the files that other nodes send with `roost send`; without one none are taken.",
            "A folder of its own, which the daemon's user may write to; it is made if it is not there. Any node of the group may send.",
            false,
        ),
        row(
            "inbox_limit",
            Kind::Other { name: "size", check: |text| size_bytes(text).map(drop), example: "10GB" },
            "10GB",
            "The maximum size of all files in the inbox; the node refuses a file that does not fit.",
            "Less than the disk has left; take files out of the inbox to make room.",
            false,
        ),
        row(
            "outbox",
            Kind::Path,
            "",
            "Folder for the files that `roost send --until` leaves with the daemon until their receivers are there; without one none are taken.",
            "A folder of its own, which the daemon's user may write to, on a disk that survives a restart; it is made if it is not there.",
            false,
        ),
        row(
            "outbox_limit",
            Kind::Other { name: "size", check: |text| size_bytes(text).map(drop), example: "10GB" },
            "10GB",
            "The maximum size of all files in the outbox; the daemon refuses a file that does not fit.",
            "Less than the disk has left; each file is copied.",
            false,
        ),
        class("delivery.video", "The delivery class of video over `quic://`."),
        class("delivery.track", "The delivery class of track over `quic://`."),
        class("delivery.image", "The delivery class of images and files over `quic://`."),
        class("delivery.sensor", "The delivery class of sensor readings over `quic://`."),
        source(
            "sources.video",
            |text| check(Service::Video, text),
            "Where video comes from.",
            "synthetic (700 kbit/s), file:PATH (MPEG-TS), udp://IP:PORT or rtp://IP:PORT (live).",
        ),
        source(
            "sources.track",
            |text| check(Service::Track, text),
            "Where track comes from.",
            "synthetic (40 kbit/s), gpsd://HOST:PORT, cot+udp://IP:PORT, nmea+udp://IP:PORT or file:PATH.",
        ),
        source(
            "sources.image",
            |text| check(Service::Image, text),
            "Where images come from.",
            "synthetic (100 KB), file:PATH (any file, of any size), dir:PATH (JPEGs) or command:PROGRAM.",
        ),
        source(
            "sources.sensor",
            |text| check(Service::Sensor, text),
            "Where sensor readings come from.",
            "synthetic (10 KB), file:PATH (SenML JSON) or command:PROGRAM.",
        ),
    ]
}

fn check_groups(text: &str) -> Result<(), String> {
    groups(text).map(drop)
}

/// The multicast groups of a text; none if it is `off`.
fn groups(text: &str) -> Result<Vec<SocketAddr>, String> {
    let group = |text: &str| {
        let group: SocketAddr = text.trim().parse().map_err(|_| "expected off, on, or IP:PORT,IP:PORT".to_owned())?;
        let local = match group.ip() {
            IpAddr::V4(ip) => ip.octets()[0] == 239,
            IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        };
        if local && group.port() > 0 {
            return Ok(group);
        }
        Err(format!(
            "{text} is no multicast group of a site or link: expected an address in 239.0.0.0/8, ff02::/16 or ff12::/16, and a port"
        ))
    };
    match text {
        "off" => Ok(Vec::new()),
        "on" => DEFAULT_GROUPS.into_iter().map(group).collect(),
        list => list.split(',').map(group).collect(),
    }
}

/// Reads the settings of multicast and of discovery.
fn multicast_settings(settings: &Settings) -> Result<(Option<MulticastConfig>, Discovery), ConfigError> {
    let text: String = settings.required("multicast")?;
    let groups = groups(&text).map_err(ConfigError::Conflict)?;
    let discovery: Discovery = settings.required("discovery")?;
    if groups.is_empty() && discovery != Discovery::SuperNode {
        let off = format!("discovery {discovery} needs multicast, which is off: add --multicast on");
        return Err(ConfigError::Conflict(off));
    }
    let names = settings.text("multicast_interfaces").unwrap_or_default();
    let interfaces = names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Ok(((!groups.is_empty()).then_some(MulticastConfig { groups, interfaces }), discovery))
}

fn check(service: Service, text: &str) -> Result<(), String> {
    SourceSpec::parse(service, text).map(drop).map_err(|error| error.to_string())
}

fn classes(settings: &Settings) -> Result<DeliveryClasses, ConfigError> {
    let class = |key| settings.required::<DeliveryClass>(key);
    Ok(DeliveryClasses {
        video: class("delivery.video")?,
        track: class("delivery.track")?,
        image: class("delivery.image")?,
        sensor: class("delivery.sensor")?,
    })
}

const fn source_key(service: Service) -> &'static str {
    match service.base() {
        Service::Video => "sources.video",
        Service::Track => "sources.track",
        Service::Image => "sources.image",
        Service::Sensor => "sources.sensor",
        Service::Named(_) => "sources",
    }
}

impl Config {
    pub(crate) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let (multicast, discovery) = multicast_settings(settings)?;
        let (supers, server) = (settings.hubs("super")?, settings.hubs("server")?);
        let (hubs, hub_role) = match (supers.is_empty(), server.is_empty()) {
            (false, true) => (supers, Role::SuperNode),
            (true, false) if discovery != Discovery::SuperNode => {
                let server = format!("with a server every request goes through it: leave out --discovery {discovery}");
                return Err(ConfigError::Conflict(server));
            }
            (true, false) => (server, Role::Server),
            (true, true) if discovery == Discovery::Multicast => (Vec::new(), Role::SuperNode),
            (false, false) => {
                let both = "settings super and server exclude each other: a node is in the overlay or in the baseline";
                return Err(ConfigError::Conflict(both.to_owned()));
            }
            (true, true) => {
                let none = "no hub is given: name a super node with --super URI, a server with --server URI, or do without by --discovery multicast";
                return Err(ConfigError::Conflict(none.to_owned()));
            }
        };
        let at = settings.optional("at")?.ok_or_else(|| ConfigError::Missing {
            key: "at".to_owned(),
            advice: "say where the node is, such as --at 47.3769,8.5417 or --at 27,92".to_owned(),
        })?;
        let stream_duration = settings.duration_within("stream_duration", STREAM_DURATIONS)?;
        let offer = Offer::read(settings)?;
        let limit = size_bytes(&settings.required::<String>("inbox_limit")?).map_err(ConfigError::Conflict)?;
        let folder = settings.text("inbox").filter(|folder| !folder.is_empty());
        let inbox = folder.map(|folder| Arc::new(Inbox::new(folder.into(), limit)));
        let limit = size_bytes(&settings.required::<String>("outbox_limit")?).map_err(ConfigError::Conflict)?;
        let folder = settings.text("outbox").filter(|folder| !folder.is_empty());
        let outbox = folder.map(|folder| Arc::new(Outbox::new(folder.into(), limit)));
        let (classes, media) = (classes(settings)?, settings.required("media")?);
        Ok(Self { at, hubs, hub_role, offer, stream_duration, classes, multicast, discovery, media, inbox, outbox })
    }
}

fn check_place(text: &str) -> Result<(), String> {
    if let Some(source) = PlaceSource::parse(text) {
        return source.check();
    }
    match Place::parse(text, None) {
        Ok(_) | Err(PlaceError::NoDatum(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

impl Offer {
    pub(crate) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let named = settings.list::<Service>("services")?;
        if let Some(own) = named.iter().find(|service| matches!(service, Service::Named(_))) {
            return Err(ConfigError::Value {
                key: "services".to_owned(),
                value: own.to_string(),
                origin: settings.origin("services"),
                reason: format!(
                    "a daemon has sources of video, track, image and sensor only; a program offers it: `roost offer {own}`"
                ),
            });
        }
        let mut sources = Sources::new();
        for service in Service::ALL {
            let key = source_key(service);
            let text = settings.text(key).or_else(|| named.contains(&service).then_some("synthetic"));
            let Some(text) = text else { continue };
            let spec = SourceSpec::parse(service, text).map_err(|error| ConfigError::Value {
                key: key.to_owned(),
                value: text.to_owned(),
                origin: settings.origin(key),
                reason: error.to_string(),
            })?;
            sources.insert(spec);
        }
        Ok(Self { sources, max_streams: settings.required("max_streams")?, uplink_kbps: settings.rate_kbps("uplink")? })
    }
}

#[cfg(test)]
mod tests {
    use roost_runtime::config::{Layers, NamedText};

    use super::*;

    fn read(flags: &[(&str, &str)]) -> Result<Config, String> {
        let given = |(name, text): &(&str, &str)| NamedText { name: (*name).to_owned(), text: (*text).to_owned() };
        let flags = flags.iter().map(given).collect();
        let layers = Layers { flags, ..Layers::default() };
        let settings = layers.read(settings()).map_err(|errors| errors[0].to_string())?;
        Config::read(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn service_offered_by_name_or_source() {
        let hub = ("super", "udp://h:1,tcp://h:1");
        let config = read(&[hub, ("at", "1,2"), ("services", "sensor"), ("sources.video", "synthetic")]).unwrap();
        let offered: Vec<_> = config.offer.sources.services().iter().collect();
        assert_eq!(offered, [Service::Video, Service::Sensor]);
        assert_eq!((config.hubs[0].to_string().as_str(), config.hub_role), (hub.1, Role::SuperNode));
    }

    #[test]
    fn own_services_need_a_program() {
        for service in ["acme/none", "video#bow"] {
            let refused = read(&[("super", "udp://h:1"), ("at", "1,2"), ("services", service)]).unwrap_err();
            assert!(refused.contains(&format!("roost offer {service}")), "{refused}");
        }
    }

    #[test]
    fn multicast_discovery_needs_no_hub() {
        let alone = read(&[("at", "1,2"), ("discovery", "multicast"), ("multicast", "on")]).unwrap();
        let groups = alone.multicast.unwrap().groups;
        assert!(alone.hubs.is_empty() && groups.len() == 2 && groups.iter().all(|group| group.ip().is_multicast()));
        let beside = [("super", "udp://h:1"), ("at", "1,2"), ("multicast", "239.1.2.3:4,[ff02::9]:5")];
        let named = [beside.to_vec(), vec![("multicast_interfaces", "eth0, eth1")]].concat();
        let multicast = read(&named).unwrap().multicast.unwrap();
        assert_eq!(multicast.groups, ["239.1.2.3:4".parse().unwrap(), "[ff02::9]:5".parse().unwrap()]);
        assert_eq!(multicast.interfaces, ["eth0", "eth1"]);
        assert_eq!(read(&beside[..2]).unwrap().multicast, None, "off by default");
    }

    #[test]
    fn each_service_has_delivery_class() {
        let asked =
            [("super", "udp://h:1"), ("at", "1,2"), ("delivery.video", "backup"), ("delivery.track", "duplicate")];
        let classes = DeliveryClasses {
            video: DeliveryClass::Backup,
            track: DeliveryClass::Duplicate,
            ..DeliveryClasses::default()
        };
        assert_eq!(read(&asked).unwrap().classes, classes);
        assert_eq!(read(&asked[..2]).unwrap().classes, DeliveryClasses::default());
    }

    #[test]
    fn conflicting_settings_are_explained() {
        let hub = ("super", "udp://h:1");
        for (flags, part) in [
            (vec![("at", "1,2")], "no hub is given"),
            (vec![hub, ("at", "1,2"), ("discovery", "both")], "add --multicast on"),
            (vec![("server", "udp://h:1"), ("at", "1,2"), ("multicast", "on"), ("discovery", "auto")], "leave out"),
            (vec![hub, ("at", "1,2"), ("multicast", "10.0.0.1:7705")], "no multicast group of a site or link"),
            (vec![hub, ("at", "1,2"), ("multicast", "[ff05::1]:7705")], "no multicast group of a site or link"),
            (vec![hub, ("at", "1,2"), ("multicast", "yes")], "expected off, on"),
            (vec![hub, ("server", "udp://h:2"), ("at", "1,2")], "exclude each other"),
            (vec![hub], "setting at is missing"),
            (vec![hub, ("at", "here")], "is no place"),
            (vec![hub, ("at", "1,2"), ("stream_duration", "0s")], "between 100ms and 1day"),
            (vec![hub, ("at", "1,2"), ("services", "videos")], "unknown service"),
            (vec![hub, ("at", "1,2"), ("delivery.video", "both")], "stripe"),
            (vec![hub, ("at", "1,2"), ("sources.video", "tape:1")], "is no video source"),
        ] {
            let error = read(&flags).unwrap_err();
            assert!(error.contains(part), "{flags:?}: {error}");
        }
    }
}
