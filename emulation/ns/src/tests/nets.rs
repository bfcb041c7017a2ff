//! Links, LANs, their legs, queues and addresses.

use roost_topology::model::{Discipline, NetKind, Queue, Red, RouteTarget, Routing};

use super::*;

#[test]
fn link_values_are_split_over_legs() {
    let of = three("set l [$ns duplex-link $a $b 30Mb 50ms DropTail]\ntb-set-link-loss $l 0.01");
    let l = net(&of, "l");
    assert_eq!((l.kind, members(&of, "l")), (NetKind::Link, vec!["a".to_owned(), "b".to_owned()]));
    for member in &l.members {
        assert_eq!(
            (shape(&member.to_net), shape(&member.from_net)),
            ((30_000, 25_000, 0.005013), (30_000, 25_000, 0.005013))
        );
        assert_eq!((member.to_net.queue, member.address, member.prefix), (Queue::DEFAULT, None, 24));
    }
}

#[test]
fn a_link_may_differ_by_direction() {
    let of = three("set l [$ns duplex-link $a $b 10Mb 40ms DropTail]\ntb-set-link-simplex-params $l $b 100ms 1Mb 0.19");
    let l = &net(&of, "l").members;
    assert_eq!((shape(&l[0].to_net), shape(&l[0].from_net)), ((10_000, 20_000, 0.0), (1000, 50_000, 0.1)));
    assert_eq!((shape(&l[1].to_net), shape(&l[1].from_net)), ((1000, 50_000, 0.1), (10_000, 20_000, 0.0)));
}

#[test]
fn lan_member_legs_are_individual() {
    let of = three(
        "set l [$ns make-lan \"$a $b $c\" 100Mb 10ms]\ntb-set-node-lan-delay $a $l 25ms\ntb-set-node-lan-bandwidth $a $l 2Mb\n\
         tb-set-node-lan-loss $a $l 0.02\ntb-set-lan-simplex-params $l $b 5ms 1Mb 0.1 7ms 2Mb 0.2",
    );
    let l = &net(&of, "l").members;
    assert_eq!((shape(&l[0].to_net), shape(&l[0].from_net)), ((2000, 25_000, 0.02), (2000, 25_000, 0.02)));
    assert_eq!((shape(&l[1].to_net), shape(&l[1].from_net)), ((1000, 5000, 0.1), (2000, 7000, 0.2)));
    assert_eq!(shape(&l[2].to_net), (100_000, 5000, 0.0));
    let of = three(
        "set l [$ns make-lan \"$a $b\" 100Mb 0ms]\ntb-set-node-lan-params $b $l 40ms 5Mb 0.5\ntb-set-lan-loss $l 0.19",
    );
    assert_eq!(shape(&net(&of, "l").members[1].from_net), (5000, 40_000, 0.1));
}

#[test]
fn loss_applies_to_net_or_end() {
    let of = three(
        "$ns duplex-link $a $b 1Mb 0ms DropTail\nset l [$ns make-lan \"$b $c\" 1Mb 0ms]\ntb-set-link-loss $b $a 0.19\n\
         tb-set-link-loss $l 0.36",
    );
    assert_eq!(shape(&of.nets[0].members[1].to_net).2, 0.1);
    assert_eq!(shape(&of.nets[1].members[0].from_net).2, 0.2);
}

#[test]
fn rates_may_be_left_open() {
    let of = three(
        "set l [$ns duplex-link $a $b * 0ms DropTail]\nset m [$ns make-san \"$a $b\"]\n$ns duplex-link $b $c 10Mb 0.3ms DropTail",
    );
    assert!(net(&of, "l").members[0].to_net.rate.is_unlimited() && net(&of, "m").members[0].to_net.rate.is_unlimited());
    assert_eq!(of.emulab.best_effort, [1]);
    assert_eq!(shape(&of.nets[2].members[0].to_net), (10_000, 150, 0.0));
}

