//! The page of one run.

use std::time::{Duration, UNIX_EPOCH};

use maud::{Markup, html};
use roost_results::metrics::{Metrics, Service, TrafficMetrics};
use roost_results::record::{RunRecord, RunVerdict};
use roost_results::{PLAN_FILE, Results, TOPOLOGY_FILE};

use super::{Page, drawings, gallery, measurements, notice, number, programs, tables, terms};
use crate::text_format::{
    bytes, count, counted, milliseconds, moment, or_dash, percent, quantile, rate, seconds, slowest,
};
use crate::{figure, incidents};

pub(crate) fn of_run(results: &Results, metrics: &Metrics) -> String {
    let run = &results.run;
    let has_requests = metrics.requests.asked > 0;
    let numbers = if has_requests { numbers(metrics) } else { numbers_of_network(results, metrics) };
    let seen = seen(results, metrics);
    let page = Page {
        title: &format!("{} · Roost", run.name),
        is_untrusted: !run.verdict.valid,
        header: html! {
            p.kind { "Roost: one run of " (if run.is_simulated() { "a simulated" } else { "an emulated" }) " network" }
            h1 { (run.name) }
            p.lead { (lead(run)) }
            (verdict(results))
            dl.numbers { (numbers) }
        },
        main: html! {
            (seen)
            (facts(results))
            (terms::occurring(&[&numbers, &seen]))
        },
        footer: footer(results),
    };
    page.document()
}

/// The figures and the tables of the run.
fn seen(results: &Results, metrics: &Metrics) -> Markup {
    html! {
        (drawings(&figure::of_network(results)))
        h2 { "What was seen" }
        (gallery(&figure::of_run(results, metrics)))
        (incidents(results))
        @if !metrics.measurements.is_empty() { (measurements::all(metrics)) }
        (programs::all(results))
        (tables::all(results, metrics))
    }
}

/// The summary of the run in a line.
fn lead(run: &RunRecord) -> String {
    let transport = match run.transport.as_str() {
        "paper" => "UDP streams and TCP objects",
        other => other,
    };
    let hubs = match run.hubs.as_slice() {
        [] => String::new(),
        [one] => format!(", hub on {one}"),
        many => format!(", hubs on {}", many.join(", ")),
    };
    // Virtual time has no date.
    let date = if run.is_simulated() { "in virtual time".to_owned() } else { date(run.started_unix_s) };
    if run.nodes == 0 {
        let ran = seconds(run.ran_s);
        return format!("{} of {} · {ran} · seed {} · {date}", run.architecture, run.topology, run.seed);
    }
    format!(
        "{} on {} with {}{hubs} · {transport} · {} · seed {} · {date}",
        run.architecture,
        run.topology,
        counted(u64::from(run.nodes), "node"),
        seconds(run.ran_s),
        run.seed,
    )
}

fn date(unix_s: u64) -> String {
    let text =
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix_s.min(253_402_300_799))).to_string();
    format!("{} UTC", text.trim_end_matches('Z').replace('T', " "))
}

const SIMULATED: &str = "No program ran: the daemons' state machines over a model of the network, in which processors take no time and no \
     packet is late. What must always hold was looked at after every step, and held.";

fn verdict(results: &Results) -> Markup {
    let (run, verdict) = (&results.run, &results.run.verdict);
    let after = format!("It ran for {} of {}.", seconds(run.ran_s), seconds(run.duration_s));
    html! {
        @if !verdict.valid {
            (notice("bad", "These figures cannot be trusted.", "The run is not valid:", &verdict.reasons))
        } @else if run.is_simulated() {
            (notice("", "This run was simulated.", SIMULATED, &[]))
        } @else {
            (notice("", "The emulation kept up.", &kept_up(verdict), &[]))
        }
        @if verdict.valid && !verdict.not_measured.is_empty() {
            (notice("doubt", "Not all that tells whether the emulation kept up is known:", "", &verdict.not_measured))
        }
        @if run.interrupted { (notice("doubt", "Stopped before its time.", &after, &[])) }
        @if !results.remarks.is_empty() {
            (notice("doubt", "Not all was as it should be in the files:", "", &results.remarks))
        }
    }
}

