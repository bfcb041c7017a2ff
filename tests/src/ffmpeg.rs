use std::path::Path;
use std::process::{Command, Output};

use crate::network::text;

/// Ten frames from one key frame to the next.
pub const X264: [&str; 8] = ["-c:v", "libx264", "-g", "10", "-keyint_min", "10", "-sc_threshold", "0"];

/// Runs `ffmpeg`.
///
/// # Panics
/// Panics with its output if it fails.
pub fn ffmpeg(arguments: &[&str]) -> Output {
    let mut command = Command::new("ffmpeg");
    let output = command.args(["-nostdin", "-loglevel", "error"]).args(arguments).output().expect("ffmpeg starts");
    assert!(output.status.success(), "ffmpeg {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The hash of every decoded frame of a clip, in order.
pub fn frame_hashes(clip: &Path) -> Vec<String> {
    let output = ffmpeg(&["-i", &text(clip), "-map", "0:v", "-f", "framemd5", "-"]);
    listed(&String::from_utf8_lossy(&output.stdout))
}

/// The hashes in a listing of ffmpeg's `framemd5`.
pub fn listed(listing: &str) -> Vec<String> {
    let hash = |line: &str| line.rsplit(',').next().unwrap_or_default().trim().to_owned();
    listing.lines().filter(|line| !line.starts_with('#')).map(hash).collect()
}
