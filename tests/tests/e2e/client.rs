//! The Rust library against the real daemons.

use std::time::Duration;

use roost_client::{
    Area, Cell, Code, Error, IncomingRequest, LookupQuery, Offer, Offering, Roost, SendOptions, Sent, ServiceRequest,
    WatchQuery,
};
use roost_tests::network::{Network, text};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(PATIENCE, test).await.unwrap() })
}

/// A super node with a node `p` that has the first arguments, and a node `r`.
struct Pair {
    _network: Network,
    provider: roost_tests::network::Daemon,
    requester: roost_tests::network::Daemon,
    _hub: roost_tests::network::Daemon,
}

impl Pair {
    fn new(network: Network, arguments: &[&str]) -> Self {
        let hub = network.supernode("sn1", &[]);
        let endpoint = hub.endpoint("udp");
        let provider = network.node("p", "27,92", &[&["--super", &endpoint], arguments].concat());
        let requester = network.node("r", "3,4", &["--super", &endpoint]);
        Self { _network: network, provider, requester, _hub: hub }
    }

    async fn connect(&self) -> (Roost, Roost) {
        (Roost::at(&self.provider.socket).await.unwrap(), Roost::at(&self.requester.socket).await.unwrap())
    }
}

fn wanted(service: &str) -> ServiceRequest {
    ServiceRequest::new(service.parse().unwrap(), Area::Exact(Cell::new(27, 92)))
}

/// Requests until the hub knows the offer.
async fn found(roost: &Roost, service: &str) {
    let query = LookupQuery::new(service.parse().unwrap(), Area::Anywhere);
    while roost.lookup(&query).await.unwrap().candidates.is_empty() {
        tokio::task::yield_now().await;
    }
}

async fn incoming(offering: &mut Offering) -> IncomingRequest {
    offering.next().await.unwrap().unwrap()
}

#[test]
fn known_services_arrive() {
    let network = Network::new();
    let picture = network.path("picture.jpg");
    let pair = Pair::new(network, &["--services", "image,track"]);
    run(async {
        let (_, requester) = pair.connect().await;
        let summary = requester.request(&wanted("image")).await.unwrap().save(&picture).await.unwrap();
        assert_eq!((summary.complete, summary.digest_ok, summary.bytes), (true, Some(true), 100_000));
        assert_eq!(std::fs::metadata(&picture).unwrap().len(), 100_000);
        let second = Some(Duration::from_secs(1));
        let mut track = requester.request(&ServiceRequest { duration: second, ..wanted("track") }).await.unwrap();
        let mut datagrams = 0;
        while let Some(datagram) = track.next().await.unwrap() {
            assert_eq!(datagram.len(), 250);
            datagrams += 1;
        }
        assert!(datagrams > 10 && track.summary().unwrap().complete, "{datagrams}");
        let error = requester.request(&wanted("video")).await.unwrap_err();
        // A hub that started less than a lease ago is not sure.
        assert!(matches!(error.code(), Some(Code::NotFound | Code::NotYetKnown)), "{error}");
        assert_eq!(error.exit_code(), 4);
        let mut image = requester.request(&wanted("image")).await.unwrap();
        assert!(matches!(image.read_all(50_000).await, Err(Error::TooLong(50_000))));
    });
}