#[test]
fn queues_are_set_by_side() {
    let of = three(
        "set l [$ns duplex-link $a $b 10Mb 10ms RED]\nset q [[$ns link $b $a] queue]\n$q set limit_ 20\n$q set thresh_ 7\n\
         $q set maxthresh_ 21\n$q set linterm_ 5\n$q set q_weight_ 0.5\n$q set gentle_ 1\n$q set mean_pktsize_ 900\n\
         set m [$ns duplex-link $b $c 10Mb 10ms Odd]\n[[$ns link $b $c] queue] set queue-in-bytes_ true\n\
         set l2 [$ns make-lan \"$a $c\" 10Mb 10ms]\n[[$ns lanlink $l2 $c] queue] set limit_ 7\n[$l2 Queue $a] set red_ 1",
    );
    let queue = |name: &str, at: usize| net(&of, name).members[at].to_net.queue;
    let red = Red { min_threshold: 7, max_threshold: 21, linterm: 5, weight: 0.5, gentle: true };
    assert_eq!(queue("l", 0), Queue { discipline: Discipline::Red(Red::DEFAULT), ..Queue::DEFAULT });
    assert_eq!(queue("l", 1), Queue { limit: 20, in_bytes: false, discipline: Discipline::Red(red) });
    assert_eq!(queue("m", 0), Queue { in_bytes: true, ..Queue::DEFAULT });
    assert_eq!(queue("l2", 1), Queue { limit: 7, ..Queue::DEFAULT });
    assert_eq!(queue("l2", 0).discipline, Discipline::Red(Red::DEFAULT));
    assert!(warned(&of, "\"Odd\" is no queue") && ignored(&of, "\"set mean_pktsize_\" of a Queue"));
    let gentle = three("$ns duplex-link $a $b 10Mb 10ms GRED").nets[0].members[1].to_net.queue.discipline;
    assert_eq!(gentle, Discipline::Red(Red { gentle: true, ..Red::DEFAULT }));
}

#[test]
fn addresses_and_netmasks_are_taken() {
    let of = three(
        "set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\nset m [$ns make-lan \"$b $c\" 1Mb 0ms]\ntb-set-ip $a 10.5.0.1\n\
         tb-set-ip-interface $b $a 10.5.0.2\ntb-set-ip-lan $c $m 10.6.1.9\ntb-set-ip-link $b $l 10.5.0.3\n\
         tb-set-netmask $m 255.255.240.0\n$b ip 1 10.6.0.1",
    );
    let address = |name: &str, at: usize| net(&of, name).members[at].address.unwrap().to_string();
    assert_eq!([address("l", 0), address("l", 1), address("m", 1)], ["10.5.0.1", "10.5.0.3", "10.6.1.9"]);
    assert_eq!((net(&of, "m").members[0].prefix, address("m", 0)), (20, "10.6.0.1".to_owned()));
}

#[test]
fn routing_keeps_emulab_names() {
    for (description, routing, name) in [
        ("", Routing::None, None),
        ("$ns rtproto Static", Routing::Static, Some("static")),
        ("$ns rtproto Session", Routing::Session, Some("ospf")),
        ("$ns rtproto Manual", Routing::Manual, Some("manual")),
        ("$ns rtproto Static-ddijk", Routing::Static, Some("static-ddijk")),
        ("$ns rtproto Nosuch", Routing::None, None),
        ("$ns rtproto Static; tb-set-ip-routing none", Routing::None, None),
    ] {
        let of = three(description);
        assert_eq!((of.routing, of.emulab.routing.as_deref()), (routing, name), "{description}");
    }
}

#[test]
fn routes_and_costs_are_kept() {
    let of = three(
        "set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\nset m [$ns duplex-link $b $c 1Mb 0ms DropTail]\n$ns rtproto Manual\n\
         $a add-route $c $b\n$c add-route $l $b\n$l cost 2.5\n$ns cost $b $c 7\ntb-set-sync-server $b",
    );
    let routes: Vec<_> = of.manual_routes.iter().map(|route| (route.host, route.to, route.via)).collect();
    assert_eq!(routes, [(0, RouteTarget::Host(2), 1), (2, RouteTarget::Net(0), 1)]);
    assert_eq!((net(&of, "l").cost, net(&of, "m").cost, of.sync_server), (2.5, 7.0, Some(1)));
}

#[test]
fn node_joins_several_nets() {
    let of = three(
        "for {set i 0} {$i < 3} {incr i} {$ns duplex-link $a $b 1Mb 0ms DropTail}\nset q [[$ns link $a $b] queue]\n$q set limit_ 9",
    );
    assert_eq!(of.interfaces()[0], [(0, 0), (1, 0), (2, 0)]);
    // `link` returns the latest link.
    assert_eq!(of.nets[2].members[0].to_net.queue.limit, 9);
}

