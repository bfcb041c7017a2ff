//! Errors are refused with their lines; oddities are not.

use super::*;

#[test]
fn mistakes_are_on_their_lines() {
    for (description, line, reason) in [
        ("$ns duplex-link $a $b 10Mb", 4, "wrong # args"),
        ("$ns duplex-link $a nosuch 10Mb 10ms DropTail", 4, "there is no object \"nosuch\""),
        ("$ns duplex-link $a $nosuch 10Mb 10ms DropTail", 4, "can't read \"nosuch\""),
        ("\n$ns duplex-link $a $b 10MB 10ms DropTail", 5, "\"MB\" is no unit of a rate"),
        ("$ns duplex-link $a $b 5kb 10ms DropTail", 4, "is below 10 kbit/s"),
        ("$ns duplex-link $a $b 0Mb 10ms DropTail", 4, "is below 10 kbit/s"),
        ("$ns duplex-link $a $b 20Gb 10ms DropTail", 4, "above 10 Gbit/s"),
        ("$ns duplex-link $a $b 10Mb 10us DropTail", 4, "\"us\" is no unit of a delay"),
        ("$ns duplex-link $a $b 10Mb fast DropTail", 4, "it does not begin with a number"),
        ("$ns make-lan \"$a $b nosuch\" 10Mb 10ms", 4, "there is no object \"nosuch\""),
        ("$ns make-lan \"$a $ns\" 10Mb 10ms", 4, "\"ns\" is a Simulator, not a node"),
        ("set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-lan-loss $l 0.1", 5, "\"l\" is a Link, not a LAN"),
        ("set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-link-loss $l 5", 5, "\"5\" is no loss"),
        ("set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-ip-link $c $l 10.0.0.1", 5, "\"c\" is not in \"l\""),
        ("set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-ip-link $a $l 10.0.0.999", 5, "is no IPv4 address"),
        (
            "set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-ip-link $a $l 10.0.0.255",
            4,
            "the address of the whole net",
        ),
        ("set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\ntb-set-netmask $l 255.0.0.0", 5, "is no netmask"),
        ("tb-set-ip $a 10.0.0.1", 4, "\"a\" has 0 interfaces"),
        ("tb-set-ip-interface $a $b 10.0.0.1", 4, "there is no link between \"a\" and \"b\""),
        ("[[$ns link $a $b] queue] set limit_ 5", 4, "there is no link between"),
        (
            "set l [$ns duplex-link $a $b 1Mb 0ms DropTail]\nset q [[$ns link $a $b] queue]\n$q set limit_ many",
            6,
            "is no value for limit_",
        ),
        (
            "tb-set-node-oss $a FBSD",
            4,
            "there is no command or object \"tb-set-node-oss\"; did you mean \"tb-set-node-os\"?",
        ),
        ("tb-nosuch $a", 4, "there is no command or object \"tb-nosuch\""),
        ("tb-set-node-startcmd $ns date", 4, "\"ns\" is a Simulator, not a node"),
        ("set p [new Program $ns]", 4, "the program \"p\" has no node"),
        ("set p [$a program-agent -command \"a\nb\"]", 4, "has more than one line"),
        ("$a add-route $c $b", 3, "\"a\" has a route by \"b\", which is no neighbour"),
        ("set sim2 [new Simulator]", 4, "there is a Simulator already"),
        ("source other.tcl", 4, "no other is read"),
        ("exec date", 4, "is not allowed"),
    ] {
        let error = read(&format!("set a [$ns node]; set b [$ns node]; set c [$ns node]\n{description}")).unwrap_err();
        assert!(error.line == line && error.message.contains(reason), "{description}: {error}");
    }
}

