//! Tests of the language. Expected values are the output of tclsh 8.6.13.

mod limits;
mod places;

use super::completion::TclCompletion;
use super::interp::TclInterpreter;
use super::value::TclValue;
use crate::NsLimits;

/// The result of a script, or its error.
fn eval(script: &str) -> Result<String, String> {
    eval_within(script, NsLimits::default())
}

fn eval_within(script: &str, limits: NsLimits) -> Result<String, String> {
    let mut interp = TclInterpreter::new(limits);
    interp.set_up().unwrap();
    match interp.eval(&TclValue::written(script.to_owned(), None, 1, 0)) {
        Ok(value) => Ok(value.as_str().to_owned()),
        Err(TclCompletion::Return(value)) => Ok(value.as_str().to_owned()),
        Err(TclCompletion::Error(fault) | TclCompletion::Refused(fault)) => Err(fault.message),
        Err(other) => Err(format!("{other:?}")),
    }
}

fn all_give(cases: &[(&str, &str)]) {
    for (script, result) in cases {
        assert_eq!(eval(script).as_deref(), Ok(*result), "{script}");
    }
}

fn all_fail(cases: &[(&str, &str)]) {
    for (script, reason) in cases {
        let error = eval(script).expect_err(script);
        assert!(error.contains(reason), "{script}: {error}");
    }
}

#[test]
fn words_are_replaced_once() {
    all_give(&[
        ("set x {a $b [c] \\n}; set x", "a $b [c] \\n"),
        ("set x 5; set y \"[expr $x*2] \\$x \\[a\\] \\x41 \\u00e9 \\101\"", "10 $x [a] A é A"),
        ("set x \"a\\\n   b\"; set x", "a b"),
        ("set x {a\\\n   b}; set x", "a b"),
        ("set i 3; set n($i) foo; set x $n(3)", "foo"),
        ("set a(1,2) x; set i 1; set j 2; set a($i,$j)", "x"),
        ("set {a b} 5; set x ${a b}", "5"),
        ("set a 1; set x $a-b.c", "1-b.c"),
        ("set x $; set y a$", "a$"),
        ("list {*}{a b} c {*}[list d e] {*}{}", "a b c d e"),
        ("# a comment \\\ngoes on\nset x 5;# and another", "5"),
        ("set x {a b}; eval list $x", "a b"),
        ("set x a; set $x 5; set a", "5"),
    ]);
    all_fail(&[
        ("set x {a}b", "extra characters after close-brace"),
        ("set x \"a\"b", "extra characters after close-quote"),
        ("set x {a", "missing close-brace"),
        ("set x \"a", "missing \""),
        ("set x [list a", "missing close-bracket"),
        ("set x $a(1", "missing )"),
        ("set x $nope", "can't read \"nope\": no such variable"),
        ("set a(1) 2; set x $a(2)", "can't read \"a(2)\": no such element in array"),
        ("set a(1) 2; set x $a", "can't read \"a\": variable is array"),
        ("set a 1; set x $a(2)", "can't read \"a(2)\": variable isn't array"),
        ("nosuch 1", "there is no command or object \"nosuch\""),
    ]);
}

#[test]
fn expressions_are_tcls() {
    all_give(&[
        ("expr 1 + 2 * 3", "7"),
        ("expr {-7 / 2}", "-4"),
        ("expr {-7 % 2}", "1"),
        ("expr {7 / 2.0}", "3.5"),
        ("expr {2 ** 3 ** 2}", "512"),
        ("expr {-2 ** 2}", "4"),
        ("expr {1 ? 2 : 3 ? 4 : 5}", "2"),
        ("expr {3 in {3} == 1}", "1"),
        ("expr {1 == 2 || 3 > 2 && !0}", "1"),
        ("expr {\"10\" == \"10.0\"}", "1"),
        ("expr {3 eq 3.0}", "0"),
        ("expr {1 || [error x]}", "1"),
        ("set x 010; expr {$x}", "8"),
        ("expr int(7.9) + round(2.5)", "10"),
        ("expr {max(1, 2.5, 2)}", "2.5"),
        ("expr {1e3}", "1000.0"),
        ("expr 1000000*1000000", "1000000000000"),
        ("set i 5; expr {[set i] * $i}", "25"),
        ("expr srand(42); list [expr rand()] [expr rand()]", "0.5245871020129822 0.7354235321913956"),
        ("expr {yes && on}", "1"),
        ("expr { 1\n + 2 }", "3"),
    ]);
    all_fail(&[
        ("expr {1 / 0}", "divide by zero"),
        ("expr {1 +}", "missing operand"),
        ("expr {(1}", "unbalanced open paren"),
        ("expr {1 2}", "syntax error"),
        ("expr {nodeA == 1}", "invalid bareword \"nodeA\""),
        ("expr {\"abc\" + 1}", "can't use non-numeric string as operand of \"+\""),
        ("expr {9223372036854775807 + 1}", "too large"),
        ("expr {nosuch(1)}", "no math function \"nosuch\""),
        ("if {\"maybe\"} {}", "expected boolean value"),
    ]);
}