fn kept_up(verdict: &RunVerdict) -> String {
    let starved = verdict.most_starved.as_ref().map_or_else(String::new, |(host, part)| {
        format!(" {host} waited longest for a processor: {} of its worst ten seconds.", percent(*part))
    });
    // Records of earlier versions lack it.
    let read = verdict.read_wait_p99_us.filter(|wait| *wait > 0.0);
    let read = read.map(|wait| format!("; 99 % were read within {} of being sent", milliseconds(wait / 1e3)));
    format!(
        "99 % of packets were delivered within {} of their time, the latest {} late{}; {} lost by the emulator; processors {} busy at most.{starved}",
        milliseconds(verdict.lateness_p99_us / 1e3),
        milliseconds(verdict.lateness_max_us / 1e3),
        read.unwrap_or_default(),
        if verdict.overruns == 0 { "none".to_owned() } else { count(verdict.overruns) },
        or_dash(verdict.cpu_busy, percent)
    )
}

fn numbers(metrics: &Metrics) -> Markup {
    let (requests, traffic) = (&metrics.requests, &metrics.traffic);
    let missed = format!("{} failed, {} timed out", count(requests.failed), count(requests.timed_out));
    let busiest =
        metrics.services.iter().filter(|one| one.latency.p50.is_some()).max_by_key(|one| one.requests.completed);
    let longest = |of: &Service| format!("of the {}s; {}", of.service, slowest(&of.latency));
    html! {
        (number("Completed services", &count(requests.completed), &format!("of {}", counted(requests.asked, "request"))))
        (number("Success", &or_dash(requests.success_ratio(), percent), &missed))
        @if let Some(of) = busiest { (number(median_of(of), &quantile(&of.latency, 500), &longest(of))) }
        (numbers_of_traffic(traffic))
    }
}

/// The traffic per service, or else all of it: the traffic of programs is of no service.
fn numbers_of_traffic(traffic: &TrafficMetrics) -> Markup {
    let part = traffic.overhead_bytes.zip(traffic.offered_bytes).filter(|(_, offered)| *offered > 0);
    let share =
        part.map_or_else(String::new, |(over, all)| format!("{} of all bytes", percent(over as f64 / all as f64)));
    let [offered, ports, overhead] =
        [traffic.offered_bytes, traffic.port_bytes, traffic.overhead_bytes].map(|all| all.map(|all| all as f64));
    let over_ports = |ports| format!("{} over all ports", or_dash(ports, bytes));
    html! {
        @if let Some(each) = traffic.offered_per_service {
            (number("Traffic per service", &bytes(each), &format!("offered by hosts; {}", over_ports(traffic.port_per_service))))
        } @else if let Some(offered) = offered {
            (number("Offered by hosts", &bytes(offered), &over_ports(ports)))
        }
        @if let Some(each) = traffic.overhead_per_service {
            (number("All but payload, per service", &bytes(each), &share))
        } @else if let Some(overhead) = overhead {
            (number("All but payload", &bytes(overhead), &share))
        }
    }
}

/// The main figures of a run without a workload: those of the network.
fn numbers_of_network(results: &Results, metrics: &Metrics) -> Markup {
    let (traffic, drops) = (&metrics.traffic, &metrics.traffic.drops);
    let lasted = results.run.ran_s + results.run.drain_s;
    let offered = traffic.offered_bytes.map(|bytes| bytes as f64);
    let mean = offered.filter(|_| lasted > 0.0).map(|bytes| bytes * 8e-6 / lasted);
    let (good, all) = programs::as_expected(&results.programs);
    let ports = format!("{} over all ports", or_dash(traffic.port_bytes.map(|bytes| bytes as f64), bytes));
    let [queue, loss, down] = [drops.queue, drops.loss, drops.down].map(count);
    let why = format!("{queue} at full queues, {loss} by loss, {down} on links down");
    html! {
        @if all > 0 { (number("Programs", &good.to_string(), &format!("of {all} ended as they should"))) }
        (number("Offered by hosts", &or_dash(offered, bytes), &ports))
        (number("Mean rate", &or_dash(mean, rate), &format!("over {}", seconds(lasted))))
        (number("Packets dropped", &count(drops.queue + drops.loss + drops.down), &why))
    }
}

