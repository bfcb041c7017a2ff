//! Programs and traffic.

use std::time::Duration;

use roost_topology::emulab;
use roost_topology::model::{Action, HostProgram, ProgramAction, TrafficAction};

use super::*;

#[test]
fn start_command_kept_plain_listed_wrapped() {
    let of = three("tb-set-node-startcmd $a \"sudo run.sh -x 'y'\"");
    let program = &of.programs[0];
    assert_eq!(
        (program.name.as_str(), program.command.as_str(), program.host),
        ("a_startcmd", "sudo run.sh -x 'y'", 0)
    );
    assert!(program.start_command);
    let wrapped = "(sudo run.sh -x 'y' ; /usr/local/etc/emulab/startcmddone $?)";
    assert_eq!(emulab::command(program), wrapped);
    assert_eq!(rows(&of), [format!("0 a_startcmd a PROGRAM START COMMAND={wrapped}")]);
    assert_eq!(of.events[0].action, Action::Program { program: 0, what: ProgramAction::Start(None) });
}

#[test]
fn procedure_start_commands_keep_own_names() {
    let of = three("proc go {n} {tb-set-node-startcmd $n date}\n$ns duplex-link $a $b 1Mb 0ms DropTail\ngo $a\ngo $b");
    let names: Vec<_> = of.programs.iter().map(|program| program.name.as_str()).collect();
    // The link's three queues and the group that the first program makes have numbers as well.
    assert_eq!(names, ["Program5", "Program7"]);
}

#[test]
fn programs_have_folders_times_and_codes() {
    let of = three(
        "set p [$a program-agent -command \"ls -l\" -dir /tmp -timeout 1m30s -expected-exit-code 3]\nset q [new Program $ns]\n\
         $q set node $b\n$q set command {date -u}",
    );
    let expected = HostProgram {
        name: "p".to_owned(),
        host: 0,
        command: "ls -l".to_owned(),
        folder: Some("/tmp".to_owned()),
        timeout: Some(Duration::from_secs(90)),
        expected_exit: Some(3),
        start_command: false,
    };
    assert_eq!(of.programs[0], expected);
    let q = &of.programs[1];
    assert_eq!((q.name.as_str(), q.host, q.command.as_str(), q.folder.as_deref()), ("q", 1, "date -u", None));
}

#[test]
fn programs_are_started_stopped_and_changed() {
    let of = three(
        "set p [$a program-agent -command date]\n$ns at 1 \"$p start\"\n$ns at 2 \"$p run -command {ls -l} -tag t\"\n\
         $ns at 3 \"$p stop; $p kill HUP\"\n$ns at 1h2m3s \"$p set -command who\"\n$ns at 5.5 \"$p start -dir /tmp -timeout 5.0\"",
    );
    let program = |what| Action::Program { program: 0, what };
    let actions: Vec<_> = of.events.iter().map(|event| (event.at.as_secs_f64(), event.action.clone())).collect();
    assert_eq!(
        actions,
        [
            (1.0, program(ProgramAction::Start(None))),
            (2.0, program(ProgramAction::Run(Some("ls -l".to_owned())))),
            (3.0, program(ProgramAction::Stop)),
            (3.0, program(ProgramAction::Kill("HUP".to_owned()))),
            (5.5, program(ProgramAction::Start(Some("cd '/tmp' && date".to_owned())))),
            (3723.0, program(ProgramAction::Set("who".to_owned()))),
        ]
    );
    assert_eq!(
        rows(&of),
        [
            "1 p a PROGRAM START COMMAND=date",
            "2 p a PROGRAM RUN TAG=t COMMAND=ls -l",
            "3 p a PROGRAM STOP",
            "3 p a PROGRAM KILL SIGNAL=HUP",
            "5.5 p a PROGRAM START DIR={/tmp} TIMEOUT={5.0} COMMAND=date",
            "3723 p a PROGRAM MODIFY COMMAND=who",
        ]
    );
}

const TRAFFIC: &str = "set l [$ns duplex-link $a $b 10Mb 0ms DropTail]\nset udp0 [new Agent/UDP]\n$ns attach-agent $a $udp0\n\
    set cbr0 [new Application/Traffic/CBR]\n$cbr0 set packetSize_ 500\n$cbr0 set interval_ 0.005\n$cbr0 attach-agent $udp0\n\
    set tcp0 [new Agent/TCP]\n$ns attach-agent $a $tcp0\nset ftp0 [new Application/FTP]\n$ftp0 attach-agent $tcp0\n\
    set null0 [new Agent/Null]\n$ns attach-agent $b $null0\nset sink0 [new Agent/TCPSink]\n$ns attach-agent $b $sink0\n\
    $ns connect $udp0 $null0\n$ns connect $tcp0 $sink0\n";

