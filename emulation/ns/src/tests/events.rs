//! Schedules.

use std::time::Duration;

use roost_topology::model::{Action, Discipline, Queue, Red, TopologyChange};
use roost_topology::units::Rate;

use super::*;

const LINK: &str = "set l [$ns duplex-link $a $b 10Mb 20ms RED]\n";

fn scheduled(events: &str) -> Topology {
    three(&format!("{LINK}{events}"))
}

fn changes(of: &Topology) -> Vec<(f64, Option<usize>, TopologyChange)> {
    let change = |event: &roost_topology::model::Event| match event.action {
        Action::Net { net: 0, from, change } => Some((event.at.as_secs_f64(), from, change)),
        _ => None,
    };
    of.events.iter().filter_map(change).collect()
}

#[test]
fn links_go_down_and_change() {
    let of = scheduled(
        "$ns at 2.5 \"$l down\"\n$ns at 1 \"$l bandwidth 5Mb duplex; $l delay 300ms ; $l plr 0.05\"\n$ns at 1m \"$l up\"",
    );
    assert_eq!(
        changes(&of),
        [
            (1.0, None, TopologyChange::Rate(Rate::from_bps(5_000_000))),
            (1.0, None, TopologyChange::Delay(Duration::from_millis(300))),
            (1.0, None, TopologyChange::Loss(0.05)),
            (2.5, None, TopologyChange::Down),
            (60.0, None, TopologyChange::Up),
        ]
    );
    assert_eq!(
        rows(&of),
        [
            "1 l LINK MODIFY BANDWIDTH=5000",
            "1 l LINK MODIFY DELAY=300ms",
            "1 l LINK MODIFY PLR=0.05",
            "2.5 l LINK DOWN",
            "60 l LINK UP",
        ]
    );
    assert_eq!(of.events[0].line, 6);
}

#[test]
fn schedule_accepts_tevc_changes() {
    let of = scheduled("$ns at 3 \"$l modify delay=50ms BANDWIDTH=5000 PLR=0.1 LIMIT=9\"");
    let queue = Queue { limit: 9, discipline: Discipline::Red(Red::DEFAULT), ..Queue::DEFAULT };
    assert_eq!(
        changes(&of),
        [
            (3.0, None, TopologyChange::Delay(Duration::from_millis(50))),
            (3.0, None, TopologyChange::Rate(Rate::from_bps(5_000_000))),
            (3.0, None, TopologyChange::Loss(0.1)),
            (3.0, Some(0), TopologyChange::Queue(queue)),
            (3.0, Some(1), TopologyChange::Queue(queue)),
        ]
    );
    assert_eq!(rows(&of), ["3 l LINK MODIFY DELAY=50ms BANDWIDTH=5000 PLR=0.1 LIMIT=9"]);
    assert!(warned(&of, "knows \"modify\" only in tevc"));
}

