//! Two nodes that hear each other in one direction only, and hubs that die while they relay: real daemons in namespaces,
//! which this machine must allow; `emulate doctor` says what is missing.

use std::path::PathBuf;
use std::process::Output;
use std::thread;
use std::time::Duration;

use roost_tests::lab::Lab;
use roost_tests::network::{Client, Network, PATIENCE, text};
use roost_tests::process::{Process, wait_until};

use crate::links::star_with;

/// Bytes of the image: four seconds at the rate of its links.
const IMAGE: usize = 5_000_000;

/// The longest that a request for the image takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Two hubs, a provider at 5,5 and a requester, each with its own link to a router, and a call that counts its runs.
struct SightTrial<'a> {
    network: &'a Network,
    lab: Lab<'a>,
    requester: Client,
    image: Vec<u8>,
    runs: PathBuf,
    offer: Process,
}

impl<'a> SightTrial<'a> {
    fn new(network: &'a Network) -> Self {
        let image: Vec<u8> = (0..IMAGE).map(|index| (index * 31 % 251) as u8).collect();
        std::fs::write(network.path("image"), &image).unwrap();
        let source = format!("file:{}", text(&network.path("image")));
        let (lab, provider, requester) = star_with(network, "delay = \"5ms\"", &["--sources-image", &source]);
        let runs = network.path("runs");
        let script = format!("echo run >> {}; cat", text(&runs));
        let words = ["offer", "acme/echo", "--call", "--", "sh", "-c", &script];
        let offer = Process::start(provider.command(&words), network.path("offer.log")).unwrap();
        let found = || requester.roost(&["lookup", "acme/echo", "--any"]).status.success().then_some(());
        assert!(wait_until(PATIENCE, found).is_some(), "{}", offer.log());
        let pair = Self { network, lab, requester, image, runs, offer };
        pair.reading_comes(false);
        pair
    }

    fn reading_comes(&self, is_relayed: bool) {
        let output = text(&self.network.path("reading"));
        let report = self.requester.json(&["request", "sensor", "--at", "5,5", "--timeout", "30s", "-o", &output]);
        assert_eq!(report["summary"]["relayed"], is_relayed, "{report}\n{}", self.requester.log());
        assert_eq!(std::fs::read(&output).unwrap().len(), 10_000);
    }

    /// Asks for the image, and returns once a part of it is there.
    fn begin_image(&self) -> Process {
        let output = text(&self.network.path("picture"));
        let words = ["request", "image", "--at", "5,5", "--timeout", "30s", "-o", &output];
        let asking = Process::start(self.requester.command(&words), self.network.path("request.log")).unwrap();
        self.requester.wait_for("nothing of the image comes", |status| {
            let receiving = status["receiving"].as_array()?;
            receiving.iter().any(|one| one["bytes"].as_u64().is_some_and(|bytes| bytes > 0)).then_some(())
        });
        asking
    }

    fn image_comes_whole(&self, mut asking: Process) {
        assert_eq!(asking.wait(LIMIT), Some(0), "{}\n{}", asking.log(), self.requester.log());
        assert!(std::fs::read(self.network.path("picture")).unwrap() == self.image, "the image is another");
    }

    fn call_runs_once(&self) {
        let before = self.runs();
        let answer = text(&self.network.path("answer"));
        let words = ["call", "acme/echo", "--any", "--data", "a body", "-o", &answer, "--timeout", "30s"];
        let called: Output = self.requester.roost(&words);
        let said = String::from_utf8_lossy(&called.stderr);
        assert_eq!(called.status.code(), Some(0), "{said}\n{}\n{}", self.offer.log(), self.requester.log());
        assert_eq!(std::fs::read_to_string(&answer).unwrap(), "a body");
        assert_eq!(self.runs(), before + 1);
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(&self.runs).unwrap_or_default().lines().count()
    }
}

fn is_under_way(asking: &mut Process) -> bool {
    asking.wait(Duration::ZERO).is_none()
}

/// The provider does not hear the requester, or the other way round; before the answers, or amid one.
#[test]
fn one_way_paths_are_served() {
    let ends = ["provider", "requester"];
    let serve = |deaf: usize, is_amid: bool| {
        let network = Network::new();
        let mut pair = SightTrial::new(&network);
        let mut image = is_amid.then(|| pair.begin_image());
        pair.lab.deafen(ends[deaf], ends[1 - deaf]);
        assert!(image.iter_mut().all(is_under_way), "the image came before");
        let image = image.unwrap_or_else(|| pair.begin_image());
        pair.image_comes_whole(image);
        pair.reading_comes(true);
        pair.call_runs_once();
    };
    thread::scope(|scope| {
        for (deaf, is_amid) in [(0, false), (0, true), (1, false), (1, true)] {
            scope.spawn(move || serve(deaf, is_amid));
        }
    });
}

/// The hub that relays between two out of sight is killed amid an image: it goes on by the other hub.
#[test]
fn killed_relay_is_replaced() {
    let network = Network::new();
    let mut pair = SightTrial::new(&network);
    pair.lab.deafen("provider", "requester");
    pair.lab.deafen("requester", "provider");
    let home = pair.requester.status().unwrap()["hub"]["name"].as_str().unwrap().to_owned();
    let mut image = pair.begin_image();
    pair.lab.kill(&home);
    assert!(is_under_way(&mut image), "the image came before");
    pair.requester.wait_for("the killed hub is its home", |status| {
        status["hub"]["name"].as_str().filter(|name| *name != home).map(|_| ())
    });
    pair.image_comes_whole(image);
    pair.reading_comes(true);
    pair.call_runs_once();
}