#[test]
fn agents_get_ports_and_application_names() {
    let of = three(TRAFFIC);
    let agents: Vec<_> =
        of.traffic.iter().map(|it| (it.name.as_str(), it.host, it.is_source, it.tcp, it.port, it.target)).collect();
    assert_eq!(
        agents,
        [
            ("cbr0", 0, true, false, 5001, Some(1)),
            ("ftp0", 0, true, true, 5002, Some(1)),
            ("null0", 1, false, false, 5001, Some(0)),
            ("sink0", 1, false, true, 5002, Some(0)),
        ]
    );
    let cbr = &of.traffic[0];
    assert_eq!((cbr.packet_bytes, cbr.rate.bps(), cbr.interval), (500, 100_000_000, Some(0.005)));
    assert_eq!(rows(&of), ["0 cbr0 a TRAFGEN MODIFY PACKETSIZE=500 RATE=100000 INTERVAL=0.005 IPTOS=-1"]);
}

#[test]
fn traffic_is_started_and_changed() {
    let of = three(&format!(
        "{TRAFFIC}$ns at 1 \"$cbr0 start\"\n$ns at 2 \"$cbr0 set rate_ 15Mbps; $cbr0 set interval_ 128\"\n\
         $ns at 3 \"$cbr0 set packetSize_ 64\"\n$ns at 4 \"$cbr0 stop\"\n$ns at 5 \"$ftp0 start\""
    ));
    assert_eq!(
        rows(&of)[1..],
        [
            "1 cbr0 a TRAFGEN START",
            "2 cbr0 a TRAFGEN MODIFY RATE=15000",
            "2 cbr0 a TRAFGEN MODIFY INTERVAL=128",
            "3 cbr0 a TRAFGEN MODIFY PACKETSIZE=64",
            "4 cbr0 a TRAFGEN STOP",
            "5 ftp0 a NSE NSEEVENT $ftp0 start",
        ]
    );
    let actions: Vec<_> = of.events.iter().map(|event| event.action.clone()).collect();
    assert_eq!(actions[0], Action::Traffic { agent: 0, what: TrafficAction::Start });
    assert_eq!(actions[3], Action::Traffic { agent: 0, what: TrafficAction::PacketBytes(64) });
    assert_eq!(actions[5], Action::Traffic { agent: 1, what: TrafficAction::Start });
}

#[test]
fn incomplete_traffic_is_refused_at_origin() {
    for (remove, line, reason) in [
        ("$ns connect $udp0 $null0\n", 5, "the agent \"udp0\" is connected to nothing"),
        ("$cbr0 attach-agent $udp0\n", 5, "the agent \"udp0\" has nothing to send"),
        ("$ns attach-agent $b $null0\n", 5, "the other end of the agent \"udp0\" is on no node"),
    ] {
        let source = format!("set a [$ns node]; set b [$ns node]\n{}", TRAFFIC.replace(remove, ""));
        let error = read(&source).unwrap_err();
        assert!(error.line == line && error.message.contains(reason), "{error}");
    }
    let error = read("set a [$ns node]\nset x [new Agent/TCPSINK]\n$ns attach-agent $a $x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "x.ns:5: \"null2\" is no agent: it was made on line 4 by \"Agent/TCPSINK\", which nobody knows; did you mean \
         `Agent/TCPSink`?"
    );
}

#[test]
fn source_rate_may_be_omitted() {
    for (rate, listed, bps) in [("*", "0", 0), ("~", "10", 10_000), ("0", "-1", 0), ("5Mb", "5000", 5_000_000)] {
        let of = three(&TRAFFIC.replace("$cbr0 set interval_ 0.005", &format!("$cbr0 set rate_ {rate}")));
        assert_eq!(
            (rows(&of)[0].contains(&format!("RATE={listed} ")), of.traffic[0].rate.bps()),
            (true, bps),
            "{rate}"
        );
    }
    let slow = TRAFFIC.replace("$cbr0 set interval_ 0.005", "$cbr0 set rate_ 5kb");
    assert!(
        read(&format!("set a [$ns node]; set b [$ns node]\n{slow}"))
            .unwrap_err()
            .message
            .contains("no value for rate_")
    );
}
