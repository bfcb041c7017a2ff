//! `emulate bench transport`: our transports compared with the kernel's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use roost_bench::transport::figures;
use roost_bench::transport::{BenchTransport, Condition, FrameWorkload, TransportBench, TransportCase, TransportRow};
use roost_terminal::Output;

use super::measured::{NetworkArgs, chosen, measured, show_all};
use crate::failure::{CommandResult, Failure};

/// The defaults: bytes of frames, and due frames per second.
const PACED_BYTES: [u32; 1] = [64 << 10];
const THROUGHPUT_BYTES: [u32; 2] = [64 << 10, 1 << 10];
const PING_PONG_BYTES: [u32; 1] = [1 << 10];
const HZ: u32 = 100;
/// The longest frame: the longest message of the overlay.
const MAX_FRAME: i64 = 64 << 10;

/// `emulate bench transport`.
#[derive(Debug, Args)]
pub(crate) struct TransportArgs {
    /// Only this condition: both-up, loss or failures; may be given more than once
    #[arg(long, value_name = "CONDITION", value_delimiter = ',')]
    condition: Vec<Condition>,
    /// Only this transport: quic-stripe, quic-duplicate or quic for both, udp, tcp, kernel-tcp,
    /// kernel-mptcp; may be given more than once
    #[arg(long, value_name = "TRANSPORT", value_delimiter = ',', value_parser = transports)]
    transport: Vec<Several>,
    /// Only this workload: paced, throughput or ping-pong; may be given more than once
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',')]
    workload: Vec<FrameWorkload>,
    /// Frames of so many bytes, several sizes one after the other; without it 65536 paced, 65536
    /// and 1024 for throughput, 1024 for ping-pong. Shorter ones than a head of 32 bytes are as long as that
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=MAX_FRAME))]
    frame: Vec<u32>,
    /// Paced frames so many times a second, several rates one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [HZ], value_parser = clap::value_parser!(u32).range(1..=1000))]
    hz: Vec<u32>,
    /// Time that each run takes
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Number of runs that each row is made of
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Leave the figures (SVG) in this folder, beside what others have measured
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

type Several = (BenchTransport, Option<BenchTransport>);

/// Parses the name of a transport, or of both classes of `quic://`.
fn transports(text: &str) -> Result<Several, String> {
    match text {
        "quic" => Ok((BenchTransport::QuicStripe, Some(BenchTransport::QuicDuplicate))),
        _ => text.parse().map(|one| (one, None)),
    }
}

pub(crate) fn run(args: &TransportArgs, output: Output) -> CommandResult {
    let bench = || TransportBench::new(Duration::from_secs(args.seconds.into()), args.runs);
    let (report, interrupted) = measured(bench, &args.cells(), &args.network.options(), output)?;
    if let Some(folder) = &args.figures {
        draw(folder, &report.rows, output)?;
    }
    show_all(&report, &interrupted, output)
}

impl TransportArgs {
    /// The combinations by workload, so that comparable ones are and run side by side.
    fn cells(&self) -> Vec<TransportCase> {
        let named: Vec<BenchTransport> =
            self.transport.iter().flat_map(|(one, other)| [Some(*one), *other]).flatten().collect();
        let mut cells = Vec::new();
        for workload in chosen(FrameWorkload::ALL, &self.workload) {
            let hz: &[u32] = if workload == FrameWorkload::Paced { &self.hz } else { &[HZ] };
            for (frame_bytes, hz) in
                self.frames(workload).iter().flat_map(|bytes| hz.iter().map(move |hz| (*bytes, *hz)))
            {
                for condition in chosen(Condition::ALL, &self.condition) {
                    let transports = chosen(BenchTransport::ALL, &named);
                    cells.extend(transports.map(|transport| TransportCase {
                        condition,
                        transport,
                        workload,
                        frame_bytes,
                        hz,
                    }));
                }
            }
        }
        cells
    }

    fn frames(&self, workload: FrameWorkload) -> &[u32] {
        match workload {
            _ if !self.frame.is_empty() => &self.frame,
            FrameWorkload::Paced => &PACED_BYTES,
            FrameWorkload::Throughput => &THROUGHPUT_BYTES,
            FrameWorkload::PingPong => &PING_PONG_BYTES,
        }
    }
}

fn draw(folder: &Path, rows: &[TransportRow], output: Output) -> CommandResult {
    std::fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
    for (name, svg) in figures::transport(rows) {
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, svg).map_err(|error| Failure::file("write", &path, &error))?;
        output.say(format!("Wrote {}", path.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TransportTestCli {
        #[command(flatten)]
        args: TransportArgs,
    }

    fn cells(line: &str) -> Vec<TransportCase> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        TransportTestCli::try_parse_from(words).map(|line| line.args.cells()).unwrap_or_default()
    }

    #[test]
    fn default_selects_all_cases() {
        assert_eq!(cells("").len(), 3 * 6 * 4);
        assert!(cells("").iter().all(|cell| cell.hz == 100));
        assert_eq!(cells("--condition loss --transport udp --workload ping-pong").len(), 1);
        let both = cells("--condition loss --transport quic --workload throughput");
        let transports: Vec<BenchTransport> = both.iter().map(|cell| cell.transport).collect();
        assert_eq!(transports, [BenchTransport::QuicStripe, BenchTransport::QuicDuplicate].repeat(2));
        assert_eq!(cells("--transport sctp").len(), 0);
    }

    #[test]
    fn sizes_and_rates_are_combined() {
        let cells = cells("--condition loss --transport udp --workload paced --frame 0,8192 --hz 5,100");
        let seen: Vec<(u32, u32)> = cells.iter().map(|cell| (cell.frame_bytes, cell.hz)).collect();
        assert_eq!(seen, [(0, 5), (0, 100), (8192, 5), (8192, 100)]);
        assert_eq!(self::cells("--frame 65537").len(), 0);
    }
}