#[test]
fn queue_events_change_one_parameter() {
    let of = scheduled(
        "set q [[$ns link $b $a] queue]\n$q set limit_ 40\n$ns at 9 \"$q set limit_ 30\"\n\
         $ns at 5 \"$q set thresh_ 5 ; $q set q_weight_ 0.5\"\n$ns at 7 \"$q set queue-in-bytes_ 1\"",
    );
    let states: Vec<_> = changes(&of)
        .into_iter()
        .map(|(at, from, change)| match change {
            TopologyChange::Queue(Queue { limit, in_bytes, discipline: Discipline::Red(red) }) => {
                (at, from, limit, in_bytes, red.min_threshold, red.weight)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        states,
        [
            (5.0, Some(1), 40, false, 5, 0.002),
            (5.0, Some(1), 40, false, 5, 0.5),
            (7.0, Some(1), 40, true, 5, 0.5),
            (9.0, Some(1), 30, true, 5, 0.5),
        ]
    );
    assert_eq!(
        rows(&of),
        [
            "5 l-b LINK MODIFY THRESH=5",
            "5 l-b LINK MODIFY Q_WEIGHT=0.5",
            "7 l-b LINK MODIFY QUEUE-IN-BYTES=1",
            "9 l-b LINK MODIFY LIMIT=30"
        ]
    );
}

#[test]
fn simulator_and_node_events_are_read() {
    let of = scheduled(
        "$ns at 1 \"$ns log hello there\"\n$ns at 2 \"$ns halt\"\n$ns at 3 \"$a reboot\"\n$ns at 4 \"$ns snapshot\"\n\
         $ns at 5 \"$a reload -image FC4\"\n$ns at 6 \"$l trace stop\"\n$ns at 7 \"$ns linktest\"\n$ns at 8 \"# nothing\"\n\
         $ns at swapout \"$ns report\"",
    );
    assert_eq!(
        rows(&of),
        [
            "0 ns * SIMULATOR REPORT",
            "1 ns * SIMULATOR LOG hello there",
            "2 ns * SIMULATOR HALT",
            "3 a NODE REBOOT",
            "4 ns * SIMULATOR SNAPSHOT LOGHOLE_ARGS='-s'",
            "5 a NODE RELOAD IMAGE=FC4",
            "6 l-tracemon LINKTRACE STOP",
            "7 linktest * LINKTEST START STARTAT=1 STOPAT=3",
        ]
    );
    assert!(of.events.iter().any(|event| event.at.as_secs() == 2 && event.action == Action::Halt));
    let cloud = three("set cl [$ns make-cloud \"$a $b\" 10Mb 10ms]");
    assert_eq!(rows(&cloud), ["0 cl * LINK CLEAR", "1 cl * LINK CREATE"]);
}

#[test]
fn group_event_applies_to_each_member() {
    let of = three(
        "set p [$a program-agent -command one]\nset q [$b program-agent -command two]\nset g [$ns event-group \"$p $q\"]\n\
         $ns at 5 \"$g start\"",
    );
    assert_eq!(rows(&of), ["5 g * PROGRAM START"]);
    assert_eq!(of.events.len(), 2);
    let error = read("set a [$ns node]\nset p [$a program-agent]\nset g [$ns event-group \"$p $a\"]").unwrap_err();
    assert!(error.line == 5 && error.message.contains("all members must be of one kind"), "{error}");
}

#[test]
fn timeline_runs_when_started() {
    let of = scheduled(
        "set t [$ns event-timeline]\n$t at 10 \"$l down\"\n$t at 5s \"$l up; $l delay 1ms\"\n$ns at 100 \"$t start\"",
    );
    let times: Vec<_> = changes(&of).into_iter().map(|(at, _, change)| (at, change)).collect();
    assert_eq!(
        times,
        [
            (105.0, TopologyChange::Up),
            (105.0, TopologyChange::Delay(Duration::from_millis(1))),
            (110.0, TopologyChange::Down)
        ]
    );
    assert_eq!(
        rows(&of),
        ["100 t TIMELINE START", "10 l LINK DOWN <t", "5 l LINK UP <t", "5 l LINK MODIFY DELAY=1ms <t"]
    );
}

#[test]
fn sequence_waits_for_its_programs() {
    let of = scheduled(
        "set p [$a program-agent]\nset what {date -u}\nset s [$ns event-sequence {\n  $p run -command \"$what\"\n  # said twice\n  $l down\n  $p start -command who\n  $l up\n}]\n\
         $s append \"$l delay 5ms\"\nset t [$ns event-sequence {\n  $s run\n  $ns halt\n}]\n$ns at 7 \"$t start\"",
    );
    let waits: Vec<_> =
        of.events.iter().map(|event| (event.at.as_secs_f64(), event.after, event.object.as_str())).collect();
    assert_eq!(
        waits,
        [
            (7.0, None, "p"),
            (7.0, Some(0), "l"),
            (7.0, Some(0), "p"),
            (7.0, Some(0), "l"),
            (7.0, Some(0), "l"),
            (7.0, Some(0), "ns")
        ]
    );
    assert_eq!(
        rows(&of),
        [
            "7 t SEQUENCE START",
            "0 p a PROGRAM RUN COMMAND=date -u <s",
            "0 l LINK DOWN <s",
            "0 p a PROGRAM START COMMAND=who <s",
            "0 l LINK UP <s",
            "0 l LINK MODIFY DELAY=5ms <s",
            "0 s SEQUENCE RUN <t",
            "0 ns * SIMULATOR HALT <t",
        ]
    );
}

#[test]
fn procedures_build_event_lists() {
    let of = topology(
        "proc add {list time what} {upvar $list l; lappend l [list $time $what]}\nset n [$ns node]\nset m [$ns node]\n\
         set link1 [$ns duplex-link $n $m 1Mb 0ms DropTail]\nset name link1\nadd todo 3 \"[set $name] down\"\nadd todo 4 \"$name up\"\n\
         foreach item $todo {$ns at [lindex $item 0] [lindex $item 1]}",
    );
    assert_eq!(rows(&of), ["3 link1 LINK DOWN", "4 link1 LINK UP"]);
}

#[test]
fn invalid_events_are_refused() {
    for (events, reason) in [
        ("$ns at -1 \"$l down\"", "\"-1\" is no time"),
        ("$ns at 1 \"$l down;\"", "an event is empty"),
        ("$ns at 1 \"$l\"", "does not say what is to happen"),
        ("$ns at 1 \"nosuch down\"", "is about \"nosuch\", which is no object"),
        ("$ns at 1 \"$l explode\"", "\"explode\" is nothing that an event can do to a link"),
        ("$ns at 1 \"$l bandwidth 5Mb\"", "too short: write \"bandwidth 5Mb duplex\""),
        ("$ns at 1 \"$l bandwidth 5MB duplex\"", "\"MB\" is no unit of a rate"),
        ("$ns at 1 \"$l delay\"", "too short"),
        ("$ns at 1 \"$l plr 2\"", "\"2\" is no loss"),
        ("$ns at 1 \"$l modify SPEED=5\"", "\"SPEED\" is nothing that can be changed"),
        ("$ns at 1 \"$a explode\"", "nothing that an event can do to a node"),
        ("$ns at 1 \"$ns explode\"", "nothing that an event can do to the simulator"),
        ("$ns at 1 $l down", "wrong # args"),
        ("set u [new Agent/UDP]\n$ns at 1 \"$u start\"", "nothing can happen to \"u\""),
        ("set c [new Application/Traffic/CBR]\n$ns at 1 \"$c start\"", "\"c\" is not attached to an agent"),
        ("set p [$a program-agent]\n$ns at 1 \"$p start -nosuch 1\"", "bad option \"-nosuch\""),
        ("set s [$ns event-sequence {\n $l down\n}]\n$s append \"$s run\"\n$ns at 1 \"$s start\"", "starts itself"),
        ("set g [$ns event-group]\n$ns at 1 \"$g start\"", "has no members yet"),
    ] {
        let error = read(&format!("set a [$ns node]; set b [$ns node]\n{LINK}{events}")).unwrap_err();
        assert!(error.message.contains(reason), "{events}: {error}");
    }
}

#[test]
fn groups_accept_objects_without_events() {
    let groups = "set m [$ns duplex-link $a $b 1Mb 0ms DropTail]\nset q [[$ns link $a $b] queue]\n\
                  set links [$ns event-group \"$l $m\"]\nset queues [$ns event-group $q]\nset outer [$ns event-group $links]\n";
    scheduled(groups);
    for (event, reason) in [
        ("$links down", "\"links\" is a group of links"),
        ("$queues set limit_ 5", "\"queues\" is a group of queues"),
        ("$outer down", "\"outer\" is a group of groups"),
    ] {
        let error =
            read(&format!("set a [$ns node]; set b [$ns node]\n{LINK}{groups}$ns at 1 \"{event}\"")).unwrap_err();
        assert!(error.message.contains(reason) && error.line == 10, "{event}: {error}");
    }
}

#[test]
fn lan_queue_keeps_first_name() {
    let lan = "[[$ns lanlink tblan-lan4 $b] queue]";
    let of = three(&format!("$ns make-lan \"$a $b $c\" 10Mb 10ms\nset q {lan}\n$ns at 5 \"$q set limit_ 20\""));
    assert_eq!(rows(&of), ["5 tblan-lan4-b LINK MODIFY LIMIT=20"]);
    let queue = Queue { limit: 20, ..Queue::DEFAULT };
    assert_eq!(changes(&of), [(5.0, Some(1), TopologyChange::Queue(queue))]);
    let named =
        "set a [$ns node]\nset l [$ns make-lan $a 10Mb 10ms]\nset q [$l Queue $a]\n$ns at 5 \"$q set limit_ 20\"";
    assert!(read(named).unwrap_err().message.contains("once the LAN is called \"l\""));
}

#[test]
fn all_programs_are_a_group() {
    let of = three(
        "set p [$a program-agent -command one]\ntb-set-node-startcmd $b two\n$ns at 5 \"$__all_programs stop\"\n\
         $ns at 6 \"__all_programs start\"",
    );
    let stops: Vec<_> = of.events.iter().filter(|event| event.at.as_secs() == 5).map(|event| &event.action).collect();
    let stop = |program| Action::Program { program, what: roost_topology::model::ProgramAction::Stop };
    assert_eq!(stops, [&stop(0), &stop(1)]);
    assert_eq!(rows(&of)[1..], ["5 __all_programs * PROGRAM STOP", "6 __all_programs * PROGRAM START"]);
}

#[test]
fn robots_move_only_on_a_topography() {
    let of = three(
        "set floor [new Topography]\n$floor load_area hall\n$ns node-config -topography $floor\nset robot [$ns node]\n\
         $ns at 5 \"$robot setdest 1 2 0.2\"",
    );
    assert_eq!(rows(&of), ["5 robot NODE SETDEST X=1 Y=2 SPEED=0.2 ORIENTATION=0"]);
    assert_eq!((of.hosts[2].hardware.as_deref(), of.hosts[3].hardware.as_deref()), (None, Some("robot")));
    for (description, line, reason) in [
        ("$ns at 5 \"$a setdest 1 2 0.2\"", 4, "\"a\" stands on no topography"),
        ("$ns node-config -adhocRouting DSR", 4, "bad option \"-adhocRouting\""),
        ("set t [new Topography]\n$a topography $t", 5, "the topography \"t\" has no extent yet"),
        ("$a topography $a", 4, "\"a\" is no topography"),
    ] {
        let error = read(&format!("set a [$ns node]\n{description}")).unwrap_err();
        assert!(error.line == line && error.message.contains(reason), "{description}: {error}");
    }
}
