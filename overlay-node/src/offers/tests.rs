use roost_wire::{Area, Metadata};

use super::*;

fn offer(text: &str) -> Offer {
    Offer::new(text.parse().unwrap())
}

fn request(text: &str) -> Wanted {
    let request = ServiceRequest::new(text.parse().unwrap(), Area::Anywhere);
    let requester = Requester { node: NodeId::from_bytes([7; 16]), name: Some("uav7".to_owned()) };
    Wanted { request, requester, body: Bytes::new() }
}

async fn fails(offers: &ProgramOffers, text: &str) -> String {
    offers.open(&request(text)).await.unwrap_err().to_string()
}

#[test]
fn service_is_offered_once() {
    let (offers, configured) = (ProgramOffers::default(), ServiceSet::EMPTY.with(Service::Video));
    let lidar = offers.insert(offer("acme/lidar:stream"), configured.clone()).unwrap();
    for twice in ["acme/lidar:stream", "acme/lidar:object", "video"] {
        let error = offers.insert(offer(twice), configured.clone()).unwrap_err();
        assert!(matches!(error, OfferError::Twice(_)), "{twice}: {error}");
    }
    let _bow = offers.insert(offer("video#bow"), configured.clone()).unwrap();
    let _tiles = offers.insert(offer("acme/tiles:call"), configured.clone()).unwrap();
    assert!(matches!(offers.insert(offer("acme/tiles"), configured.clone()), Err(OfferError::Wrong(_))));
    offers.remove("acme/lidar:stream".parse().unwrap(), lidar.number + 1);
    assert!(offers.insert(offer("acme/lidar:object"), configured.clone()).is_err(), "another offer has ended");
    offers.remove("acme/lidar:stream".parse().unwrap(), lidar.number);
    assert!(offers.insert(offer("acme/lidar:object"), configured).is_ok());
}

#[test]
fn offers_have_a_limit() {
    let offers = ProgramOffers::default();
    let insert = |number: usize| offers.insert(offer(&format!("acme/s{number}:object")), ServiceSet::EMPTY);
    for number in 0..MAX_OFFERS {
        insert(number).unwrap();
    }
    assert!(insert(MAX_OFFERS).is_err());
}

#[test]
fn settings_go_before_programs() {
    let offers = ProgramOffers::default();
    let mut bow = offers.insert(offer("video#bow"), ServiceSet::EMPTY).unwrap().events;
    let numbers = 0..MAX_OFFERS - 1;
    let others = numbers.map(|number| offers.insert(offer(&format!("acme/s{number:02}:object")), ServiceSet::EMPTY));
    let mut others: Vec<_> = others.map(|inserted| inserted.unwrap().events).collect();
    // A reload brings the instance and two others of the known services.
    let settings = ["video#bow", "track#a", "track#b"].map(offer);
    let configured = settings.into_iter().fold(ServiceSet::EMPTY, ServiceSet::with_offer);
    let mut published = None;
    offers.publish(configured, |services| published = Some(services));
    let published = published.unwrap();
    assert!(published.offers().len() <= MAX_OFFERS && ServiceSet::from_offers(published.offers().to_vec()).is_ok());
    assert!(matches!(bow.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)), "its program hears of it");
    let ended = others.iter_mut().map(|events| events.try_recv() == Err(mpsc::error::TryRecvError::Disconnected));
    let ended: Vec<bool> = ended.collect();
    let first_ended = ended.iter().position(|is_over| *is_over).unwrap();
    assert!(first_ended > 10 && ended[first_ended..].iter().all(|is_over| *is_over), "the youngest end: {ended:?}");
}

#[tokio::test(start_paused = true)]
async fn unanswered_request_is_declined() {
    let offers = ProgramOffers::default();
    let mut events = offers.insert(offer("acme/map:object"), ServiceSet::EMPTY).unwrap().events;
    let began = tokio::time::Instant::now();
    assert!(fails(&offers, "acme/map:object").await.contains("did not answer the request in 10 s"));
    assert_eq!(began.elapsed(), ANSWER);
    let Some(OfferEvent::Request(told)) = events.recv().await else { panic!("no request") };
    assert_eq!((told.requester_name.as_deref(), told.filter), (Some("uav7"), Metadata::default()));
    assert_eq!(events.recv().await, Some(OfferEvent::Gone { request: told.request }));
    assert!(offers.take_waiting(told.request).is_none());
    drop(events);
    assert!(fails(&offers, "acme/map:object").await.contains("too many requests"));
    offers.remove("acme/map:object".parse().unwrap(), 1);
    assert_eq!(fails(&offers, "acme/map:object").await, "the service is no longer offered");
}

