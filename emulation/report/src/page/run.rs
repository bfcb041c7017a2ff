//! The page of one run.

use std::time::{Duration, UNIX_EPOCH};

use roost_results::metrics::{Metrics, Service};
use roost_results::record::RunRecord;
use roost_results::{PLAN_FILE, Results, TOPOLOGY_FILE};

use super::{Page, programs, tables};
use crate::figure;
use crate::text_format::{
    bytes, count, counted, milliseconds, moment, or_dash, percent, quantile, rate, seconds, slowest,
};

pub(crate) fn of_run(results: &Results, metrics: &Metrics) -> String {
    let run = &results.run;
    let mut page = Page::default();
    page.markup("<header>");
    let kind = if run.is_simulated() { "a simulated" } else { "an emulated" };
    page.element("p", "kind", &format!("Roost: one run of {kind} network"));
    page.element("h1", "", &run.name);
    page.element("p", "lead", &lead(run));
    verdict(&mut page, results);
    if metrics.requests.asked > 0 {
        numbers(&mut page, metrics);
    } else {
        numbers_of_network(&mut page, results, metrics);
    }
    page.markup("</header>\n<main>");
    page.element("h2", "", "What was seen");
    page.figures(&figure::of_run(results, metrics));
    incidents(&mut page, results);
    programs::all(&mut page, results);
    tables::all(&mut page, results, metrics);
    facts(&mut page, results);
    page.element("h2", "", "What the words mean");
    terms(&mut page, run, metrics.requests.asked > 0);
    page.markup("</main>");
    footer(&mut page, run);
    page.document(&format!("{} · Roost", run.name), if run.verdict.valid { "" } else { "untrusted" })
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

fn verdict(page: &mut Page, results: &Results) {
    let (run, verdict) = (&results.run, &results.run.verdict);
    if verdict.valid && run.is_simulated() {
        let sound = "No program ran: the daemons' state machines over a model of the network, in which processors take \
                     no time and no packet is late. What must always hold was looked at after every step, and held.";
        page.notice("", "This run was simulated.", sound, &[]);
    } else if verdict.valid {
        let starved = verdict.most_starved.as_ref().map_or_else(String::new, |(host, part)| {
            format!(" {host} waited longest for a processor: {} of its worst ten seconds.", percent(*part))
        });
        // Records of earlier versions lack it.
        let read = verdict.read_wait_p99_us.filter(|wait| *wait > 0.0);
        let read = read.map(|wait| format!("; 99 % were read within {} of being sent", milliseconds(wait / 1e3)));
        let read = read.unwrap_or_default();
        let kept_up = format!(
            "99 % of packets were delivered within {} of their time, the latest {} late{read}; {} lost by the emulator; processors {} busy at most.{starved}",
            milliseconds(verdict.lateness_p99_us / 1e3),
            milliseconds(verdict.lateness_max_us / 1e3),
            if verdict.overruns == 0 { "none".to_owned() } else { count(verdict.overruns) },
            or_dash(verdict.cpu_busy, percent)
        );
        page.notice("", "The emulation kept up.", &kept_up, &[]);
    } else {
        page.notice("bad", "These figures cannot be trusted.", "The run is not valid:", &verdict.reasons);
    }
    if verdict.valid && !verdict.not_measured.is_empty() {
        page.notice("doubt", "Not all that tells whether the emulation kept up is known:", "", &verdict.not_measured);
    }
    if run.interrupted {
        let after = format!("It ran for {} of {}.", seconds(run.ran_s), seconds(run.duration_s));
        page.notice("doubt", "Stopped before its time.", &after, &[]);
    }
    if !results.remarks.is_empty() {
        page.notice("doubt", "Not all was as it should be in the files:", "", &results.remarks);
    }
}

fn numbers(page: &mut Page, metrics: &Metrics) {
    let (requests, traffic) = (&metrics.requests, &metrics.traffic);
    page.markup("<dl class=\"numbers\">");
    page.number(
        "Completed services",
        &count(requests.completed),
        &format!("of {}", counted(requests.asked, "request")),
    );
    let missed = format!("{} failed, {} timed out", count(requests.failed), count(requests.timed_out));
    page.number("Success", &or_dash(requests.success_ratio(), percent), &missed);
    let busiest =
        metrics.services.iter().filter(|one| one.latency.p50.is_some()).max_by_key(|one| one.requests.completed);
    if let Some(service) = busiest {
        let slowest = format!("of the {}s; {}", service.service, slowest(&service.latency));
        page.number(median_of(service), &quantile(&service.latency, 500), &slowest);
    }
    let ports = format!("offered by hosts; {} over all ports", or_dash(traffic.port_per_service, bytes));
    page.number("Traffic per service", &or_dash(traffic.offered_per_service, bytes), &ports);
    let part = traffic.overhead_bytes.zip(traffic.offered_bytes).filter(|(_, offered)| *offered > 0);
    let share =
        part.map_or_else(String::new, |(over, all)| format!("{} of all bytes", percent(over as f64 / all as f64)));
    page.number("All but payload, per service", &or_dash(traffic.overhead_per_service, bytes), &share);
    page.markup("</dl>");
}

/// The main figures of a run without a workload: those of the network.
fn numbers_of_network(page: &mut Page, results: &Results, metrics: &Metrics) {
    let traffic = &metrics.traffic;
    let lasted = results.run.ran_s + results.run.drain_s;
    let offered = traffic.offered_bytes.map(|bytes| bytes as f64);
    let mean = offered.filter(|_| lasted > 0.0).map(|bytes| bytes * 8e-6 / lasted);
    page.markup("<dl class=\"numbers\">");
    if !results.programs.is_empty() {
        let (good, all) = programs::as_expected(&results.programs);
        page.number("Programs", &good.to_string(), &format!("of {all} ended as they should"));
    }
    let ports = format!("{} over all ports", or_dash(traffic.port_bytes.map(|bytes| bytes as f64), bytes));
    page.number("Offered by hosts", &or_dash(offered, bytes), &ports);
    page.number("Mean rate", &or_dash(mean, rate), &format!("over {}", seconds(lasted)));
    let drops = &traffic.drops;
    let why = format!(
        "{} at full queues, {} by loss, {} on links down",
        count(drops.queue),
        count(drops.loss),
        count(drops.down)
    );
    page.number("Packets dropped", &count(drops.queue + drops.loss + drops.down), &why);
    page.markup("</dl>");
}

fn median_of(service: &Service) -> &'static str {
    match service.service.as_str() {
        "video" | "track" => "Median to first byte",
        _ => "Median to completion",
    }
}