#[test]
fn offers_are_served_declined_and_withdrawn() {
    let pair = Pair::new(Network::new(), &[]);
    run(async {
        let (provider, requester) = pair.connect().await;
        let mut map = provider.offer(&Offer::new("acme/map:object".parse().unwrap())).await.unwrap();
        let twice = provider.offer(&Offer::new("acme/map:object".parse().unwrap())).await.unwrap_err();
        assert!(twice.to_string().contains("is offered here already"), "{twice}");
        found(&requester, "acme/map").await;
        let request = wanted("acme/map");
        let (got, ()) = tokio::join!(requester.request(&request), async {
            let incoming = incoming(&mut map).await;
            assert_eq!(incoming.request().requester_name.as_deref(), Some("r"));
            incoming.answer("text/plain", "here").await.unwrap();
        });
        let mut got = got.unwrap();
        assert_eq!(got.accepted().format, "text/plain");
        assert_eq!(got.read_all(10).await.unwrap(), "here");
        let (refused, ()) = tokio::join!(requester.request(&request), async {
            incoming(&mut map).await.decline("no map of there").await.unwrap();
        });
        let refused = refused.unwrap_err();
        assert_eq!((refused.exit_code(), refused.provider_reason()), (5, Some("no map of there")));
        assert_eq!(refused.to_string(), r#"the provider declined: "no map of there""#);
        let mut echo = provider.offer(&Offer::new("acme/echo:call".parse().unwrap())).await.unwrap();
        found(&requester, "acme/echo").await;
        let call = wanted("acme/echo:call");
        let (got, ()) = tokio::join!(requester.call(&call, vec![5; 60_000]), async {
            let incoming = incoming(&mut echo).await;
            let body = incoming.body().await.unwrap();
            incoming.answer("text/plain", body).await.unwrap();
        });
        assert_eq!(got.unwrap().read_all(60_000).await.unwrap(), vec![5; 60_000]);
        // A program that drops a request declines it.
        let (refused, ()) = tokio::join!(requester.request(&request), async { drop(incoming(&mut map).await) });
        let refused = refused.unwrap_err();
        assert_eq!((refused.exit_code(), refused.provider_reason()), (5, Some("its program does not answer")));
        // A program that drops its answer half-way has not given the whole object.
        let (got, ()) = tokio::join!(requester.request(&request), async {
            let mut answer = incoming(&mut map).await.object("text/plain");
            assert!(answer.send("he").await.unwrap());
        });
        let broken = match got {
            Ok(mut got) => got.read_all(10).await.map(|bytes| panic!("{bytes:?}")),
            Err(error) => Err::<(), _>(error),
        };
        assert_ne!(broken.unwrap_err().exit_code(), 0);
        drop(map);
        let query = LookupQuery::new("acme/map".parse().unwrap(), Area::Anywhere);
        while !requester.lookup(&query).await.unwrap().candidates.is_empty() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn stream_ends_when_its_requester_goes() {
    let pair = Pair::new(Network::new(), &[]);
    run(async {
        let (provider, requester) = pair.connect().await;
        let lidar = Offer { kbps: Some(800), ..Offer::new("acme/lidar:stream".parse().unwrap()) };
        let mut lidar = provider.offer(&lidar).await.unwrap();
        found(&requester, "acme/lidar").await;
        let request = wanted("acme/lidar");
        let receiving = async {
            let mut stream = requester.request(&request).await.unwrap();
            for _ in 0..20 {
                assert_eq!(stream.next().await.unwrap().unwrap(), vec![7; 1000]);
            }
        };
        let answer = async {
            let mut incoming = incoming(&mut lidar).await;
            let mut answer = incoming.stream("application/octet-stream");
            let sending = async { while answer.send(vec![7; 1000]).await.unwrap() {} };
            tokio::select! {
                () = incoming.gone() => {}
                () = sending => {}
            }
        };
        tokio::join!(receiving, answer);
    });
}

#[test]
fn watch_and_files() {
    let network = Network::new();
    let inbox = network.path("inbox");
    std::fs::create_dir(&inbox).unwrap();
    let file = network.path("survey.tif");
    std::fs::write(&file, vec![9; 300_000]).unwrap();
    let pair = Pair::new(network, &["--services", "image", "--inbox", &text(&inbox)]);
    run(async {
        let (provider, requester) = pair.connect().await;
        let services = ["image".parse().unwrap()].into_iter().collect();
        let query = WatchQuery { services, area: Area::Anywhere, place: None, names: false };
        let mut watch = requester.watch(&query).await.unwrap();
        let first = watch.next().await.unwrap().unwrap();
        assert_eq!(first.present[0].cell, Cell::new(27, 92));
        provider.move_to(Cell::new(5, 6)).await.unwrap();
        while watch.next().await.unwrap().unwrap().present.iter().all(|node| node.cell != Cell::new(5, 6)) {}
        let sent = requester.send(&file, "p".parse().unwrap(), SendOptions::default()).await.unwrap();
        assert!(matches!(&sent, Sent::Delivered { name: Some(name), .. } if name == "p"), "{sent:?}");
    });
}
