//! The gateway to TAK with real programs: taky as the server, pytak as the client of a person.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use roost_services::track::cot::{self, CotEvent, CotPoint};
use roost_tests::network::{Client, Daemon, Network, PATIENCE, text};
use roost_tests::process::{Process, free_port, signal, wait_until};
use serde_json::Value;

/// The folder of Python's programs that `scripts/test` makes, if taky and pytak are in it.
fn python() -> Option<PathBuf> {
    let programs = std::env::current_exe().unwrap().ancestors().nth(3)?.join("python/bin");
    let is_there = ["taky", "takyctl", "pytak"].iter().all(|name| programs.join(name).exists());
    if !is_there {
        println!("skipped: {} has no taky and pytak; scripts/test installs them", programs.display());
    }
    is_there.then_some(programs)
}

/// A hub, a gateway's node, a node with a camera and a track, and a requester.
struct Team {
    _hub: Daemon,
    gateway: Daemon,
    uav: Daemon,
    requester: Daemon,
    /// The port at which the gateway's node serves players.
    rtsp: u16,
    network: Network,
}

impl Team {
    fn new() -> Self {
        let network = Network::at("47.0,8.0");
        let hub = network.supernode("sn1", &[]);
        let endpoint = hub.endpoint("udp");
        let node = |name: &str, at: &str, services: &[&str]| {
            network.node(name, at, &[&["--super", endpoint.as_str()], services].concat())
        };
        let rtsp = free_port();
        let gateway = node("gate", "47.1,8.1", &["--rtsp", &format!("127.0.0.1:{rtsp}")]);
        let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/assets/camera.ts");
        let camera = format!("file:{}", clip.display());
        let uav = node("uav7", "47.3769,8.5417", &["--services", "video,track", "--sources-video", &camera]);
        let requester = node("r", "47.2,8.2", &[]);
        Self { _hub: hub, gateway, uav, requester, rtsp, network }
    }

    fn tak(&self, arguments: &[&str]) -> Process {
        Process::start(self.tak_command(arguments), self.network.path("tak.log")).unwrap()
    }

    fn tak_command(&self, arguments: &[&str]) -> Command {
        let video = self.video_url();
        self.gateway.command(&[&["tak", "--rate", "200kbit", "--video-url", &video], arguments].concat())
    }

    fn video_url(&self) -> String {
        format!("rtsp://127.0.0.1:{}", self.rtsp)
    }

    fn pytak(&self, programs: &Path, arguments: &[&str]) -> Process {
        self.pytak_in_form("0", programs, arguments)
    }