fn incidents(page: &mut Page, results: &Results) {
    if results.incidents.is_empty() {
        return;
    }
    page.element("h2", "", "What happened in between");
    page.markup("<div class=\"card\"><ol class=\"incidents\">");
    for incident in &results.incidents {
        let text = format!("{}, {}: {}", moment(incident.t), incident.object, incident.what);
        page.element("li", "", &text);
    }
    page.markup("</ol></div>");
}

/// Plan, seed, versions, machine, and the command that repeats the run.
fn facts(page: &mut Page, results: &Results) {
    let run = &results.run;
    page.element("h2", "", "How it was made, and how to repeat it");
    page.markup("<div class=\"card\">");
    if let Some(plan) = &results.plan {
        again(page, "This plan, seed and all, with the topology beside it:", results, PLAN_FILE, "");
        page.markup("<details open>");
        page.element("summary", "", PLAN_FILE);
        page.element("pre", "", plan);
        page.markup("</details>");
    } else if results.topology.is_some() {
        again(page, "This network:", results, TOPOLOGY_FILE, &format!(" --seed {}", run.seed));
    }
    let own = [
        ("seed".to_owned(), run.seed.to_string()),
        (
            "workload".to_owned(),
            format!("{} of {}, then {} of drain", seconds(run.ran_s), seconds(run.duration_s), seconds(run.drain_s)),
        ),
    ];
    page.facts(own);
    if !run.is_simulated() {
        page.facts([("processors busy at most".to_owned(), or_dash(run.verdict.cpu_busy, percent))]);
    }
    let groups = [
        ("Varied", &run.varied),
        ("Programs", &run.versions),
        ("SHA-256 of the programs", &run.binaries),
        ("Network", &run.lab),
        ("Machine", &run.machine),
    ];
    for (title, facts) in groups.into_iter().filter(|(_, facts)| !facts.is_empty()) {
        page.element("h3", "", title);
        page.facts(facts.iter().map(|(name, value)| (name.replace('_', " "), value.clone())));
    }
    if !run.verdict.linktest.is_empty() {
        page.markup("<details>");
        page.element("summary", "", "What linktest said before the run");
        page.element("pre", "", &run.verdict.linktest.join("\n"));
        page.markup("</details>");
    }
    page.markup("</div>");
}