#[test]
fn loops_and_branches_are_taken() {
    all_give(&[
        ("for {set i 0; set j 10} {$i < $j} {incr i; incr j -1} {}; list $i $j", "5 5"),
        ("set i 0; while 1 {if {[incr i] > 5} break}; set i", "6"),
        ("set s {}; foreach {a b} {1 2 3} c {x y z} {append s $a$b$c,}; set s", "12x,3y,z,"),
        ("set s {}; foreach i {1 2 3 4} {if {$i % 2} continue; lappend s $i}; set s", "2 4"),
        ("if 0 {set x a} elseif {1 > 2} {set x b} else {set x c}", "c"),
        ("if yes then {set x 1}", "1"),
        ("switch -glob node1 {n* {set x 1} default {set x 3}}", "1"),
        ("switch -- a {a - b {set x ab} c {set x c}}", "ab"),
        ("switch z a {set x 1} default {set x 2}", "2"),
        ("lmap x {1 2 3} {expr {$x * 2}}", "2 4 6"),
        ("catch {error foo} message; set message", "foo"),
        ("list [catch {break}] [catch {set x 1}] [catch {nosuch}] [catch {return 5} v] $v", "3 0 1 2 5"),
    ]);
    all_fail(&[
        ("foreach x {1 2}", "wrong # args"),
        ("foreach {} {1 2} {}", "foreach varlist is empty"),
        ("switch a {a}", "extra switch pattern with no body"),
        ("error {my message}", "my message"),
        ("proc f {} {break}; f", "\"break\" outside of a loop"),
    ]);
}

#[test]
fn procedures_have_variables_of_their_own() {
    all_give(&[
        ("proc f {a {b 5} args} {return \"$a $b $args\"}; f 1 2 3 4", "1 2 3 4"),
        ("proc f {} {global g; set g 5}; f; set g", "5"),
        ("proc f {} {set l 5}; f; info exists l", "0"),
        ("proc f {n} {upvar $n x; incr x}; set y 1; f y; set y", "2"),
        ("proc f {arr} {upvar 1 $arr a; set a(x) 1}; f z; array get z", "x 1"),
        ("proc f {} {uplevel 1 set q 4}; f; set q", "4"),
        ("proc f {} {uplevel #0 {set q 5}}; f; set q", "5"),
        ("proc f {n} {expr {$n <= 1 ? 1 : $n * [f [expr {$n - 1}]]}}; f 10", "3628800"),
        ("proc f {} {set ::h 6}; f; set h", "6"),
        ("proc f {x} {info level 0}; f 5", "f 5"),
        ("proc f {} {return -code error oops}; catch f m; set m", "oops"),
        ("proc f {a b} {}; info args f", "a b"),
    ]);
    all_fail(&[
        ("proc f {a} {}; f", "wrong # args: should be \"f a\""),
        ("proc f {a {b 1}} {}; f 1 2 3", "wrong # args: should be \"f a ?b?\""),
        ("proc f {} {upvar 5 x y}; f", "bad level"),
        ("proc f {} {upvar 0 x x}; f", "can't upvar from variable to itself"),
    ]);
}

