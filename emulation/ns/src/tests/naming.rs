//! Objects are named by the first global variable that they are stored in.

use super::*;

#[test]
fn global_variable_names_new_object() {
    let of = topology(
        "set alpha [$ns node]\nset n(3) [$ns node]\nset n(x,1) {}\nfor {set i 0} {$i < 2} {incr i} {set r($i) [$ns node]}\n\
         foreach name {p q} {set $name [$ns node]}\nset big-lan [$ns make-lan \"$alpha $n(3)\" 100Mb 0ms]",
    );
    assert_eq!(host_names(&of), ["alpha", "n-3", "r-0", "r-1", "p", "q"]);
    assert_eq!(net_names(&of), ["big-lan"]);
}

#[test]
fn unnamed_objects_share_one_counter() {
    let of = topology(
        "set a [$ns node]\n$ns node\nlappend nodes [$ns node]\n$ns duplex-link $a tbnode-n2 10Mb 0ms DropTail\n\
         $ns make-lan [concat $nodes $a] 10Mb 0ms\nset t [$ns event-timeline]\n$ns nosuch-method 5\n\
         $ns duplex-link $a tbnode-n2 10Mb 0ms DropTail",
    );
    assert_eq!(host_names(&of), ["a", "tbnode-n2", "tbnode-n3"]);
    assert_eq!(net_names(&of), ["tblink-l4", "tblan-lan5", "tblink-l8"]);
    assert!(warned(&of, "\"$ns nosuch-method\" is not known"));
}

#[test]
fn procedure_result_names_object() {
    let of = topology(
        "proc make {os} {\n global ns\n set fresh [$ns node]\n tb-set-node-os $fresh $os\n return $fresh\n}\n\
         set one [make A]\nset two [make B]\nproc other {} {\n global ns three\n set three [$ns node]\n}\nother\n\
         proc lost {} {\n global ns\n set l [$ns node]\n}\nlost",
    );
    assert_eq!(host_names(&of), ["one", "two", "three", "tbnode-n4"]);
    assert_eq!(of.hosts[1].os.as_deref(), Some("B"));
}

#[test]
fn only_the_next_assignment_names_it() {
    let of = topology(
        "lappend l [$ns node]\nset other 5\nset late [lindex $l 0]\nlappend l [$ns node]\nset late2 [lindex $l 1]",
    );
    assert_eq!(host_names(&of), ["tbnode-n1", "late2"]);
}

#[test]
fn emulab_variables_end_naming() {
    let description = "proc make {} {\n global ns node0\n set p [$node0 program-agent -command date]\n $ns at 5 \"$p start\"\n return $p\n}\n\
                       set node0 [$ns node]\n";
    assert_eq!(topology(&format!("{description}set prog [make]")).programs[0].name, "prog");
    let of = topology(&format!("set cmd hello\n{description}set prog [make]"));
    assert_eq!(of.programs[0].name, "Program2");
}

#[test]
fn objects_are_commands_of_their_name() {
    let of = three(
        "set link0 [ns duplex-link a b 10Mb 20ms DropTail]\nlink0 cost 3\nns at 4 \"link0 down\"\ntb-set-ip-link a link0 10.9.0.1",
    );
    assert_eq!((net(&of, "link0").cost, rows(&of)), (3.0, vec!["4 link0 LINK DOWN".to_owned()]));
    assert_eq!(net(&of, "link0").members[0].address.unwrap().to_string(), "10.9.0.1");
}

#[test]
fn names_are_unique_and_not_commands() {
    for (description, line, reason) in [
        ("set a [$ns node]\nset a [$ns node]", 4, "there is an object \"a\" already, made on line 3"),
        ("set switch [$ns node]", 3, "\"switch\" is the name of a command"),
        ("set source [$ns node]", 3, "\"source\" is the name of a command"),
        ("set Link [$ns node]", 3, "\"Link\" is the name of a command"),
        ("proc router {} {}\nset router [$ns node]", 4, "\"router\" is the name of a command"),
        ("set node_1 [$ns node]", 3, "\"node_1\" is no name for a node"),
        ("set n(1,2) [$ns node]", 3, "\"n-1,2\" is no name for a node"),
        ("set ops [$ns node]", 3, "no node may be called \"ops\""),
        ("set a [$ns node]\nset my_lan [$ns make-lan \"$a\" 10Mb 0ms]", 4, "\"my_lan\" is no name for a LAN"),
        ("set x [$ns node]\nset y $x\n$x nosuch\nunset x\nset z [$ns node]\n$tbnode-n1 x", 8, "can't read \"tbnode\""),
    ] {
        let error = read(description).unwrap_err();
        assert_eq!(error.line, line, "{description}: {error}");
        assert!(error.message.contains(reason), "{description}: {error}");
    }
}

#[test]
fn assigned_variables_end_naming() {
    let making = "set a [$ns node]\nset b [$ns node]\nset lan [$ns make-lan \"$a $b\" 10Mb 0ms]\n\
                  set line [$ns duplex-link $a $b 10Mb 0ms DropTail]\nset queue [[$ns link $a $b] queue]\nset done [$ns event-timeline]\n";
    for (command, variable) in [
        ("tb-set-hardware $a pc850", "type"),
        ("tb-set-lan-loss $lan 0.1", "rloss"),
        ("tb-set-link-loss $line 0.1", "loss"),
        ("tb-set-ip-lan $a $lan 10.9.0.1", "iplist"),
        ("tb-set-ip-link $a $line 10.9.0.1", "ip"),
        ("tb-set-node-lan-bandwidth $a $lan 1Mb", "port"),
        ("tb-set-node-lan-bandwidth $a $lan 1000000", "unit"),
        ("tb-set-node-lan-delay $a $lan 10ms", "val"),
        ("$line cost 3", "cost"),
        ("tb-fix-node $a pc7", "fixed"),
        ("tb-set-node-tarfiles $a /opt x.tgz", "tarfile"),
        ("tb-set-tarfiles /opt x.tgz", "dir"),
        ("$ns at 5 \"$line bandwidth 5Mb duplex\"", "bw"),
        ("$ns at 5 \"$line delay 5ms\"", "arg"),
        ("$ns at 5 \"$queue set limit_ 9\"", "lanlink"),
        ("$ns at 5 \"$queue set limit_ 9\"", "node"),
        ("$done at 1h \"$line down\"", "hours"),
    ] {
        let names = |first: &str| {
            let of = topology(&format!(
                "{making}{first}proc make {{}} {{\n global ns a lan line queue done\n set made [$ns node]\n {command}\n return $made\n}}\nset own [make]"
            ));
            of.hosts[2].name.clone()
        };
        assert_eq!(
            (names(""), names(&format!("set {variable} 0\n"))),
            ("own".to_owned(), "tbnode-n6".to_owned()),
            "{command}"
        );
    }
    // `unit` is only assigned if no unit is written.
    let of = topology(&format!(
        "{making}set unit 0\nproc make {{}} {{\n global ns a lan\n set made [$ns node]\n tb-set-node-lan-delay $a $lan 10ms\n return $made\n}}\nset own [make]"
    ));
    assert_eq!(of.hosts[2].name, "own");
}
