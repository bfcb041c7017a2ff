//! `emulate trace`: traces of links, made by models or shown.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use roost_report::figure;
use roost_report::text_format::percent;
use roost_terminal::{Output, SCHEMA, Table};
use roost_topology::trace::make::{MAX_LENGTH, TraceModel};
use roost_topology::trace::{QUANTILES, Trace, TraceStore, TraceSummary};
use roost_topology::units::{Rate, format_duration, parse_length};
use serde_json::{Value, json};

use super::format::write_output;
use crate::failure::{CommandResult, Failure};

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    what: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Make a trace by a published model
    ///
    /// cellular: the rate of a cellular link, by the model of Sprout (Winstein, Sivaraman and
    /// Balakrishnan, NSDI 2013), in Mahimahi's form. starlink: rate, delay and loss of a path over
    /// satellites that change every 15 s (Mohan et al., WWW 2024; Pan et al., ICC 2024; Huston, APNIC
    /// 2024), as CSV. satellite: loss in bursts of a vehicle that sees a geostationary satellite or
    /// does not (Lutz et al. 1991), as CSV. What the texts leave open is our choice; the book says what.
    #[command(before_help = "Examples:
  emulate trace make cellular --seed 1 --for 60s -o lte.down
  emulate trace make starlink --for 5m -o starlink.csv
")]
    Make(MakeArgs),
    /// Show the figures of a trace: its length, its rates, delays and losses
    #[command(before_help = "Examples:
  emulate trace show lte.down
  emulate trace show starlink.csv --svg starlink.svg
")]
    Show(ShowArgs),
}

#[derive(Debug, Args)]
struct MakeArgs {
    /// The model, of those that are published
    #[arg(value_enum)]
    model: ModelChoice,
    /// The seed: the same one makes the same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The length of the trace, at most a day
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = parse_length)]
    length: Duration,
    /// The file to write instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelChoice {
    /// A cellular link, by the model of Sprout
    Cellular,
    /// A path over Starlink, by published measurements
    Starlink,
    /// A vehicle under a geostationary satellite, by the model of Lutz et al.
    Satellite,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A trace, in Mahimahi's form or as CSV
    file: PathBuf,
    /// Draw it as a picture into this file, too
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &TraceArgs, output: Output) -> CommandResult {
    match &args.what {
        TraceCommand::Make(args) => make(args, output),
        TraceCommand::Show(args) => show(args, output),
    }
}

fn make(args: &MakeArgs, output: Output) -> CommandResult {
    if args.length > MAX_LENGTH || args.length < Duration::from_millis(100) {
        return Err(Failure::bad_input(format!("a trace is made for 100ms to {}", format_duration(MAX_LENGTH))));
    }
    let model = match args.model {
        ModelChoice::Cellular => TraceModel::Cellular,
        ModelChoice::Starlink => TraceModel::Starlink,
        ModelChoice::Satellite => TraceModel::Satellite,
    };
    write_output(&model.make(args.seed, args.length), args.output.as_deref(), output)
}

fn show(args: &ShowArgs, output: Output) -> CommandResult {
    let store = TraceStore::new(Path::new(""));
    let trace = store.load(&args.file.to_string_lossy()).map_err(|error| Failure::bad_input(error.to_string()))?;
    let summary = TraceSummary::new(&trace.content);
    if output.is_json() {
        output.json(&object(&trace, &summary))?;
    } else {
        let mut table = Table::new(&["WHAT", "VALUE"]);
        rows(&trace, &summary).into_iter().for_each(|(what, value)| table.row(vec![what.to_owned(), value]));
        output.table(&table)?;
    }
    let Some(svg) = &args.svg else { return Ok(()) };
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let title = match summary.mean_rate {
        Some(mean) => format!("{name}: {} in the mean over {}", rate(mean), format_duration(summary.period)),
        None => format!("{name}, {}", format_duration(summary.period)),
    };
    write_output(&figure::trace(&trace.content).standing(&title), Some(svg), output)
}

fn rows(trace: &Trace, summary: &TraceSummary) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("gives", trace.content.describe()),
        ("length", format_duration(summary.period)),
        ("entries", summary.entries.to_string()),
    ];
    rows.extend(summary.mean_rate.map(|mean| ("rate, mean", rate(mean))));
    if let Some((least, most)) = summary.rate_range {
        rows.push(("rate, least to most", format!("{} to {}", rate(least), rate(most))));
    }
    rows.extend(summary.stands.map(|part| ("time without rate", percent(part))));
    if let Some(delays) = &summary.delays {
        let parts = QUANTILES.iter().zip(delays).map(|(part, delay)| format!("p{part} {}", format_duration(*delay)));
        rows.push(("delay over time", parts.collect::<Vec<_>>().join(", ")));
    }
    rows.extend(summary.loss.map(|part| ("loss, mean", percent(part))));
    rows.extend(summary.down.map(|part| ("time down", percent(part))));
    rows.push(("SHA-256", trace.sha256.clone()));
    rows
}

fn object(trace: &Trace, summary: &TraceSummary) -> Value {
    let delays = summary.delays.map(|delays| {
        let quantile = |(part, delay): (&usize, &Duration)| (format!("p{part}"), json!(delay.as_secs_f64() * 1e3));
        QUANTILES.iter().zip(&delays).map(quantile).collect::<serde_json::Map<_, _>>()
    });
    json!({
        "schema": SCHEMA,
        "gives": trace.content.describe(),
        "length_s": summary.period.as_secs_f64(),
        "entries": summary.entries,
        "rate_bps": summary.mean_rate,
        "least_rate_bps": summary.rate_range.map(|(least, _)| least),
        "most_rate_bps": summary.rate_range.map(|(_, most)| most),
        "without_rate": summary.stands,
        "delay_ms": delays,
        "loss": summary.loss,
        "down": summary.down,
        "sha256": trace.sha256,
    })
}

/// A rate in the notation of topologies, with three digits.
fn rate(bps: f64) -> String {
    if bps < 1.0 {
        return "0".to_owned();
    }
    let scale = 10_f64.powi(bps.log10().floor() as i32 - 2).max(1.0);
    let rounded = (bps / scale).round() * scale;
    match rounded {
        _ if rounded >= 1e6 => format!("{}Mbit", rounded / 1e6),
        _ => Rate::from_bps(rounded as u64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        assert_eq!([0.0, 999.4, 12_345.0, 5_678_901.0].map(rate), ["0", "999bit", "12300bit", "5.68Mbit"]);
    }
}
