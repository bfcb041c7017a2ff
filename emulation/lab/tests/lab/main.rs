//! Labs in real use: real namespaces, real programs in them.
//!
//! On a machine without namespaces these tests fail with the reason; they do not pass. The program runs as the
//! test runner and, started again with `inside NAME`, as the program that runs in the sandbox.

// A runner of its own, without libtest's attribute.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod inside;
mod outside;
mod processes;
mod topologies;

use std::process::ExitCode;

/// Tests that run in a sandbox of their own and panic on failure.
const INSIDE: &[(&str, fn())] = &[
    ("ping_takes_twice_link_delay", inside::ping_takes_twice_link_delay),
    ("routers_forward_packets", inside::routers_forward_packets),
    ("host_answers_on_each_interface", inside::host_answers_on_each_interface),
    ("hosts_resolve_each_other_by_name", inside::hosts_resolve_each_other_by_name),
    ("outside_resolvers_are_not_asked", inside::outside_resolvers_are_not_asked),
    ("multicast_reaches_other_lan_members", inside::multicast_reaches_other_lan_members),
    ("tcp_stream_is_complete_per_backend", inside::tcp_stream_is_complete_per_backend),
    ("missing_tap_falls_back_to_veth", inside::missing_tap_falls_back_to_veth),
    ("hosts_have_one_congestion_control", inside::hosts_have_one_congestion_control),
    ("down_interface_losses_are_not_overruns", inside::down_interface_losses_are_not_overruns),
    ("hundred_hosts_start", inside::hundred_hosts_start),
    ("idle_hosts_send_nothing", inside::idle_hosts_send_nothing),
    ("interfaces_end_with_their_namespace", inside::interfaces_end_with_their_namespace),
    ("one_lab_follows_another", inside::one_lab_follows_another),
];

/// Tests that observe a sandbox from outside.
const OUTSIDE: &[(&str, fn())] = &[
    ("lab_is_refused_outside_sandbox", outside::lab_is_refused_outside_sandbox),
    ("process_name_alone_is_not_inside", outside::process_name_alone_is_not_inside),
    ("exit_codes_pass_through", outside::exit_codes_pass_through),
    ("signals_reach_the_inside", outside::signals_reach_the_inside),
    ("terminal_key_reaches_inside_once", outside::terminal_key_reaches_inside_once),
    ("background_job_can_come_to_foreground", outside::background_job_can_come_to_foreground),
    ("ignored_hangup_keeps_running", outside::ignored_hangup_keeps_running),
    ("waiting_for_init_uses_no_cpu", outside::waiting_for_init_uses_no_cpu),
    ("killing_any_process_ends_all", outside::killing_any_process_ends_all),
    ("unprivileged_user_runs_everything", outside::unprivileged_user_runs_everything),
    ("too_few_open_files_is_reported", outside::too_few_open_files_is_reported),
    ("missing_user_namespaces_are_reported", outside::missing_user_namespaces_are_reported),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["inside", name, rest @ ..] => inside::run(name, rest),
        ["--list", ..] => outside::list(),
        options => outside::run_all(options),
    }
}
