//! Writing of a run's pages, figures and tables into its folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use roost_results::metrics::{Metrics, RoomUse};
use roost_results::record::RunRecord;
use roost_results::{ReadError, read};

use super::measure::measures;
use super::text_format::{bytes, count, milliseconds, or_dash, percent, quantile, slowest};
use super::{figure, measurements, page, run_tables};

#[derive(Clone, Debug)]
pub struct WrittenReport {
    pub page: PathBuf,
    /// The main figures, name and value, for a terminal.
    pub headline: Vec<(String, String)>,
    /// The measures of a single run by name, in bytes, milliseconds and fractions.
    pub measures: BTreeMap<String, f64>,
    /// The reasons to distrust the figures; empty if there are none.
    pub distrust_reasons: Vec<String>,
    /// All files, in the order of writing.
    pub files: Vec<PathBuf>,
    /// Irregularities of the input, one sentence each.
    pub remarks: Vec<String>,
}

/// A report was not written, or only in part.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The run could not be read; nothing was written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A folder holds no run that could be shown; nothing was written.
    #[error("there is no run under {}: name a folder that `emulate run` or `emulate sweep` wrote", folder.display())]
    NoRun { folder: PathBuf },
    /// The runs of two sides are not comparable; nothing was written.
    #[error("these cannot be compared: {reason}; name runs of one kind, or the same kinds on both sides")]
    Unlike { reason: String },
    /// The output has the name of neither a page nor a figure; nothing was written.
    #[error("{} is neither a page (.html) nor a figure (.svg)", path.display())]
    Ending { path: PathBuf },
    /// A folder cannot be read; nothing was written.
    #[error("cannot read {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// A file could not be written; those before it were.
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Reads the run in `folder` and writes beside it `*.csv`, `figures/*.svg` and `index.html`. No other file in
/// the folder is touched; files of an earlier report are replaced atomically.
///
/// # Errors
/// Fails when the run cannot be read, or a file cannot be written.
pub fn write(folder: &Path) -> Result<WrittenReport, WriteError> {
    let results = read(folder)?;
    let metrics = Metrics::from_results(&results);
    let mut files = Vec::new();
    for (name, text) in run_tables::files(&results, &metrics) {
        files.push(put(&folder.join(name), &text)?);
    }
    for figure in figure::of_network(&results).into_iter().chain(figure::of_run(&results, &metrics)) {
        let path = folder.join("figures").join(format!("{}.svg", figure.name));
        files.push(put(&path, &figure.sheet.standing(&figure.title))?);
    }
    let page = put(&folder.join("index.html"), &page::of_run(&results, &metrics))?;
    files.push(page.clone());
    let distrust_reasons = distrust_reasons(&results.run);
    let measures = measures(&metrics).into_iter().map(|(measure, value)| (measure.name, value)).collect();
    Ok(WrittenReport {
        page,
        headline: headline(&metrics),
        measures,
        distrust_reasons,
        files,
        remarks: results.remarks,
    })
}

/// The reasons to distrust the figures of a run; empty if there are none.
pub(super) fn distrust_reasons(run: &RunRecord) -> Vec<String> {
    match run.verdict.reasons.as_slice() {
        _ if run.verdict.valid => Vec::new(),
        [] => vec!["The run is not valid, and does not say why.".to_owned()],
        reasons => reasons.to_vec(),
    }
}

fn headline(metrics: &Metrics) -> Vec<(String, String)> {
    let (requests, traffic) = (&metrics.requests, &metrics.traffic);
    let measured = metrics.measurements.iter().map(|one| (one.name.clone(), measurements::headline(one)));
    let rooms = rooms(metrics).chain(measured);
    if requests.asked == 0 {
        let offered = or_dash(traffic.offered_bytes.map(|bytes| bytes as f64), bytes);
        return rooms.chain([("offered by hosts".to_owned(), offered)]).collect();
    }
    let success = or_dash(requests.success_ratio(), percent);
    let mut lines = vec![(
        "completed services".to_owned(),
        format!("{} of {} ({success})", count(requests.completed), count(requests.asked)),
    )];
    for one in &metrics.services {
        let (median, slowest) = (quantile(&one.latency, 500), slowest(&one.latency));
        lines.push((format!("{} latency", one.service), format!("median {median}, {slowest}")));
    }
    let ports = or_dash(traffic.port_per_service, bytes);
    let each = or_dash(traffic.offered_per_service, bytes);
    lines.push(("traffic per service".to_owned(), format!("{each} offered, {ports} over all ports")));
    let overhead = or_dash(traffic.overhead_per_service, |each| format!("{} per service", bytes(each)));
    lines.push(("all but payload".to_owned(), overhead));
    rooms.chain(lines).collect()
}

