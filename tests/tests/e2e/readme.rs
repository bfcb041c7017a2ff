//! The commands of README.md work as they are printed, on two hosts that know nothing of each other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use roost_tests::ffmpeg::ffmpeg;
use roost_tests::hosts::Star;
use roost_tests::network::{Network, PATIENCE, text};
use roost_tests::process::{Process, binary, wait_until};

/// Longest time that one command of the page may take.
const COMMAND: Duration = Duration::from_secs(60);

/// Programs that stay in the foreground: the page says that each has a terminal.
const STAYING: [&str; 3] = ["supernode ", "overlay-node ", "ffmpeg "];

/// The host on which a block is to be pasted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Own,
    First,
    Second,
}

/// The commands of a section's blocks, and where the paragraph before each block says that they are typed.
fn commands(page: &str, section: &str) -> Vec<(Where, String)> {
    let rest = page.split_once(&format!("## {section}\n")).expect("the section").1;
    let section = rest.split("\n## ").next().unwrap();
    let mut found = Vec::new();
    let parts: Vec<&str> = section.split("```").collect();
    for pair in parts.chunks_exact(2) {
        let (before, block) = (pair[0], pair[1].strip_prefix("console\n").expect("a block of the console"));
        let paragraph = before.trim_end().rsplit("\n\n").next().unwrap_or_default();
        let place = if paragraph.contains("the first host, ") {
            Where::First
        } else if paragraph.contains("the second host") {
            Where::Second
        } else {
            Where::Own
        };
        let lines = block.replace("\\\n", " ");
        found.extend(lines.lines().map(|line| (place, line.strip_prefix("$ ").expect("a command").to_owned())));
    }
    assert!(!found.is_empty());
    found
}

/// Two hosts, each with a folder of its own, and the programs on the path.
struct Hosts<'a> {
    star: Star<'a>,
    folder: PathBuf,
    path: String,
    running: Vec<Process>,
}

impl<'a> Hosts<'a> {
    fn new(network: &'a Network) -> Self {
        let folder = network.path("hosts");
        for place in ["own", "FIRST-HOST", "SECOND-HOST", "tools"] {
            fs::create_dir_all(folder.join(place).join("run")).unwrap();
        }
        let tools = folder.join("tools");
        // In the place of a secure channel, and of a screen: what was played is kept.
        let scp = "for to; do :; done; while [ $# -gt 1 ]; do [ \"$1\" = -r ] || cp -r \"$1\" \"$HOSTS/${to%:}/\"; shift; done";
        let player = "cat > \"played-$$.ts\"";
        for (name, script) in [("scp", scp), ("ffplay", player)] {
            fs::write(tools.join(name), format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
            fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let built = binary("roost").parent().unwrap().to_owned();
        let path = format!("{}:{}:{}", text(&tools), text(&built), std::env::var("PATH").unwrap());
        Self { star: Star::new(network, &["second"]), folder, path, running: Vec::new() }
    }

    fn home(&self, place: Where) -> PathBuf {
        self.folder.join(match place {
            Where::Own => "own",
            Where::First => "FIRST-HOST",
            Where::Second => "SECOND-HOST",
        })
    }

    /// The command as somebody pastes it, with the names of the hosts replaced.
    fn shell(&self, place: Where, line: &str) -> Command {
        let mut command = match place {
            Where::Own => Command::new("env"),
            Where::First => self.star.inside("sn"),
            Where::Second => self.star.inside("second"),
        };
        let is_copy = line.starts_with("scp ");
        let line = if is_copy { line.to_owned() } else { line.replace("FIRST-HOST", "10.1.0.1") };
        let exec = if stays(&line) { "exec " } else { "" };
        command.args(["sh", "-c", &format!("exec 0</dev/null; {exec}{line}")]).current_dir(self.home(place));
        // As a terminal has it, so that Ctrl-C is for all of a line.
        command.process_group(0);
        command.env("PATH", &self.path).env("HOSTS", &self.folder);
        command.env("XDG_RUNTIME_DIR", self.home(place).join("run")).env_remove("ROOST_SOCKET");
        command
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number}.log"))
    }

    /// Pastes a line: what stays is waited for until it serves, the rest until it is done.
    fn paste(&mut self, number: usize, (place, line): &(Where, String)) {
        let said = |hosts: &Self| fs::read_to_string(hosts.log(number)).unwrap_or_default();
        let mut command = Process::start(self.shell(*place, line), self.log(number)).unwrap();
        let endless = line.starts_with("roost subscribe") && !line.contains("--for");
        if stays(line) {
            self.running.push(command);
            return self.wait_serving(*place, line, number);
        }
        if endless {
            let played = || played(&self.home(*place)).iter().any(|clip| bytes(clip) > 300_000 && !is_done(clip));
            let is_played = wait_until(COMMAND, || played().then_some(())).is_some();
            assert!(is_played, "{line}: nothing is played: {}", said(self));
            let interrupted = Command::new("kill").args(["-INT", "--", &format!("-{}", command.id())]).status();
            assert!(interrupted.unwrap().success());
            command.wait(COMMAND);
            return;
        }
        assert_eq!(command.wait(COMMAND), Some(0), "{line}:\n{}", said(self));
        played(&self.home(*place)).iter().for_each(|clip| {
            fs::write(clip.with_extension("done"), "").unwrap();
        });
    }

    fn wait_serving(&self, place: Where, line: &str, number: usize) {
        let socket = match line.split(' ').next() {
            Some("ffmpeg") => return,
            Some(daemon) => self.home(place).join("run/roost").join(format!("{daemon}.sock")),
            None => return,
        };
        let mut command = Command::new(binary("roost"));
        command.arg("--socket").arg(&socket).args(["status", "--json"]);
        let states = ["\"listening\"", "\"attached\""];
        let serves = || {
            let status = command.output().ok().filter(|output| output.status.success())?;
            let status = String::from_utf8_lossy(&status.stdout).into_owned();
            states.iter().any(|state| status.contains(state)).then_some(())
        };
        let log = || fs::read_to_string(self.log(number)).unwrap_or_default();
        assert!(wait_until(PATIENCE, serves).is_some(), "{line}:\n{}", log());
    }
}

fn stays(line: &str) -> bool {
    STAYING.iter().any(|program| line.starts_with(program))
}

fn played(home: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "ts")).collect()
}

