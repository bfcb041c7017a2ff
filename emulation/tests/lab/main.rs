//! Labs as they are used: real namespaces, real programs in them.
//!
//! Where a machine cannot make namespaces these tests fail with the reason;
//! they do not pass. The program runs as the test runner and, started again
//! with `inside NAME`, as the program that runs in the sandbox.

// Tests all of it, without libtest's attribute.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod inside;
mod outside;
mod processes;
mod topologies;

use std::process::ExitCode;

/// What runs in a sandbox of its own and says with a panic what is wrong.
const INSIDE: &[(&str, fn())] = &[
    ("a_ping_over_a_link_takes_its_delay_twice", inside::a_ping_over_a_link_takes_its_delay_twice),
    ("routers_pass_packets_on", inside::routers_pass_packets_on),
    ("a_host_answers_on_each_of_its_interfaces", inside::a_host_answers_on_each_of_its_interfaces),
    ("hosts_know_each_other_and_themselves_by_name", inside::hosts_know_each_other_and_themselves_by_name),
    ("no_daemon_outside_is_asked_for_names", inside::no_daemon_outside_is_asked_for_names),
    ("a_group_reaches_the_other_members_of_a_lan", inside::a_group_reaches_the_other_members_of_a_lan),
    ("a_stream_arrives_whole_whatever_carries_it", inside::a_stream_arrives_whole_whatever_carries_it),
    ("without_tap_devices_it_is_veth_pairs", inside::without_tap_devices_it_is_veth_pairs),
    ("hosts_have_one_congestion_control", inside::hosts_have_one_congestion_control),
    (
        "frames_for_an_interface_that_is_down_are_counted_and_no_overruns",
        inside::frames_for_an_interface_that_is_down_are_counted_and_no_overruns,
    ),
    ("a_hundred_hosts_are_set_up", inside::a_hundred_hosts_are_set_up),
    ("hosts_that_do_nothing_send_nothing", inside::hosts_that_do_nothing_send_nothing),
    ("interfaces_go_with_their_namespaces_and_not_before", inside::interfaces_go_with_their_namespaces_and_not_before),
    ("one_lab_follows_another", inside::one_lab_follows_another),
];

/// What looks at a sandbox from outside.
const OUTSIDE: &[(&str, fn())] = &[
    ("a_lab_is_refused_outside_a_sandbox", outside::a_lab_is_refused_outside_a_sandbox),
    ("a_name_alone_is_not_inside", outside::a_name_alone_is_not_inside),
    ("exit_codes_pass_through", outside::exit_codes_pass_through),
    ("signals_reach_the_inside", outside::signals_reach_the_inside),
    ("a_key_of_the_terminal_reaches_the_inside_once", outside::a_key_of_the_terminal_reaches_the_inside_once),
    ("what_began_in_the_background_can_come_forward", outside::what_began_in_the_background_can_come_forward),
    ("what_ignores_a_hang_up_goes_on", outside::what_ignores_a_hang_up_goes_on),
    ("waiting_for_init_takes_no_time_of_the_processor", outside::waiting_for_init_takes_no_time_of_the_processor),
    ("nothing_outlives_a_kill_of_any_of_the_three", outside::nothing_outlives_a_kill_of_any_of_the_three),
    ("without_rights_all_works_the_same", outside::without_rights_all_works_the_same),
    ("too_few_open_files_are_told", outside::too_few_open_files_are_told),
    ("a_system_without_user_namespaces_is_told_so", outside::a_system_without_user_namespaces_is_told_so),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["inside", name, rest @ ..] => inside::run(name, rest),
        ["--list", ..] => outside::list(),
        options => outside::run_all(options),
    }
}
