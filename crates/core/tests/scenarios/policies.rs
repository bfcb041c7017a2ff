//! The group's policy: who may have what, as nodes, hubs and providers judge it, each for itself.

#[path = "../../../policy/tests/reference/mod.rs"]
mod reference;

mod hostile;

use crate::*;

const ALLOW_ALL: &str = "[[rule]]\nallow = [\"all\"]\n";

/// Nodes may do everything but what is denied; hubs carry keys and copies, and relay nothing.
fn denying(action: &str, service: &str) -> String {
    format!(
        "[[rule]]\ntitle = \"no {service}\"\ndeny = [{action:?}]\nservices = [{service:?}]\nwho = {{ role = \"node\" }}\n{ALLOW_ALL}"
    )
}

struct Scene {
    world: World,
    hub: HostId,
    provider: HostId,
    requester: HostId,
}

const PLACE: (i32, i32) = (27, 92);
const THERE: Area = Area::Exact(Cell::new(PLACE.0, PLACE.1));

impl Scene {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        let hub = world.hub(Role::SuperNode);
        let provider = world.member("camera", None, PLACE, &Service::ALL, &[hub]);
        let requester = world.member("uav7", Some("red"), (0, 0), &[Service::Track], &[hub]);
        world.run_until_attached();
        Self { world, hub, provider, requester }
    }

    fn ask(&mut self, service: Service, area: Area) -> NodeEvent {
        let ticket = self.world.request(self.requester, service, area);
        self.world.outcome(self.requester, ticket)
    }

    fn found(&mut self, service: Service, area: Area) -> Vec<NodeId> {
        let ticket = self.world.lookup(self.requester, service, area);
        match self.world.outcome(self.requester, ticket) {
            NodeEvent::LookupResult { found, .. } => found.candidates.iter().map(|found| found.node).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn opened(&self) -> usize {
        self.world.hosts[self.provider.0].opened.len()
    }
}

fn reason(event: &NodeEvent) -> Option<Reason> {
    match event {
        NodeEvent::Failed { reason, .. } => Some(*reason),
        NodeEvent::Finished { summary, .. } => summary.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn own_policy_refuses_at_once() {
    let mut scene = Scene::new(1);
    scene.world.set_policy(scene.requester, &denying("request", "video"));
    let messages = scene.world.messages;
    let ticket = scene.world.request(scene.requester, Service::Video, THERE);
    match scene.world.hosts[scene.requester.0].ending(ticket) {
        Some(NodeEvent::Failed { reason: Reason::Forbidden, detail, .. }) => {
            assert_eq!(detail, "the group's policy does not let uav7 request video at (27,92): rule 1, \"no video\"")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.world.messages, messages);
    assert_eq!(reason(&scene.ask(Service::Image, THERE)), None);
}

#[test]
fn hub_or_provider_alone_refuses() {
    for judge in [0, 1] {
        let mut scene = Scene::new(2);
        let judge = [scene.hub, scene.provider][judge];
        scene.world.set_policy(judge, &denying("request", "video"));
        for area in [THERE, ANYWHERE] {
            assert_eq!(reason(&scene.ask(Service::Video, area)), Some(Reason::Forbidden), "{judge:?}");
        }
        assert_eq!(scene.opened(), 0);
        assert_eq!(reason(&scene.ask(Service::Image, ANYWHERE)), None);
    }
}

#[test]
fn labels_and_places_tell_members_apart() {
    let mut scene = Scene::new(3);
    let far = scene.world.member("far", None, (90, 90), &[Service::Video], &[scene.hub]);
    scene.world.run_until_attached();
    let south = "[[rule]]\nallow = [\"request\", \"lookup\"]\nwho = { labels = { team = \"red\" } }\n\
                 area = { rect = { min = \"80,80\", max = \"99,99\" } }\n[[rule]]\nallow = [\"offer\"]\n";
    scene.world.set_policy_everywhere(south);
    let near = Area::Nearest(Cell::new(27, 92));
    assert_eq!(scene.found(Service::Video, near), [node_id(far.0)], "the nearest is not for it");
    match scene.ask(Service::Video, near) {
        NodeEvent::Finished { summary, .. } => assert_eq!(summary.provider, node_id(far.0)),
        other => panic!("{other:?}"),
    }
    assert_eq!(reason(&scene.ask(Service::Video, THERE)), Some(Reason::Forbidden));
    let blue = scene.world.member("blue", Some("blue"), (1, 1), &[], &[scene.hub]);
    scene.world.run_until_attached();
    let ticket = scene.world.request(blue, Service::Video, near);
    assert_eq!(failed(&mut scene.world, blue, ticket), Reason::Forbidden);
}

#[test]
fn relayed_flows_are_for_hubs_that_may_have_them() {
    let nodes = "[[rule]]\nallow = [\"all\"]\nwho = { role = \"node\" }\n";
    let hubs = format!("{nodes}[[rule]]\nallow = [\"request\"]\nwho = {{ role = \"supernode\" }}\n");
    for (policy, expected) in [(nodes, Some(Reason::Forbidden)), (hubs.as_str(), None)] {
        let mut scene = Scene::new(4);
        scene.world.set_policy_everywhere(policy);
        let ticket = scene.world.request_with(scene.requester, Service::Image, THERE, |wanted| {
            wanted.mode = RequestMode::Relay;
        });
        assert_eq!(reason(&scene.world.outcome(scene.requester, ticket)), expected);
    }
}

/// Ends what is under way, whoever hears of the policy first.
#[test]
fn new_policy_ends_flows() {
    for (mode, judge) in
        [(RequestMode::Forward, 1), (RequestMode::Forward, 2), (RequestMode::Relay, 0), (RequestMode::Relay, 2)]
    {
        let mut scene = Scene::new(5);
        let ticket = scene.world.request_with(scene.requester, Service::Video, THERE, |wanted| {
            (wanted.mode, wanted.duration) = (mode, Some(60 * SECOND));
        });
        scene.world.run(2 * SECOND);
        let judge = [scene.hub, scene.provider, scene.requester][judge];
        // Of relayed ones the hub gets the data, too.
        let policy = format!("[[rule]]\ndeny = [\"request\"]\nservices = [\"video\"]\n{ALLOW_ALL}");
        scene.world.set_policy(judge, &policy);
        scene.world.run(SECOND);
        let got = scene.world.delivered(scene.requester, ticket).len();
        let ended = scene.world.hosts[scene.requester.0].ending(ticket).map(reason);
        assert_eq!(ended, Some(Some(Reason::Forbidden)), "{mode:?}, {judge:?}");
        scene.world.run(10 * SECOND);
        assert_eq!(scene.world.delivered(scene.requester, ticket).len(), got);
    }
}

#[test]
fn denials_are_told_with_their_rule() {
    let told = |scene: &mut Scene, judge: HostId| {
        let denials = std::mem::take(&mut scene.world.hosts[judge.0].denials);
        denials.into_iter().next().map(|denial| {
            let area = denial.area.map_or_else(String::new, |area| area.to_string());
            format!(
                "{} {} {:?} {area}: {}",
                denial.name,
                denial.action,
                denial.service.as_ref().map(Service::name),
                denial.rule
            )
        })
    };
    for is_hub in [true, false] {
        let mut scene = Scene::new(17);
        let judge = if is_hub { scene.hub } else { scene.provider };
        scene.world.set_policy(judge, &denying("request", "video"));
        scene.ask(Service::Video, THERE);
        let expected = "uav7 request Some(\"video\") at (27,92): rule 1, \"no video\"";
        assert_eq!(told(&mut scene, judge).as_deref(), Some(expected), "hub: {is_hub}");
        scene.ask(Service::Image, THERE);
        assert_eq!(told(&mut scene, judge), None);
    }
    let mut scene = Scene::new(18);
    let hub = scene.hub;
    scene.world.set_policy(hub, "[[rule]]\nallow = [\"request\"]\nservices = [\"image\"]\n");
    scene.world.run(2 * SECOND);
    let offered = told(&mut scene, hub).unwrap_or_default();
    assert!(offered.contains(" offer ") && offered.ends_with(": no rule allows it"), "{offered}");
    scene.ask(Service::Video, ANYWHERE);
    assert_eq!(told(&mut scene, hub).as_deref(), Some("uav7 request Some(\"video\") anywhere: no rule allows it"));
    let ticket = scene.world.lookup(scene.requester, Service::Video, ANYWHERE);
    failed(&mut scene.world, scene.requester, ticket);
    assert_eq!(told(&mut scene, hub).as_deref(), Some("uav7 lookup Some(\"video\") anywhere: no rule allows it"));
    let (ticket, services) = (scene.world.ticket(scene.requester), [Service::Video].into_iter().collect());
    let watch = NodeCommand::Watch { ticket, services, area: ANYWHERE, names: false };
    scene.world.command(scene.requester, watch);
    failed(&mut scene.world, scene.requester, ticket);
    assert_eq!(told(&mut scene, hub).as_deref(), Some("uav7 watch Some(\"video\") anywhere: no rule allows it"));
    let ticket = scene.world.ticket(scene.requester);
    scene.world.command(scene.requester, NodeCommand::JoinRoom { ticket, room: RoomId::named("ops") });
    failed(&mut scene.world, scene.requester, ticket);
    assert_eq!(told(&mut scene, hub).as_deref(), Some("uav7 room None : no rule allows it"));
}

const RED: &str =
    "[[rule]]\ndeny = [\"request\"]\nwho = { labels = { team = \"blue\" } }\n[[rule]]\nallow = [\"all\"]\n";

#[test]
fn own_labels_of_a_renewal_count() {
    let mut scene = Scene::new(14);
    scene.world.set_policy(scene.requester, RED);
    assert_eq!(reason(&scene.ask(Service::Image, THERE)), None);
    scene.world.set_labels(scene.requester, "team=blue");
    assert_eq!(reason(&scene.ask(Service::Image, THERE)), Some(Reason::Forbidden));
    scene.world.set_labels(scene.requester, "team=red");
    assert_eq!(reason(&scene.ask(Service::Image, THERE)), None);
}

/// The hub carries no copy until its own certificate lets it.
#[test]
fn hubs_labels_of_a_renewal_count() {
    let mut scene = Scene::new(15);
    let carriers = "[[rule]]\nallow = [\"all\"]\nwho = { role = \"node\" }\n\
                    [[rule]]\nallow = [\"reflect\"]\nwho = { labels = { carrier = \"yes\" } }\n";
    scene.world.set_policy(scene.hub, carriers);
    for is_carrier in [false, true] {
        let ticket = scene.world.subscribe(scene.requester, Service::Video, THERE);
        scene.world.run_relays(3 * SECOND);
        assert_eq!(!scene.world.hosts[scene.hub.0].media.grants.is_empty(), is_carrier);
        scene.world.command(scene.requester, NodeCommand::Cancel { ticket });
        scene.world.run_relays(SECOND);
        scene.world.set_labels(scene.hub, "carrier=yes");
    }
}

/// A remote with a renewed certificate connects anew: all that it has under way is judged by that.
#[test]
fn latest_certificate_of_a_remote_counts() {
    for (mode, judge) in [(RequestMode::Forward, 1), (RequestMode::Relay, 0)] {
        let mut scene = Scene::new(16);
        let judge = [scene.hub, scene.provider][judge];
        scene.world.set_policy(judge, RED);
        let ticket = scene.world.request_with(scene.requester, Service::Video, THERE, |wanted| {
            (wanted.mode, wanted.duration) = (mode, Some(60 * SECOND));
        });
        scene.world.run(2 * SECOND);
        assert_eq!(scene.world.hosts[scene.requester.0].ending(ticket).map(reason), None);
        scene.world.set_labels(scene.requester, "team=blue");
        scene.world.connect_again(scene.requester, judge);
        scene.world.run(SECOND);
        let ended = scene.world.hosts[scene.requester.0].ending(ticket).map(reason);
        assert_eq!(ended, Some(Some(Reason::Forbidden)), "{mode:?}");
    }
}

#[test]
fn records_leave_and_come_back_with_the_policy() {
    let mut scene = Scene::new(6);
    scene.world.set_policy(scene.hub, &denying("offer", "video"));
    assert_eq!(scene.found(Service::Image, THERE), [], "it is asked for its record anew");
    scene.world.run(SECOND);
    assert_eq!(scene.found(Service::Video, THERE), []);
    assert_eq!(scene.found(Service::Image, THERE), [node_id(scene.provider.0)]);
    assert!(scene.world.is_attached(scene.provider));
    scene.world.set_policy(scene.hub, ALLOW_ALL);
    scene.world.run(SECOND);
    assert_eq!(scene.found(Service::Video, THERE), [node_id(scene.provider.0)]);
}

/// The hub has not heard of the policy: the requester refuses the provider itself.
#[test]
fn requester_takes_nothing_that_may_not_be_offered() {
    let mut scene = Scene::new(7);
    scene.world.set_policy(scene.requester, &denying("offer", "video"));
    let ticket = scene.world.request(scene.requester, Service::Video, THERE);
    assert_eq!(failed(&mut scene.world, scene.requester, ticket), Reason::Forbidden);
    assert!(scene.world.delivered(scene.requester, ticket).is_empty());
}

#[test]
fn hidden_services_are_not_named() {
    let mut scene = Scene::new(8);
    scene.world.set_policy(scene.hub, &denying("lookup", "video"));
    let ticket = scene.world.lookup(scene.requester, Service::Image, ANYWHERE);
    match scene.world.outcome(scene.requester, ticket) {
        NodeEvent::LookupResult { found, .. } => {
            assert!(!found.candidates[0].services.contains(Service::Video));
            assert!(found.candidates[0].services.contains(Service::Track));
        }
        other => panic!("{other:?}"),
    }
    let ticket = scene.world.lookup(scene.requester, Service::Video, ANYWHERE);
    assert_eq!(failed(&mut scene.world, scene.requester, ticket), Reason::Forbidden);
}

#[test]
fn watchers_see_what_they_may() {
    let mut scene = Scene::new(9);
    let ticket = scene.world.ticket(scene.requester);
    let services = [Service::Video].into_iter().collect();
    let area = Area::Rectangle { min: Cell::new(0, 0), max: Cell::new(99, 99) };
    scene.world.command(scene.requester, NodeCommand::Watch { ticket, services, area, names: false });
    scene.world.run(SECOND);
    let far = scene.world.member("far", None, (90, 90), &[Service::Video], &[scene.hub]);
    scene.world.run_until_attached();
    scene.world.run(SECOND);
    let told = |scene: &Scene| {
        let mut there = std::collections::BTreeSet::new();
        for (_, event) in scene.world.events(scene.requester) {
            let NodeEvent::Changed { change, .. } = event else { continue };
            there.extend(change.updated.iter().map(|candidate| candidate.node));
            there.retain(|node| !change.removed.contains(node));
        }
        there.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(told(&scene).len(), 2);
    let north = "[[rule]]\ndeny = [\"watch\"]\narea = { rect = { min = \"80,80\", max = \"99,99\" } }\n";
    scene.world.set_policy(scene.hub, &format!("{north}{ALLOW_ALL}"));
    scene.world.run(SECOND);
    assert_eq!(told(&scene), [node_id(scene.provider.0)]);
    scene.world.command(far, NodeCommand::Move(Cell::new(50, 50).into()));
    scene.world.run(SECOND);
    assert_eq!(told(&scene).len(), 2, "it has come to where it may be seen");
    scene.world.set_policy(scene.hub, &denying("watch", "video"));
    let ended = scene.world.outcome_of_watch(scene.requester, ticket);
    assert_eq!(ended, Some(Reason::Forbidden));
}

#[test]
fn rooms_and_files_are_refused() {
    let mut scene = Scene::new(10);
    scene.world.set_policy(scene.hub, "[[rule]]\nallow = [\"offer\"]\n");
    let ticket = scene.world.ticket(scene.requester);
    scene.world.command(scene.requester, NodeCommand::JoinRoom { ticket, room: RoomId::named("ops") });
    assert_eq!(failed(&mut scene.world, scene.requester, ticket), Reason::Forbidden);
    scene.world.set_policy(scene.provider, "[[rule]]\nallow = [\"offer\"]\n");
    let ticket = scene.world.ticket(scene.requester);
    let to = Provider { node: node_id(scene.provider.0), addresses: addresses(scene.provider.0) };
    let (name, digest, deadline) = ("plan".to_owned(), [7; 32], 10 * SECOND);
    let push =
        NodeCommand::Push { ticket, to, published_service: None, name, length: 100, digest, deadline, delivery: None };
    scene.world.command(scene.requester, push);
    match scene.world.outcome(scene.requester, ticket) {
        NodeEvent::Pushed { state, .. } => assert_eq!(state, PushState::Forbidden),
        other => panic!("{other:?}"),
    }
}

/// Keys that hubs keep open a stream for every node, so they stay with the provider where some may not have it.
#[test]
fn keys_of_limited_streams_stay_with_the_provider() {
    for (policy, is_kept) in [(ALLOW_ALL.to_owned(), true), (denying("subscribe", "track"), true), (denying("call", "video"), true), ("[[rule]]\nallow = [\"all\"]\nwho = { labels = { team = \"red\" } }\n[[rule]]\nallow = [\"offer\", \"reflect\"]\n".to_owned(), false)] {
        let mut scene = Scene::new(11);
        scene.world.set_policy_everywhere(&policy);
        let ticket = scene.world.subscribe(scene.requester, Service::Video, THERE);
        scene.world.run_relays(3 * SECOND);
        assert!(scene.world.receives_stream(scene.requester, ticket, scene.provider), "{policy}");
        assert_eq!(scene.world.hub_at(scene.hub).counters().keys_stored > 0, is_kept, "{policy}");
    }
}

#[test]
fn subscriber_that_may_not_any_more_is_shut_out() {
    let mut scene = Scene::new(12);
    scene.world.set_policy_everywhere(ALLOW_ALL);
    let ticket = scene.world.subscribe(scene.requester, Service::Video, THERE);
    scene.world.run_relays(3 * SECOND);
    let rekeyed = |scene: &Scene| {
        let events = scene.world.events(scene.provider).iter();
        events.filter(|(_, event)| matches!(event, NodeEvent::MemberLeft { .. })).count()
    };
    let before = rekeyed(&scene);
    scene.world.set_policy(scene.provider, &denying("subscribe", "video"));
    scene.world.run_relays(3 * SECOND);
    assert_eq!(scene.world.hosts[scene.requester.0].ending(ticket).map(reason), Some(Some(Reason::Forbidden)));
    assert!(rekeyed(&scene) > before);
}

#[test]
fn providers_found_by_multicast_judge_who_asks() {
    let mut world = World::new(13);
    let members = [("camera", Service::ALL.as_slice()), ("uav7", &[])].map(|(name, services)| {
        let host = world.node_with(&[], |config| {
            (config.name, config.multicast, config.discovery) = (name.to_owned(), true, Discovery::Multicast);
            config.services = services.iter().copied().collect();
        });
        world.hosts[host.0].remote.name = name.to_owned();
        host
    });
    world.lans.push(members.to_vec());
    world.run(SECOND);
    world.set_policy(members[0], &denying("request", "image"));
    for (service, is_served) in [(Service::Image, false), (Service::Sensor, true)] {
        let ticket = world.request(members[1], service, ANYWHERE);
        let served = matches!(world.outcome(members[1], ticket), NodeEvent::Finished { .. });
        assert_eq!(served, is_served, "{service}");
    }
}

impl World {
    fn outcome_of_watch(&mut self, host: HostId, ticket: Ticket) -> Option<Reason> {
        self.run(SECOND);
        self.events(host).iter().find_map(|(_, event)| match event {
            NodeEvent::Failed { ticket: of, reason, .. } if *of == ticket => Some(*reason),
            _ => None,
        })
    }
}