#[test]
fn lists_are_made_and_read() {
    all_give(&[
        ("list a {b c} \"\" \\$x {[x]} a\\\"b \"{\"", "a {b c} {} {$x} {[x]} a\\\"b \\{"),
        ("lindex {a {b c} d} 1 0", "b"),
        ("lindex {a b c} end-1", "b"),
        ("lindex {a b c} 10", ""),
        ("lrange {a b c d e} 1 end-1", "b c d"),
        ("linsert {a b c} end x", "a b c x"),
        ("lreplace {a b c d} 1 2 x y z", "a x y z d"),
        ("lsearch -glob {abc b} b*", "1"),
        ("lsearch -exact {a b} z", "-1"),
        ("lsort -integer -decreasing {10 9 100}", "100 10 9"),
        ("lsort -unique {a b a c}", "a b c"),
        ("lsort -dictionary {n10 n9 N1 n1}", "N1 n1 n9 n10"),
        ("lsort -index 1 {{a 3} {b 1}}", "{b 1} {a 3}"),
        ("concat {a b} {c d} \" e \"", "a b c d e"),
        ("join {a {b c} d} -", "a-b c-d"),
        ("split a,b,,c ,", "a b {} c"),
        ("split abc {}", "a b c"),
        ("lappend x a {b c}; lappend x d; llength $x", "3"),
        ("set l {a {b c}}; lset l 1 0 x; set l", "a {x c}"),
        ("lassign {1 2 3} a b; list $a $b", "1 2"),
        ("lrepeat 2 a b", "a b a b"),
        ("lreverse {a b c}", "c b a"),
    ]);
    all_fail(&[
        ("llength \"a \\{b\"", "unmatched open brace in list"),
        ("lindex {a b} foo", "bad index \"foo\""),
        ("lindex {a b} endé", "bad index \"endé\""),
        ("string range abc 0 endüx", "bad index \"endüx\""),
        ("lsort -integer {a}", "expected integer but got \"a\""),
        ("append x \"a \\{\"; lappend x c", "unmatched open brace in list"),
    ]);
}

#[test]
fn arrays_are_listed_in_tcls_order() {
    all_give(&[
        ("array set a {x 1 y 2}; list $a(x) $a(y) [array size a]", "1 2 2"),
        ("foreach n {a b c server client n1 n2 n3} {set x($n) 1}; array names x", "n2 n3 a b n1 client server c"),
        ("array set a {x1 1 x2 2 y 3}; lsort [array names a x*]", "x1 x2"),
        ("array set a {x 1 y 2}; array unset a x; array get a", "y 2"),
        ("array exists nope", "0"),
        ("set a(1) x; unset a(1); info exists a(1)", "0"),
    ]);
    all_fail(&[
        ("set a 1; array set a {x 1}", "variable isn't array"),
        ("array set a {x}", "even number of elements"),
        ("unset nope", "can't unset \"nope\": no such variable"),
    ]);
}

#[test]
fn strings_are_taken_apart_and_formatted() {
    all_give(&[
        ("string range hello 1 end", "ello"),
        ("string map {a 1 bc 2} abca", "121"),
        ("string match -nocase N* node", "1"),
        ("string first a banana 2", "3"),
        ("string is integer -strict {}", "0"),
        ("string trim xxaxx x", "a"),
        ("string totitle hELLO", "Hello"),
        ("string repeat ab 3", "ababab"),
        ("string compare a b", "-1"),
        ("format %05.1f|%-5d|%5s|%x 3.14159 5 ab 255", "003.1|5    |   ab|ff"),
        ("format 10.%d.%d.%d 1 2 3", "10.1.2.3"),
        ("format %g%% 1e-5", "1e-05%"),
        ("format %c%*d 65 4 7", "A   7"),
        ("append x a b; append x c", "abc"),
        ("incr i; incr i 5", "6"),
        ("set x 1; subst -nocommands {a $x [set y]}", "a 1 [set y]"),
    ]);
    all_fail(&[
        ("format %d abc", "expected integer"),
        ("format %s", "not enough arguments"),
        ("set i abc; incr i", "expected integer but got \"abc\""),
    ]);
}

#[test]
fn script_cannot_reach_outside() {
    for script in [
        "exec ls",
        "open /etc/passwd",
        "file exists /etc/passwd",
        "glob *",
        "cd /",
        "socket localhost 80",
        "load libc.so",
        "pwd",
    ] {
        let error = eval(script).unwrap_err();
        assert!(error.contains("is not allowed: a topology has no files, processes or network"), "{error}");
    }
    all_fail(&[
        ("source other.tcl", "a topology is one file, and no other is read"),
        ("regexp a b", "is a command of Tcl that is not understood here"),
    ]);
    all_give(&[("source tb_compat.tcl", ""), ("puts stderr hello", ""), ("clock seconds", "0")]);
}