fn median_of(service: &Service) -> &'static str {
    match service.service.as_str() {
        "video" | "track" => "Median to first byte",
        _ => "Median to completion",
    }
}

fn incidents(results: &Results) -> Markup {
    let incidents = incidents::incidents(results);
    html! {
        @if !incidents.is_empty() {
            h2 { "What happened in between" }
            div.card {
                ol.incidents {
                    @for incident in &incidents {
                        li { (moment(incident.t)) ", " (incident.object) ": " (incident.what) }
                    }
                }
            }
        }
    }
}

/// Plan, seed, versions, machine, and the command that repeats the run.
fn facts(results: &Results) -> Markup {
    let run = &results.run;
    let groups = [
        ("Varied", &run.varied),
        ("Programs", &run.versions),
        ("SHA-256 of the programs", &run.binaries),
        ("Network", &run.lab),
        ("Machine", &run.machine),
    ];
    html! {
        h2 { "How it was made, and how to repeat it" }
        div.card {
            @if let Some(plan) = &results.plan {
                p { "This plan, seed and all, with the topology beside it:" }
                pre { (again(results, PLAN_FILE, "")) }
                details open { summary { (PLAN_FILE) } pre { (plan) } }
            } @else if results.topology.is_some() {
                p { "This network:" }
                pre { (again(results, TOPOLOGY_FILE, &format!(" --seed {}", run.seed))) }
            }
            p { "Each moment of it, on a live page:" }
            pre { "emulate view " (results.folder.display()) }
            dl.facts {
                dt { "seed" } dd { (run.seed) }
                dt { "workload" }
                dd { (seconds(run.ran_s)) " of " (seconds(run.duration_s)) ", then " (seconds(run.drain_s)) " of drain" }
            }
            @if !run.is_simulated() {
                dl.facts { dt { "processors busy at most" } dd { (or_dash(run.verdict.cpu_busy, percent)) } }
            }
            @for (title, facts) in groups.into_iter().filter(|(_, facts)| !facts.is_empty()) {
                h3 { (title) }
                dl.facts { @for (name, value) in facts { dt { (name.replace('_', " ")) } dd { (value) } } }
            }
            @if !run.verdict.linktest.is_empty() {
                details {
                    summary { "What linktest said before the run" }
                    pre { (run.verdict.linktest.join("\n")) }
                }
            }
        }
    }
}

fn again(results: &Results, file: &str, options: &str) -> String {
    let run = &results.run;
    let command = if run.is_simulated() { "simulate" } else { "run" };
    // A run at another detail is another run.
    let level = run.lab.get("detail").filter(|detail| run.is_simulated() && *detail != "packet");
    let level = level.map_or_else(String::new, |detail| format!(" --level {detail}"));
    format!("emulate {command} {}{options}{level}", results.folder.join(file).display())
}

const TABLES: [&str; 6] = ["summary", "services", "latency", "nodes", "links", "timeline"];

fn footer(results: &Results) -> Markup {
    let rooms = (!results.room_streams.is_empty()).then_some("rooms");
    let measurements = (!results.measurements.is_empty()).then_some("measurements");
    let version = results.run.versions.get("emulate").map_or_else(String::new, |version| format!(" {version}"));
    html! {
        "Beside this page: "
        @for name in TABLES.into_iter().chain(rooms).chain(measurements) { a href={ (name) ".csv" } { (name) ".csv" } ", " }
        "the raw " a href="events.jsonl" { "events.jsonl" } " and " a href="run.json" { "run.json" }
        ", and each figure as SVG in " a href="figures/" { "figures/" } "."
        p { "Written by emulate" (version) " from the records alone; emulate report writes it again." }
    }
}

#[cfg(test)]
mod tests {
    use roost_results::testing;

    use super::*;

    #[test]
    fn cards_without_value_left_out() {
        let mut results = testing::by_hand();
        assert!(numbers(&Metrics::from_results(&results)).0.contains("Traffic per service"));
        results.programs = vec![testing::program("b")];
        let text = numbers(&Metrics::from_results(&results)).0;
        assert!(!text.contains("per service") && text.contains("Offered by hosts"), "{text}");
    }
}
