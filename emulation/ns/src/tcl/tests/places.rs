//! Every error has the line of its command.

use crate::{NsError, NsLimits, parse};

fn error(source: &str) -> NsError {
    parse("x.ns", source, &NsLimits::default()).unwrap_err()
}

#[test]
fn error_names_innermost_command_line() {
    for (source, line) in [
        ("\n\nset x $nope", 3),
        ("set a 1\nfor {set i 0} {$i < 3} {incr i} {\n  set y 1\n  set x $nope\n}", 4),
        ("if 1 {\n\n  foreach a {1 2} {\n    nosuch\n  }\n}", 4),
        ("list a \\\n  b \\\n  c\nset x $nope", 4),
        ("set a {x \\\n y}\nif 1 {\n set b \\\n 2\n set x $nope\n}", 6),
        ("set x {a\nb\nc}; set y $nope", 3),
        ("set x [list a \\\n   [list $nope]]", 2),
        ("switch b {\n  a {}\n  b {\n    nosuch\n  }\n}", 4),
        ("# comment \\\n still\nnosuch", 3),
        ("set s \"a\n b\"\nnosuch", 3),
        ("eval {\n nosuch\n}", 2),
        ("set script \"nosuch\"\n\neval $script", 3),
        ("\n set x {", 2),
        ("\n\nset x \"", 3),
        ("\nset x [", 2),
        ("if 1 {\n set y {\n}\n", 1),
        ("set x 1\r\nset y $nope\r\n", 2),
    ] {
        assert_eq!(error(source).line, line, "{source}");
    }
}

#[test]
fn procedure_error_names_caller() {
    let error = error("proc inner {} {\n  nosuch\n}\nproc outer {} {\n  inner\n}\n\nouter\n");
    assert_eq!((error.line, error.within.as_ref().map(|(name, line)| (name.as_str(), *line))), (2, Some(("inner", 5))));
    assert_eq!(error.to_string(), "x.ns:2: there is no command or object \"nosuch\" (in \"inner\", called on line 5)");
}

#[test]
fn file_needs_run_and_ends_there() {
    assert_eq!(
        error("set ns [new Simulator]\n").to_string(),
        "x.ns:1: the file ends here without a \"$ns run\", which says that all is described"
    );
    assert_eq!(
        error("set ns [new Simulator]\nset a [$ns node]\nexit 3\n").to_string(),
        "x.ns:3: the file gives up here, with exit code 3"
    );
    let source = "set ns [new Simulator]\nset a [$ns node]\n$ns run\nset b [$ns node]\nexit 0\nnosuch\n";
    assert_eq!(parse("dir/x.tcl", source, &NsLimits::default()).unwrap().hosts.len(), 1);
    assert_eq!(error("set ns [new Simulator]\nset a [$ns node]\n$ns run\n$ns run\n").line, 4);
    assert_eq!(error("set ns [new Simulator]\nset a [$ns node]\n$ns run\nnosuch\n").line, 4);
}