    /// As above, with the version of TAK's protocol: 1 is protobuf.
    fn pytak_in_form(&self, form: &str, programs: &Path, arguments: &[&str]) -> Process {
        let mut command = Command::new(programs.join("python"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tak/client.py");
        command.arg(script).args(arguments).env("HOME", self.network.path("home")).env("TAK_PROTO", form);
        Process::start(command, self.network.path("pytak.log")).unwrap()
    }

    /// Starts taky with its settings, and waits until it listens.
    fn taky(&self, programs: &Path, folder: &Path, port: u16) -> Process {
        let mut command = Command::new(programs.join("taky"));
        command.args(["-c", &text(&folder.join("taky.conf"))]).current_dir(folder);
        let taky = Process::start(command, self.network.path("taky.log")).unwrap();
        let up = wait_until(PATIENCE, || TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(up.is_some(), "{}", taky.log());
        taky
    }
}

/// Waits until the log of a process has all parts.
fn await_log(process: &Process, parts: &[&str]) -> String {
    let found = wait_until(PATIENCE, || {
        let log = process.log();
        parts.iter().all(|part| log.contains(part)).then_some(log)
    });
    found.unwrap_or_else(|| panic!("no {parts:?}:\n{}", process.log()))
}

/// Checks that a client sees the node, its camera and the target of its track.
fn assert_node_seen(team: &Team, pytak: &Process) {
    let video = format!("{}/video/from/uav7", team.video_url());
    let log = await_log(pytak, &["callsign=\"uav7\"", &video, "b-m-p-s-p-loc"]);
    let node = log.split("<event").find(|event| event.contains("callsign=\"uav7\"")).unwrap();
    assert!(node.contains("lat=\"47.3") && node.contains("lon=\"8.5") && node.contains("a-f-G-U"), "{node}");
}

/// Checks that the address of the camera, as a client has it, opens a video.
fn assert_video_opens(pytak: &Process) {
    let log = pytak.log();
    let video = log.split("<__video ").nth(1).unwrap();
    let url = video.split(" url=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut probe = Command::new("ffprobe");
    probe.args(["-loglevel", "error", "-rtsp_transport", "tcp", "-timeout", "20000000", "-select_streams", "v"]);
    let output = probe.args(["-show_entries", "stream=codec_type", "-of", "csv=p=0", url]).output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.lines().any(|line| line == "video"), "{url}: {said}{failed}");
}

/// Waits until a request for the contacts of TAK gives one of this uid, and returns its record.
fn requested(requester: &Client, file: &Path, uid: &str, command: &str) -> Value {
    let record = || {
        let arguments = [command, "track#tak", "--any", "--for", "3s", "--format", "full", "-o", &text(file)];
        requester.roost(&arguments);
        let lines = fs::read_to_string(file).ok()?;
        let mut records = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.find(|record| record["id"] == uid)
    };
    wait_until(PATIENCE, record).unwrap_or_else(|| panic!("no record: {}", requester.log()))
}

fn setup_taky(programs: &Path, folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(programs.join("takyctl"));
    command.args(["setup", "--public-ip", "127.0.0.1", "--host", "127.0.0.1", "--bind-ip", "127.0.0.1"]);
    let output = command.args(arguments).arg(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Sets the port of taky, whose own is fixed.
fn set_port(folder: &Path, from: u16, to: u16) {
    let conf = folder.join("taky.conf");
    let settings = fs::read_to_string(&conf).unwrap();
    assert!(settings.contains(&format!("port = {from}")), "{settings}");
    let settings = settings.replace(&format!("port = {from}"), &format!("port = {to}"));
    fs::write(&conf, settings.replace("mon_ip", "# mon_ip")).unwrap();
}

#[test]
fn taky_and_pytak_over_tcp() {
    let Some(programs) = python() else { return };
    let team = Team::new();
    let (folder, port) = (team.network.path("taky"), free_port());
    setup_taky(&programs, &folder, &["--no-ssl"]);
    set_port(&folder, 8087, port);
    let taky = team.taky(&programs, &folder, port);
    let server = format!("tcp://127.0.0.1:{port}");
    let tak = team.tak(&[&server, "--tracks", "--json"]);
    await_log(&tak, &["\"connected\""]);
    let pytak = team.pytak(&programs, &[&server, "android-1"]);
    assert_node_seen(&team, &pytak);
    assert_video_opens(&pytak);
    await_log(&pytak, &["callsign=\"synthetic-1\"", "track from uav7"]);
    let log = await_log(&tak, &["android-1"]);
    assert!(!log.contains("roost-"), "an own event came back as a contact: {log}");
    let file = team.network.path("contacts.jsonl");
    let record = requested(&team.requester, &file, "android-1", "request");
    assert_eq!((&record["lat"], &record["lon"], &record["source"]), (&47.25.into(), &8.25.into(), &"cot".into()));
    assert!(record["raw"].as_str().unwrap().contains("ANDROID-1"), "{record}");
    requested(&team.requester, &file, "android-1", "subscribe");
    let mut tak = tak;
    team.uav.process.signal("TERM");
    await_log(&pytak, &["type=\"t-x-d-d\""]);
    // The server breaks off; the gateway says so, and comes back.
    drop(taky);
    await_log(&tak, &["\"lost\"", "retry_s"]);
    let _taky = team.taky(&programs, &folder, port);
    let back = || (tak.log().matches("\"connected\"").count() >= 2).then_some(());
    assert!(wait_until(PATIENCE, back).is_some(), "{}", tak.log());
    tak.signal("TERM");
    assert_eq!(tak.wait(Duration::from_secs(10)), Some(0), "{}", tak.log());
}

/// The certificate and key that `takyctl` makes for a client.
fn client_files(programs: &Path, folder: &Path, name: &str) -> [String; 2] {
    let mut command = Command::new(programs.join("takyctl"));
    let conf = text(&folder.join("taky.conf"));
    let output = command.args(["-c", &conf, "build_client", name, "--dump_pem"]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    ["crt", "key"].map(|kind| {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut found = files.filter(|path| path.extension().is_some_and(|extension| extension == kind));
        text(&found.find(|path| text(path).contains(name)).unwrap())
    })
}

#[test]
fn taky_and_pytak_over_tls() {
    let Some(programs) = python() else { return };
    let team = Team::new();
    let (folder, port) = (team.network.path("taky"), free_port());
    setup_taky(&programs, &folder, &[]);
    set_port(&folder, 8089, port);
    let [cert, key] = client_files(&programs, &folder, "gateway");
    let [person_cert, person_key] = client_files(&programs, &folder, "person");
    let _taky = team.taky(&programs, &folder, port);
    let (server, ca) = (format!("tls://127.0.0.1:{port}"), text(&folder.join("ssl/ca.crt")));
    let missing = team.gateway.fails(2, &["tak", &server]);
    assert!(missing.contains("tls:// needs --ca FILE"), "{missing}");
    let tak = team.tak(&[&server, "--ca", &ca, "--cert", &cert, "--key", &key, "--json"]);
    await_log(&tak, &["\"connected\""]);
    let pytak = team.pytak(&programs, &[&server, "android-2", &ca, &person_cert, &person_key]);
    assert_node_seen(&team, &pytak);
    await_log(&tak, &["android-2"]);
    drop(tak);
    let wrong = team.tak(&[&format!("{server}?name=tak.example"), "--ca", &ca, "--cert", &cert, "--key", &key]);
    await_log(&wrong, &["its certificate is not for tak.example"]);
    drop(wrong);
    let other = text(&team.network.path("id-gate").join("group.pem"));
    let stranger = team.tak(&[&server, "--ca", &other]);
    await_log(&stranger, &["not signed by an authority of --ca"]);
}

#[test]
fn pytak_joins_the_multicast_group() {
    let Some(programs) = python() else { return };
    let team = Team::new();
    let group = format!("udp://239.2.3.1:{}", free_port());
    let tak = team.tak(&[&format!("{group}?interface=127.0.0.1"), "--json"]);
    await_log(&tak, &["\"connected\""]);
    let pytak = team.pytak(&programs, &[&group, "android-3"]);
    assert_node_seen(&team, &pytak);
    let log = await_log(&tak, &["android-3"]);
    assert!(!log.contains("roost-"), "an own event came back as a contact: {log}");
}

#[test]
fn protobuf_is_read_in_the_group() {
    let Some(programs) = python() else { return };
    let team = Team::new();
    let group = format!("udp://239.2.3.1:{}", free_port());
    let tak = team.tak(&[&format!("{group}?interface=127.0.0.1"), "--json"]);
    await_log(&tak, &["\"connected\""]);
    let pytak = team.pytak_in_form("1", &programs, &[&group, "android-4"]);
    await_log(&tak, &["android-4"]);
    await_log(&pytak, &["callsign: \"uav7\""]);
    let record = requested(&team.requester, &team.network.path("contacts.jsonl"), "android-4", "request");
    assert_eq!((&record["lat"], &record["alt_m"]), (&47.25.into(), &410.0.into()), "{record}");
}

/// Reads from a gateway until all parts have come, and returns what came.
fn read_until(client: &mut TcpStream, parts: &[&str]) -> String {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut seen, mut piece) = (String::new(), [0; 4096]);
    while !parts.iter().all(|part| seen.contains(part)) {
        let length = client.read(&mut piece).unwrap();
        assert!(length > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    seen
}

#[test]
fn contact_passes_two_gateways_once() {
    let team = Team::new();
    let ports = [free_port(), free_port()];
    let listen = ports.map(|port| format!("tcp://127.0.0.1:{port}"));
    let near = team.tak(&["--listen", &listen[0], "--json"]);
    let far = team.requester.command(&["tak", "--listen", &listen[1], "--tracks", "--json"]);
    let far = Process::start(far, team.network.path("far.log")).unwrap();
    let [mut here, mut there] = [(&near, ports[0]), (&far, ports[1])].map(|(tak, port)| {
        await_log(tak, &["\"listening\""]);
        TcpStream::connect(("127.0.0.1", port)).unwrap()
    });
    let now = SystemTime::now();
    let event = CotEvent {
        uid: "ANDROID-5".to_owned(),
        kind: "a-f-G-E-V".to_owned(),
        stale: Some(now + Duration::from_secs(300)),
        point: Some(CotPoint { lat: 47.2, lon: 8.3, hae_m: None, ce_m: None }),
        callsign: Some("TRUCK".to_owned()),
        ..CotEvent::default()
    };
    here.write_all(cot::write(&event, now, &[]).as_bytes()).unwrap();
    let seen = read_until(&mut there, &["roost-cot-ANDROID-5"]);
    let shown = seen.split("<event").find(|event| event.contains("ANDROID-5")).unwrap();
    assert!(shown.contains("type=\"a-f-G-E-V\"") && shown.contains("callsign=\"TRUCK\""), "{shown}");
    // The far client has it now; back at the near one it would be another contact.
    there.write_all(format!("<event{shown}").as_bytes()).unwrap();
    let seen = read_until(&mut here, &["takPing"]);
    assert!(!seen.contains("ANDROID-5") && !far.log().contains("ANDROID-5"), "{seen}\n{}", far.log());
}

#[test]
fn client_connects_to_the_gateway() {
    let team = Team::new();
    let port = free_port();
    let address = format!("tcp://127.0.0.1:{port}");
    let tak = team.tak(&["--listen", &address, "--json"]);
    await_log(&tak, &["\"listening\""]);
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // Too much for one event, and its end.
    client.write_all(&vec![b'x'; 200_000]).unwrap();
    client.write_all(b"</event>").unwrap();
    client.write_all(PING.as_bytes()).unwrap();
    let seen = read_until(&mut client, &["t-x-c-t-r", "callsign=\"uav7\""]);
    assert!(!seen.contains('\n'));
    // A stream without contacts lives by its signs of life.
    let quiet = team.requester.json(&["request", "track#tak", "--any", "--for", "7s"]);
    assert_eq!(
        (&quiet["summary"]["complete"], &quiet["summary"]["interruptions"]),
        (&true.into(), &0.into()),
        "{quiet}"
    );
    drop(client);
    await_log(&tak, &["it closed the connection"]);
}

const PING: &str =
    "<event version='2.0' uid='me-ping' type='t-x-c-t' how='m-g'><point lat='0' lon='0'/><detail/></event>";

#[test]
fn silent_clients_give_way() {
    let team = Team::new();
    let port = free_port();
    let tak = team.tak(&["--listen", &format!("tcp://127.0.0.1:{port}"), "--json"]);
    await_log(&tak, &["\"listening\""]);
    let _silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(PING.as_bytes()).unwrap();
    read_until(&mut client, &["t-x-c-t-r"]);
}

#[test]
fn unread_output_stops_nothing() {
    let team = Team::new();
    let port = free_port();
    let mut command = team.tak_command(&["--listen", &format!("tcp://127.0.0.1:{port}"), "--json"]);
    let mut tak = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let connected = wait_until(PATIENCE, || TcpStream::connect(("127.0.0.1", port)).ok());
    let mut client = connected.unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    let now = SystemTime::now();
    for number in 0..4000 {
        let event = CotEvent {
            uid: format!("phone-{number}-{}", "x".repeat(60)),
            kind: "a-f-G".to_owned(),
            stale: Some(now + Duration::from_secs(300)),
            point: Some(CotPoint { lat: 47.2, lon: 8.3, hae_m: None, ce_m: None }),
            ..CotEvent::default()
        };
        client.write_all(cot::write(&event, now, &[]).as_bytes()).unwrap();
    }
    client.write_all(PING.as_bytes()).unwrap();
    read_until(&mut client, &["t-x-c-t-r"]);
    signal(tak.id(), "TERM");
    let ended = wait_until(PATIENCE, || tak.try_wait().unwrap());
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
}

#[test]
fn group_without_datum_has_no_gateway() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let node = network.node("n", "1,2", &["--super", &hub.endpoint("udp")]);
    let said = node.fails(1, &["tak", "udp://239.2.3.1:6969"]);
    assert!(said.contains("the group has no datum"), "{said}");
    assert!(node.fails(2, &["tak"]).contains("<ENDPOINT"));
    assert!(node.fails(2, &["tak", "http://a:1"]).contains("no place of TAK"));
}