#[test]
fn ineffective_settings_warn_with_line() {
    let of = three(
        "tb-set-node-rpms $a x.rpm\ntb-use-endnodeshaping 1\ntb-set-node-os $b FBSD\n$a add-desire x 0.5\nputs hello",
    );
    let notes: Vec<_> = of.notes.ignored.iter().map(|note| (note.line, note.text.as_str())).collect();
    assert_eq!(notes[0], (4, "tb-set-node-rpms: the hosts share this machine's files"));
    assert_eq!(notes.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    assert!(warned(&three("set x 5 # five"), "is not part of the value"));
}

#[test]
fn only_unaddressed_members_need_room() {
    let link = "set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-netmask $l 255.255.255.252\n";
    let of = three(&format!("{link}tb-set-ip-link $a $l 10.5.0.1\ntb-set-ip-link $b $l 10.5.0.2"));
    assert_eq!(net(&of, "l").members[1].prefix, 30);
    three(&format!("{link}tb-set-ip-link $a $l 10.5.0.1"));
    for addresses in ["tb-set-ip-link $a $l 10.5.0.2", ""] {
        let error = read(&format!("set a [$ns node]; set b [$ns node]\n{link}{addresses}")).unwrap_err();
        assert!(error.message.contains("tb-set-netmask makes room for more"), "{error}");
    }
}

#[test]
fn odd_accepted_settings_warn() {
    for (description, warning) in [
        (
            "set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-ip-link $a $l 10.5.0.1\ntb-set-ip-link $b $l 10.5.0.1",
            "10.5.0.1 is the address of both `a` and `b`",
        ),
        ("set l [$ns make-lan \"$a $b $a\" 1Mb 0ms]", "`a` is on `l` twice"),
        ("set l [$ns duplex-link $a $a 1Mb 0ms DropTail]", "`l` links `a` with itself"),
        (
            "tb-set-link-loss [$ns duplex-link $a $b 1Mb 0ms DropTail] 0.1 # a comment",
            "\"#\" and what follows it is no loss",
        ),
        ("set x [expr rand()]", "rand() gives the same numbers"),
    ] {
        let of = three(description);
        assert!(warned(&of, warning), "{description}: {:?}", of.notes.warnings);
    }
}

#[test]
fn file_without_nodes_is_empty_network() {
    let of = topology("");
    assert!(of.hosts.is_empty() && warned(&of, "the topology has no host"));
}

#[test]
fn best_effort_uses_slowest_rate() {
    let of = three(
        "set l [$ns make-lan \"$a $b\" ~ 0ms]\nset m [$ns make-lan \"$a $b\" 1Mb 0ms]\ntb-set-node-lan-bandwidth $a $m ~\n\
         tb-set-node-lan-bandwidth $b $m *",
    );
    assert!(net(&of, "l").members[0].to_net.rate.is_unlimited());
    let m = &net(&of, "m").members;
    assert_eq!((shape(&m[0].to_net).0, m[1].to_net.rate.is_unlimited()), (10, true));
}

#[test]
fn odd_queue_values_are_normalized() {
    for (value, limit) in [("0", 50), ("-1", 50), ("64KB", 64), ("10.5", 10), ("20", 20)] {
        let of = three(&format!(
            "set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\nset q [[$ns link $a $b] queue]\n$q set limit_ {value}\n\
             $ns at 5 \"$q set limit_ {value}\""
        ));
        assert_eq!(net(&of, "l").members[0].to_net.queue.limit, limit, "{value}");
        assert_eq!(rows(&of), [format!("5 l-a LINK MODIFY LIMIT={value}")]);
        assert_eq!(warned(&of, "is taken for"), value != "20", "{value}");
    }
}

#[test]
fn crossed_thresholds_survive_round_trip() {
    let of = three(
        "$ns duplex-link $a $b 1Mb 0ms RED\nset q [[$ns link $a $b] queue]\n$q set thresh_ 30\n$ns rtproto Static",
    );
    assert!(warned(&of, "the lower threshold, 30, is not below the upper one, 15"));
    let text = roost_topology::file::write(&of, "");
    let read = crate::load_text(std::path::Path::new("back.toml"), &text).unwrap();
    assert_eq!(read.nets, of.nets);
}

#[test]
fn firewall_is_listed_as_node() {
    let of = three("set fw [new Firewall $ns]\n$fw set-type iptables\n$fw set-style basic\n$fw add-rule {allow all}");
    let firewall = &of.hosts[3];
    assert_eq!(
        (firewall.name.as_str(), firewall.os.as_deref(), firewall.hardware.as_deref()),
        ("fw", Some("FW-IPTABLES"), Some("pc"))
    );
    assert_eq!(host_names(&three("tb-set-security-level Yellow")), ["a", "b", "c", "fw"]);
    assert_eq!(three("tb-set-security-level Green").hosts.len(), 3);
    for (description, reason) in [
        ("new Firewall $ns; new Firewall $ns", "there is a firewall already"),
        ("set fw [new Firewall $ns]; $fw set-type brick", "\"brick\" is nothing for set-type"),
        ("set fw [new Firewall $ns]; $fw add-numbered-rule 99 x", "\"99\" is nothing for add-numbered-rule"),
        ("tb-set-security-level Blue; new Firewall $ns", "exclude each other"),
    ] {
        let error = read(description).unwrap_err();
        assert!(error.line == 3 && error.message.contains(reason), "{description}: {error}");
    }
}

#[test]
fn excess_notes_are_counted() {
    let of = topology("for {set i 0} {$i < 1500} {incr i} {puts $i}");
    assert!(warned(&of, "there are 500 more remarks than the 1000"), "{:?}", of.notes.warnings);
}