#[tokio::test(start_paused = true)]
async fn program_declines_in_its_words() {
    let offers = ProgramOffers::default();
    let mut events = offers.insert(offer("acme/map:object"), ServiceSet::EMPTY).unwrap().events;
    for sentence in [Some("no map of there"), None].map(|words| words.map(|words| words.parse().unwrap())) {
        let wanted = request("acme/map:object");
        let program = async {
            let Some(OfferEvent::Request(told)) = events.recv().await else { panic!("no request") };
            let waiting = offers.take_waiting(told.request).unwrap();
            waiting.answer.send(Answer::Declined { sentence: sentence.clone() }).unwrap();
            assert!(matches!(events.recv().await, Some(OfferEvent::Gone { .. })));
        };
        let (opened, ()) = tokio::join!(offers.open(&wanted), program);
        assert_eq!(opened.unwrap_err(), SourceError::Declined { sentence });
    }
}

#[tokio::test(start_paused = true)]
async fn program_that_ends_declines() {
    let offers = ProgramOffers::default();
    let mut events = offers.insert(offer("acme/map:object"), ServiceSet::EMPTY).unwrap().events;
    let (wanted, began) = (request("acme/map:object"), tokio::time::Instant::now());
    let program = async {
        let _told = events.recv().await;
        drop(events);
    };
    let (opened, ()) = tokio::join!(offers.open(&wanted), program);
    assert!(opened.unwrap_err().to_string().contains("has gone"));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn requests_at_once_have_a_limit() {
    let offers = ProgramOffers::default();
    let mut events = offers.insert(offer("acme/map:object"), ServiceSet::EMPTY).unwrap().events;
    let asked: Vec<_> = (0..MAX_REQUESTS).map(|_| offers.ask(&request("acme/map:object")).unwrap()).collect();
    assert!(fails(&offers, "acme/map:object").await.contains("too many requests"));
    drop(asked);
    for _ in 0..MAX_LINES {
        events.try_recv().unwrap();
    }
    assert!(offers.ask(&request("acme/map:object")).is_ok());
}

#[tokio::test]
async fn object_of_a_program_is_whole() {
    let offers = ProgramOffers::default();
    let mut events = offers.insert(offer("acme/map:object"), ServiceSet::EMPTY).unwrap().events;
    let wanted = request("acme/map:object");
    for whole in [true, false] {
        let program = async {
            let Some(OfferEvent::Request(told)) = events.recv().await else { panic!("no request") };
            let (give, items) = mpsc::channel(2);
            let waiting = offers.take_waiting(told.request).unwrap();
            waiting.answer.send(Answer::Data { format: "text/plain".to_owned(), items }).unwrap();
            give.send(FeedItem::Payload("map".into())).await.unwrap();
            if whole {
                give.send(FeedItem::End).await.unwrap();
            }
        };
        let (opened, ()) = tokio::join!(offers.open(&wanted), program);
        match opened.map(|(opened, _)| opened) {
            Ok(OpenedSource::Object { bytes, .. }) => assert!(whole && bytes == "map"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(!whole && error.to_string().contains("broke off"), "{error}"),
        }
        assert!(matches!(events.recv().await, Some(OfferEvent::Gone { .. })));
    }
}

#[tokio::test]
async fn program_reads_body_while_call_lasts() {
    let offers = ProgramOffers::default();
    let mut events = offers.insert(offer("acme/tiles:call"), ServiceSet::EMPTY).unwrap().events;
    let mut wanted = request("acme/tiles:call");
    (wanted.request.params, wanted.body) = ("zoom=3".to_owned(), Bytes::from_static(b"query"));
    let program = async {
        let Some(OfferEvent::Request(told)) = events.recv().await else { panic!("no request") };
        assert_eq!((told.params.as_str(), told.body_bytes), ("zoom=3", Some(5)));
        assert_eq!(offers.body(told.request).as_deref(), Some(&b"query"[..]));
        let (give, items) = mpsc::channel(2);
        let waiting = offers.take_waiting(told.request).unwrap();
        waiting.answer.send(Answer::Data { format: "text/plain".to_owned(), items }).unwrap();
        give.send(FeedItem::Payload("tile".into())).await.unwrap();
        give.send(FeedItem::End).await.unwrap();
        told.request
    };
    let (opened, number) = tokio::join!(offers.open(&wanted), program);
    drop(opened.unwrap());
    assert_eq!(offers.body(number), None, "a call that is over has no body");
}