fn again(page: &mut Page, what: &str, results: &Results, file: &str, options: &str) {
    page.element("p", "", what);
    let run = &results.run;
    let command = if run.is_simulated() { "simulate" } else { "run" };
    // A run at another detail is another run.
    let level = run.lab.get("detail").filter(|detail| run.is_simulated() && *detail != "packet");
    let level = level.map_or_else(String::new, |detail| format!(" --level {detail}"));
    page.element("pre", "", &format!("emulate {command} {}{options}{level}", results.folder.join(file).display()));
}

const TERMS: [(&str, &str); 10] = [
    ("Completed", "A service that was found, granted, and delivered whole; a stream to its end. The drain counts."),
    ("Success", "Completed services, of the requests that could end: what the end of the run cut off does not count."),
    (
        "Latency",
        "From the request to the first byte of a stream (video, track), or the last of an object (image, sensor). \
         Of completed services only: what failed or timed out has none.",
    ),
    (
        "First contact",
        "Requester and provider had not spoken over this transport before: the handshake is in the latency. \
         Warm: their connection was up.",
    ),
    ("Offered by hosts", "Bytes of frames that hosts handed to their links, once for each hop: routers hand on, too."),
    ("Over all ports", "As a switch counts: a frame where it comes in, and again at each port that it goes out of."),
    ("Overhead", "Bytes offered without the payload that was delivered."),
    (
        "Data beyond delivery",
        "Data relayed again, sent again or lost, and the headers of the messages that carried it.",
    ),
    (
        "Forwarded by routers",
        "What hosts on several nets offered beyond what their own sockets sent. An estimate: their headers are taken \
         to be as large a part as those of hosts on one net.",
    ),
    ("Lateness", "When the emulator delivered a packet, against when the link model says it was due: its own error."),
];

fn terms(page: &mut Page, run: &RunRecord, has_requests: bool) {
    page.markup("<div class=\"terms\">");
    // The first four are about requests, the last about the emulator.
    let all = TERMS.len() - usize::from(run.is_simulated());
    for (term, meaning) in TERMS.into_iter().take(all).skip(if has_requests { 0 } else { 4 }) {
        page.markup(format_args!("<p><b>{term}.</b> {meaning}</p>"));
    }
    page.markup("</div>");
}

fn footer(page: &mut Page, run: &RunRecord) {
    let version = run.versions.get("emulate").map_or_else(String::new, |version| format!(" {version}"));
    page.markup("<footer>");
    page.markup(format_args!(
        "Beside this page: <a href=\"summary.csv\">summary.csv</a>, <a href=\"services.csv\">services.csv</a>, \
         <a href=\"latency.csv\">latency.csv</a>, <a href=\"nodes.csv\">nodes.csv</a>, \
         <a href=\"links.csv\">links.csv</a>, \
         <a href=\"timeline.csv\">timeline.csv</a>, the raw <a href=\"events.jsonl\">events.jsonl</a> and \
         <a href=\"run.json\">run.json</a>, and each figure as SVG in <a href=\"figures/\">figures/</a>."
    ));
    page.element(
        "p",
        "",
        &format!("Written by emulate{version} from the records alone; emulate report writes it again."),
    );
    page.markup("</footer>");
}
