//! Captures of `tcpdump` at a host's interface.
//!
//! The format is that of the pcap library's files: a header of 24 bytes, then for each packet 16 bytes and its
//! kept bytes (pcap-savefile(5)). Times are the kernel's times of arrival.

use std::time::{Duration, SystemTime};

use roost_lab::Lab;
use roost_topology::model::HostIndex;

use super::probe::HEADERS;
use super::program::{self, ToolError, ToolProcess};
use super::{BenchContext, BenchError};

/// The first four bytes of a file with times in nanoseconds, in the machine's byte order, in which `tcpdump`
/// writes.
const MAGIC: u32 = 0xa1b2_3c4d;
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
/// Bytes kept of each packet: its headers.
const KEPT: &str = "64";

/// A captured frame: its arrival, nanoseconds since 1970, and its bytes with the Ethernet header, as the
/// emulator counts them.
pub(super) type CapturedFrame = (u64, u32);

pub(super) struct Capture {
    program: ToolProcess,
}

impl Capture {
    /// Starts to capture frames that arrive at a host's first interface and match `filter`; returns once the
    /// capture runs.
    pub(super) fn start(lab: &Lab, host: HostIndex, filter: &str) -> Result<Self, ToolError> {
        let interface = ["-i", "eth0", "-Q", "in"];
        let format = ["-w", "-", "-s", KEPT, "-B", "16384", "--time-stamp-precision=nano"];
        // The capture keeps its user: in a user namespace there is no other.
        let user = ["-Z", "root", "-n"];
        let words: Vec<&str> = [&interface[..], &format, &user, &[filter]].concat();
        let mut program = ToolProcess::start(lab, host, program::TCPDUMP, &words)?;
        program.wait_for(|| program::has_packet_socket(lab, host))?;
        Ok(Self { program })
    }

    pub(super) fn finish(self, bench: &BenchContext<'_>) -> Result<Vec<CapturedFrame>, ToolError> {
        self.end(bench, |packets| packets.iter().map(|packet| (packet.at, packet.bytes)).collect())
    }

    /// Ends it and returns the arrivals of our own probes, with their numbers.
    pub(super) fn finish_probes(self, bench: &BenchContext<'_>) -> Result<Vec<(u64, u32)>, ToolError> {
        self.end(bench, |packets| packets.iter().filter_map(CapturedPacket::probe).collect())
    }

    fn end<T>(self, bench: &BenchContext<'_>, read: impl Fn(&[CapturedPacket<'_>]) -> T) -> Result<T, ToolError> {
        self.program.interrupt();
        let finished = self.program.finish(Duration::from_secs(10), bench.stop)?;
        if !finished.success {
            return Err(ToolError::NotMeasured(finished.last_message(program::TCPDUMP)));
        }
        if let Some(lost) = lost(&finished.errors).filter(|lost| *lost > 0) {
            return Err(ToolError::NotMeasured(format!("tcpdump was too slow for {lost} packets")));
        }
        let packets = packets(&finished.output);
        packets
            .map(|packets| read(&packets))
            .ok_or_else(|| ToolError::NotMeasured(format!("tcpdump: {}", finished.errors.trim())))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CapturedPacket<'a> {
    /// Arrival, nanoseconds since 1970.
    at: u64,
    bytes: u32,
    kept: &'a [u8],
}

impl CapturedPacket<'_> {
    /// The arrival and the number of a probe.
    fn probe(&self) -> Option<(u64, u32)> {
        let number = self.kept.get(HEADERS as usize..)?.first_chunk()?;
        Some((self.at, u32::from_be_bytes(*number)))
    }
}

/// The origin of probes' times, in nanoseconds since 1970, to compare captured frames with it.
pub(super) fn since_1970(origin: std::time::Instant) -> Result<u64, BenchError> {
    let elapsed = origin.elapsed();
    let now = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_err(|_| super::system("read the clock")(std::io::Error::other("it is before 1970: set it")))?;
    Ok(u64::try_from(now.saturating_sub(elapsed).as_nanos()).unwrap_or(u64::MAX))
}

/// Parses a file; `None` if it has another format. An incomplete last packet is left out.
fn packets(file: &[u8]) -> Option<Vec<CapturedPacket<'_>>> {
    let number = |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.try_into().map(u32::from_ne_bytes).ok();
    if number(file, 0)? != MAGIC {
        return None;
    }
    let mut rest = file.get(FILE_HEADER..)?;
    let mut packets = Vec::new();
    while let (Some(seconds), Some(nanos), Some(length), Some(bytes)) =
        (number(rest, 0), number(rest, 4), number(rest, 8), number(rest, 12))
    {
        let Some(kept) = rest.get(PACKET_HEADER..PACKET_HEADER + length as usize) else { break };
        packets.push(CapturedPacket { at: u64::from(seconds) * 1_000_000_000 + u64::from(nanos), bytes, kept });
        rest = &rest[PACKET_HEADER + kept.len()..];
    }
    Some(packets)
}

/// Packets that it dropped, from its final message.
fn lost(errors: &str) -> Option<u64> {
    let line = errors.lines().find(|line| line.contains("dropped by kernel"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(packets: &[(u32, u32, &[u8], u32)]) -> Vec<u8> {
        let mut file = MAGIC.to_ne_bytes().to_vec();
        file.resize(FILE_HEADER, 0);
        for (seconds, nanos, kept, bytes) in packets {
            for number in [*seconds, *nanos, kept.len() as u32, *bytes] {
                file.extend(number.to_ne_bytes());
            }
            file.extend(*kept);
        }
        file
    }

    #[test]
    fn frames_keep_time_and_length() {
        let bytes = file(&[(1, 500, b"header", 1514), (2, 0, b"", 60)]);
        let first = CapturedPacket { at: 1_000_000_500, bytes: 1514, kept: b"header" };
        let second = CapturedPacket { at: 2_000_000_000, bytes: 60, kept: b"" };
        assert_eq!(packets(&bytes), Some(vec![first, second]));
        // In a truncated file the packets before the cut remain.
        assert_eq!(packets(&bytes[..bytes.len() - 1]), Some(vec![first]));
        assert_eq!(packets(&bytes[..FILE_HEADER + PACKET_HEADER + 3]), Some(vec![]));
        assert_eq!(packets(b""), None);
        assert_eq!(packets(&[0; 100]), None);
    }

    #[test]
    fn probe_number_is_read() {
        let mut kept = [0; 64];
        kept[HEADERS as usize..][..4].copy_from_slice(&7_u32.to_be_bytes());
        assert_eq!(CapturedPacket { at: 9, bytes: 142, kept: &kept }.probe(), Some((9, 7)));
        assert_eq!(CapturedPacket { at: 9, bytes: 142, kept: &kept[..44] }.probe(), None);
    }

    #[test]
    fn drop_count_read_from_stderr() {
        let said = "tcpdump: listening on eth0\n12 packets captured\n12 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(lost(said), Some(3));
        assert_eq!(lost(""), None);
    }
}