fn is_done(clip: &Path) -> bool {
    clip.with_extension("done").exists()
}

fn bytes(path: &Path) -> u64 {
    fs::metadata(path).map(|found| found.len()).unwrap_or_default()
}

/// The frames that can be shown.
fn frames(clip: &Path) -> usize {
    let listing = ffmpeg(&["-i", &text(clip), "-map", "0:v", "-f", "framemd5", "-"]);
    String::from_utf8_lossy(&listing.stdout).lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn readme_works_as_printed() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let network = Network::new();
    let mut hosts = Hosts::new(&network);
    let camera = text(&hosts.home(Where::First).join("camera.mp4"));
    let source =
        ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-t", "4", "-c:v", "libx264", "-pix_fmt", "yuv420p"];
    ffmpeg(&[&source[..], &[camera.as_str()]].concat());
    let all = [commands(&page, "Two hosts"), commands(&page, "More super nodes")].concat();
    assert!(
        all.iter().any(|(place, _)| *place == Where::First) && all.iter().any(|(place, _)| *place == Where::Second)
    );
    for (number, command) in all.iter().enumerate() {
        hosts.paste(number, command);
    }
    let second = hosts.home(Where::Second);
    let clips = played(&second);
    assert_eq!(clips.len(), 2, "{clips:?}");
    for clip in &clips {
        let count = frames(clip);
        assert!(count > 50, "{}: {count} frames", clip.display());
    }
    let picture = second.join("picture.jpg");
    assert!(frames(&picture) == 1 && bytes(&picture) > 90_000);
    let sent = hosts.home(Where::First).join("inbox/picture.jpg");
    assert_eq!(fs::read(sent).unwrap(), fs::read(&picture).unwrap());
    let lookup = all.iter().position(|(_, line)| line.starts_with("roost lookup")).unwrap();
    let listed = fs::read_to_string(hosts.log(lookup)).unwrap();
    assert!(listed.contains("uav7 ") && listed.contains("27,92"), "{listed}");
}
