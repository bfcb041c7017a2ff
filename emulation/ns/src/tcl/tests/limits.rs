//! Files that would never end, or take all memory, are refused quickly.

use super::{eval, eval_within};
use crate::NsLimits;

/// Limits that are reached quickly even without optimisation.
fn small() -> NsLimits {
    NsLimits { steps: 30_000, variables: 5000, procedures: 1000, ..NsLimits::default() }
}

#[test]
fn a_loop_without_end_ends() {
    for script in [
        "while 1 {}",
        "for {} 1 {} {}",
        "set i 0; while 1 {incr i}",
        "while 1 {expr 1 + 1}",
        "catch {while 1 {}}; while 1 {}",
        "proc f {} {return 1}; while {[f]} {}",
        "time {set x 1} 1000000000",
        "set x [string repeat {a b } 100000]; while 1 {set x [lsort $x]}",
        "set x [string repeat {a } 400000]; while 1 {set y [join $x]}",
        "set x [string repeat {a } 400000]; while 1 {set y [concat $x]}",
        "set x [string repeat a 1000000]; while 1 {set y [string toupper $x]}",
        "foreach a [split [string repeat a 200000] {}] {}",
        "set x [string repeat 1 900000]; while {$x != 5} {}",
        "set x [string repeat 1 900000]; set y [string repeat 1 900000]; while {$x eq $y} {}",
        "set p [string repeat *a 2000]b; set x [string repeat a 20000]; while 1 {string match $p $x}",
        "set k [string repeat a 10000]b; set x [string repeat a 20000]; while 1 {string map [list $k c] $x}",
        "set k [string repeat a 10000]b; set x [string repeat a 20000]; while 1 {string first $k $x}",
        "set l [lrepeat 300000 a]; while {\"b\" ni $l} {}",
        "set l [lrepeat 300000 a]; proc f args {}; while 1 {f {*}$l}",
        "set l [lrepeat 300000 a]; while 1 {lassign $l a}",
        "for {set i 0} {$i < 2000} {incr i} {set v$i x}; while 1 {info globals nosuch}",
        "for {set i 0} {$i < 2000} {incr i} {set v($i) x}; while 1 {array names v nosuch}",
        "while 1 {catch {tb-nosuch}}",
        "set x [string repeat { } 500000]; while 1 {eval $x#}",
    ] {
        let error = eval_within(script, small()).unwrap_err();
        assert!(error.contains("a loop without end?"), "{script}: {error}");
    }
}

#[test]
fn memory_is_bounded() {
    for (script, reason) in [
        ("string repeat abcdefgh 100000000", "a value is longer than"),
        ("set x a; while 1 {append x $x}", "a value is longer than"),
        ("set x a; while 1 {set x $x$x}", "a value is longer than"),
        ("set x {a b}; while 1 {set x [concat $x $x]}", "a value is longer than"),
        ("lrepeat 100000000 a", "a value is longer than"),
        ("set x [string repeat a 20000]; while 1 {set x [string map {a aaaaaaaaaa} $x]}", "a value is longer than"),
        ("format %999999999d 1", "a field of format is wider than"),
        ("set i 0; while 1 {set a([incr i]) x}", "there are more than 5000 variables"),
        ("set i 0; while 1 {set v[incr i] x}", "there are more than 5000 variables"),
        ("set i 0; while 1 {proc p[incr i] {} {}}", "there are more than 1000 procedures"),
    ] {
        let error = eval_within(script, small()).unwrap_err();
        assert!(error.contains(reason), "{script}: {error}");
    }
}

#[test]
fn ended_calls_free_their_variables() {
    let script =
        "proc f {} {array set a {1 2 3 4}; set b 1}; for {set i 0} {$i < 2500} {incr i} {f; set x($i) 1; unset x($i)}";
    assert_eq!(eval_within(script, small()).as_deref(), Ok(""));
}

#[test]
fn nesting_is_bounded() {
    let nested = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    for script in [
        "proc f {n} {f [expr {$n + 1}]}; f 0".to_owned(),
        "proc f {} {foreach a 1 {if 1 {switch 1 {1 {eval {f}}}}}}; f".to_owned(),
        "proc f {} {uplevel {f}}; f".to_owned(),
        "set a {[subst $a]}; subst $a".to_owned(),
        "set x {eval $x}; eval $x".to_owned(),
        format!("set x {}", nested("[expr ", "]", 20_000)),
        format!("set x {}", nested("$a(", ")", 20_000)),
        format!("expr {{{}}}", nested("(", ")", 20_000)),
        format!("expr {{{}}}", nested("-", "", 20_000)),
        format!("expr {{{}}}", nested("1?1:", "", 20_000)),
        format!("expr {{{}}}", nested("1+", "", 20_000)),
        format!("expr {{{}}}", nested("abs(", ")", 20_000)),
        format!("proc f {{}} {{expr {{{}}}}}; f", nested("abs([f]+(", "))", 20)),
        format!("set l {}; lset l {} x", nested("{", "}", 5000), "0 ".repeat(5000)),
    ] {
        let error = eval(&script).unwrap_err();
        assert!(error.contains("nested"), "{script:.60}: {error}");
    }
}

#[test]
fn deep_unexecuted_nesting_is_text() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(2000), close.repeat(2000));
    let braces = deep("{", "}");
    assert_eq!(
        eval(&format!("set x {braces}; set keep $x; while {{[llength $x]}} {{set x [lindex $x 0]}}")).as_deref(),
        Ok("")
    );
    let scripts = deep("set x {", "}");
    let script = format!("set x {{{scripts}}}; set keep $x; for {{set i 0}} {{$i < 1900}} {{incr i}} {{eval $x}}");
    assert_eq!(eval(&script).as_deref(), Ok(""));
}