fn rooms(metrics: &Metrics) -> impl Iterator<Item = (String, String)> {
    let mut rooms: BTreeMap<&str, Vec<&RoomUse>> = BTreeMap::new();
    metrics.rooms.iter().for_each(|stay| rooms.entry(&stay.room).or_default().push(stay));
    rooms.into_iter().map(|(room, stays)| {
        let sum = |figure: fn(&RoomUse) -> u64| count(stays.iter().map(|stay| figure(stay)).sum());
        let longest = |figure: fn(&RoomUse) -> Option<f64>| {
            or_dash(stays.iter().filter_map(|stay| figure(stay)).reduce(f64::max), milliseconds)
        };
        let told = format!(
            "{} of {} streams came, the latest after {}; {} packets missing; longest gap {}",
            sum(|stay| stay.came),
            sum(|stay| stay.streams),
            longest(|stay| stay.first_packet.max),
            sum(|stay| stay.missing),
            longest(|stay| stay.longest_gap_ms),
        );
        (format!("room {room}"), told)
    })
}

/// Writes one file under another name first, so that no reader sees half of it.
pub(super) fn put(path: &Path, text: &str) -> Result<PathBuf, WriteError> {
    let failed = |source| WriteError::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.part"));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // A partial file is useless; the error itself is returned below.
        fs::remove_file(&beside).ok();
    }
    written.map_err(failed)?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use roost_results::record::{ProgramEnd, ProgramRecord, RoomStreamRecord, TrafficRecord};
    use roost_results::testing;

    use super::*;

    #[test]
    fn report_has_page_figures_and_tables() {
        let folder = tempfile::tempdir().unwrap();
        testing::small().write(folder.path());
        let written = write(folder.path()).unwrap();
        assert!(written.files.iter().all(|file| file.is_file()));
        let has = |name: &str| written.files.iter().any(|file| file.ends_with(name));
        for name in ["index.html", "summary.csv", "figures/latency.svg", "figures/timeline.svg", "figures/links.svg"] {
            assert!(has(name), "{name}");
        }
        // No partial file is left, and no existing file is gone.
        let names: Vec<String> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.iter().all(|name| !name.starts_with('.')) && names.contains(&"events.jsonl".to_owned()));
        // A report can be written again.
        assert_eq!(write(folder.path()).unwrap().files, written.files);
    }

    #[test]
    fn hostile_names_are_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let hostile = "\"><script>alert('1')\u{1}</script>";
        let mut run = testing::small();
        let results = &mut run.results;
        results.run.name = hostile.into();
        results.run.topology = hostile.into();
        results.run.hubs = vec![hostile.into()];
        results.run.verdict.reasons = vec![hostile.into()];
        results.run.verdict.valid = false;
        results.run.machine.insert(hostile.into(), hostile.into());
        results.plan = Some(hostile.into());
        results.incidents[0].object = hostile.into();
        for request in &mut results.requests {
            request.service = hostile.into();
            request.class = hostile.into();
            request.node = hostile.into();
            request.error = Some(hostile.into());
        }
        results.links[0].host = hostile.into();
        run.write(folder.path());
        for file in write(folder.path()).unwrap().files {
            let text = fs::read_to_string(&file).unwrap();
            let is_table = file.extension().is_some_and(|ending| ending == "csv");
            assert!(is_table || !text.contains("<script") && !text.contains('\u{1}'), "{}", file.display());
            let fetches = ["src=", "url(", "@import", "<link", "<iframe", "href=\"http"];
            assert!(fetches.iter().all(|fetch| !text.contains(fetch)), "{}", file.display());
        }
    }

    #[test]
    fn untrusted_run_warns_first() {
        let mut run = testing::small();
        run.results.run.verdict.valid = false;
        run.results.run.verdict.reasons = vec!["Packets were late.".into()];
        let text = page::of_run(&run.results, &Metrics::from_results(&run.results));
        let banner = text.find("These figures cannot be trusted").unwrap();
        assert!(banner < text.find("class=\"numbers\"").unwrap() && text.contains("<li>Packets were late.</li>"));
    }

    #[test]
    fn empty_run_still_has_page() {
        let mut run = testing::small();
        let results = &mut run.results;
        results.requests.clear();
        results.samples.clear();
        results.links.clear();
        results.nodes.clear();
        results.run.verdict.lateness_us.clear();
        let folder = tempfile::tempdir().unwrap();
        run.write(folder.path());
        let page = fs::read_to_string(write(folder.path()).unwrap().page).unwrap();
        assert!(page.contains("Packets dropped") && !page.contains("Completed services"));
    }

    #[test]
    fn hub_shown_by_host_and_role() {
        let mut run = testing::small();
        let results = &mut run.results;
        let mut span = results.nodes.remove("hub").unwrap();
        (span.first.node, span.last.node) = ("n1-hub".into(), "n1-hub".into());
        results.nodes.insert("n1-hub".into(), span);
        results.run.hubs = vec!["n1".into()];
        let metrics = Metrics::from_results(results);
        let text = page::of_run(results, &metrics);
        assert!(text.contains("n1 (supernode)") && !text.contains("n1-hub"));
        assert!(text.contains(&format!("{} nodes and 1 hub</summary>", results.run.nodes)), "{text}");
        let load = figure::of_run(results, &metrics).into_iter().find(|figure| figure.name == "load").unwrap();
        assert_eq!(load.title, "The busiest daemon, n1 (supernode), used 11 % of a processor");
    }

    #[test]
    fn programs_and_traffic_agents_are_told() {
        let mut run = testing::small();
        run.results.programs.push(ProgramRecord {
            t: 1.0,
            program: "ask".into(),
            host: "n1".into(),
            command: "ping -c 5 <n2>, twice".into(),
            elapsed_s: 4.1,
            code: Some(1),
            end: ProgramEnd::Exited,
            error: None,
            as_expected: false,
            cpu_s: Some(0.5),
            memory_bytes: None,
        });
        run.results.traffic.push(TrafficRecord {
            agent: "cbr0".into(),
            packets: 12,
            bytes: 12_000,
            ..TrafficRecord::default()
        });
        let text = page::of_run(&run.results, &Metrics::from_results(&run.results));
        assert!(text.contains("ping -c 5 &lt;n2&gt;") && text.contains("0 of 1 ended as they should"));
        let files = run_tables::files(&run.results, &Metrics::from_results(&run.results));
        let programs = &files.iter().find(|(name, _)| *name == "programs.csv").unwrap().1;
        assert!(programs.ends_with("ask,n1,\"ping -c 5 <n2>, twice\",1,4.1,exited,1,0,,0.5,\n"), "{programs}");
        assert!(files.iter().any(|(name, text)| *name == "agents.csv" && text.contains("cbr0,,,,12,12000")));
    }

    #[test]
    fn streams_of_rooms_are_told() {
        let mut run = testing::small();
        let stream = |node: &str, first_packet_ms| RoomStreamRecord {
            room: "<ops>".into(),
            node: node.into(),
            provider: "n3".into(),
            service: "video".into(),
            first_packet_ms,
            packets: 700,
            missing: 2,
            longest_gap_ms: first_packet_ms,
            requests: 1,
            until: 60.0,
            ..RoomStreamRecord::default()
        };
        let text = page::of_run(&run.results, &Metrics::from_results(&run.results));
        assert!(!text.contains("rooms.csv"));
        run.results.room_streams = vec![stream("n1", Some(250.0)), stream("n2", None)];
        let metrics = Metrics::from_results(&run.results);
        let text = page::of_run(&run.results, &metrics);
        assert!(text.contains("&lt;ops&gt;") && text.contains("video of n3 at n1") && text.contains("2 streams"));
        assert!(text.contains("href=\"rooms.csv\""));
        let files = run_tables::files(&run.results, &metrics);
        let rooms = &files.iter().find(|(name, _)| *name == "rooms.csv").unwrap().1;
        assert!(rooms.ends_with("<ops>,n2,n3,video,0,60,,700,2,0,,1\n"), "{rooms}");
        let told = "1 of 2 streams came, the latest after 250 ms; 4 packets missing; longest gap 250 ms";
        assert_eq!(headline(&metrics)[0], ("room <ops>".to_owned(), told.to_owned()));
    }

    #[test]
    fn write_error_names_folder() {
        let folder = tempfile::tempdir().unwrap();
        testing::small().write(folder.path());
        fs::write(folder.path().join("figures"), "in the way").unwrap();
        let error = write(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("figures"), "{error}");
    }
}