#[test]
fn excessive_input_is_refused_early() {
    for (description, reason) in [
        ("while 1 {$ns node}", "there are more than 4096 nodes"),
        (
            "set a [$ns node]; set b [$ns node]\nwhile 1 {$ns duplex-link $a $b 1Mb 0ms DropTail}",
            "there are more than 16384 links",
        ),
        (
            "for {set i 0} {$i < 4000} {incr i} {lappend l [$ns node]}\nwhile 1 {$ns make-lan $l 1Mb 0ms}",
            "more than 262144 interfaces",
        ),
        ("set a [$ns node]\nwhile 1 {$a program-agent}", "there are more than 65536 programs"),
        ("set a [$ns node]\nwhile 1 {$ns at 1 \"$a reboot\"}", "there are more than 65536 events"),
        (
            "set a [$ns node]\nset t [$ns event-timeline]\nwhile 1 {$t at 1 \"$a reboot\"}",
            "there are more than 65536 events",
        ),
        (
            "set a [$ns node]\nset s [$ns event-sequence {}]\nwhile 1 {$s append \"$a reboot\"}",
            "there are more than 65536 events",
        ),
        (
            "for {set i 0} {$i < 256} {incr i} {lappend l [$ns node]}\n$ns make-lan $l 1Mb 0ms",
            "tb-set-netmask makes room for more",
        ),
        ("while 1 {new Agent/UDP}", "more than 400000 objects"),
        ("set a [$ns node]\nset i 0; while 1 {$a set v[incr i] 1}", "there are more than 250000 variables"),
    ] {
        let error = read(description).unwrap_err();
        assert!(error.message.contains(reason), "{description}: {error}");
    }
    // A chain of lists, each of which starts the next one twice, would be 2^16 events.
    let chain = "set a [$ns node]\nset s(0) [$ns event-sequence {\n $a reboot\n $a reboot\n $a reboot\n}]\n\
                 for {set i 0} {$i < 15} {incr i} {set s([expr $i + 1]) [$ns event-sequence {\n $s($i) start\n $s($i) start\n}]}\n\
                 $ns at 1 \"$s(15) start\"";
    assert!(read(chain).unwrap_err().message.contains("more than 65536 events"));
}

#[test]
fn a_long_file_is_refused() {
    let limits = NsLimits { source_bytes: 100, ..NsLimits::default() };
    assert_eq!(
        parse("x.ns", &" ".repeat(101), &limits).unwrap_err().to_string(),
        "x.ns: the file is longer than 100 bytes"
    );
}

#[test]
fn emulab_warnings_are_accepted() {
    let of = three(
        "$ns duplex-link $a $b 10Mb 1ms DropTail extra words\n$ns rtptoto Static\nset odd [new Odd/Class]\n$odd do something\n\
         set tr [$ns trace-all foo]\n$tr bar\n$a nosuch 1\nAgent/TCP set window_ 100\nset odd2 [$ns make-path \"x\"]\n\
         $ns make-simulated {set sim1 [$ns node]}\n$ns node-config -topography foo",
    );
    for text in [
        "\"extra\" and what follows",
        "\"$ns rtptoto\" is not known",
        "\"Odd/Class\" is no class",
        "\"nosuch\" is nothing that a Node",
    ] {
        assert!(warned(&of, text), "{text}: {:?}", of.notes.warnings);
    }
    assert_eq!(of.hosts[3].hardware.as_deref(), Some("sim"));
}

#[test]
fn unused_objects_are_refused_at_end() {
    for (source, line) in [
        ("", 1),
        ("set ns [new Simulator]\nset a [$ns node]\n", 2),
        ("set ns [new Simulator]\nexit\n$ns run\n", 2),
        ("set ns [new Simulator]\nif 1 {\n  exit\n}\n$ns run\n", 3),
    ] {
        let error = parse("x.ns", source, &NsLimits::default()).unwrap_err();
        assert_eq!((error.line, error.message.contains("without a \"$ns run\"")), (line, true), "{error}");
    }
}

#[test]
fn ineffective_commands_take_any_arguments() {
    for command in ["tb-set-cpu-usage 6", "tb-fix-node $a pc1", "tb-set-noshaping", "tb-set-tarfiles /proj/x x.tgz"] {
        let of = three(command);
        let name = command.split(' ').next().unwrap();
        assert!(of.notes.ignored.iter().any(|note| note.text.contains(name)), "{command}: {:?}", of.notes);
    }
    assert!(read("tb-set-security-level Red").unwrap_err().message.contains("takes Green, Blue, Yellow, Orange"));
}

#[test]
fn harmless_tcl_is_accepted() {
    let of = topology(
        "package require Tcl 8.4\nvariable count 2\nproc show {} {variable count; return $count}\n\
         scan 10.5Mb %f%s amount unit\nscan \" 7,x\" %d,%c seven letter\n\
         for {set i 0} {$i < [show]} {incr i} {set n($i) [$ns node]}\n\
         set l [$ns duplex-link $n(0) $n(1) $amount$unit ${seven}ms DropTail]\nif {$letter != 120 || [scan x %d y] != 0} {error $letter}",
    );
    assert_eq!(shape(&net(&of, "l").members[0].to_net), (10_500, 3500, 0.0));
}

#[test]
fn set_takes_only_braces_that_pair() {
    for text in ["set x \\{", "set x \"a}b\"", "set x a\\\\"] {
        let error = read(&format!("{text}\n")).unwrap_err();
        assert!(error.line == 3 && error.message.contains("whose braces do not pair"), "{text}: {error}");
    }
    topology("set x {a {b} c}; set y \"{}\"; append z \\{");
}
