//! Commands that people wait for, read by their own definition alone.
//!
//! The definition of all commands takes longer to make than such a command takes. It still writes help, and the errors
//! of a command line.

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Parser};

use super::{Cli, Command, GlobalArgs, definition};

#[derive(Debug, Parser)]
struct SingleCommand<A: Args> {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(flatten)]
    args: A,
}

/// # Errors
/// Fails if the line is wrong, or asks for help.
pub(crate) fn read(line: &[OsString]) -> Result<Cli, clap::Error> {
    if let Some(cli) = read_single_command(line) {
        return Ok(cli);
    }
    let matches = definition().try_get_matches_from(line)?;
    Cli::from_arg_matches(&matches)
}

/// Reads a correct line that begins with a command that is read alone.
fn read_single_command(line: &[OsString]) -> Option<Cli> {
    let (name, rest) = line.get(1..)?.split_first()?;
    match name.to_str()? {
        "request" => parse_command(rest, Command::Request),
        "subscribe" => parse_command(rest, Command::Subscribe),
        "call" => parse_command(rest, Command::Call),
        "lookup" => parse_command(rest, Command::Lookup),
        "ping" => parse_command(rest, Command::Ping),
        "send" => parse_command(rest, Command::Send),
        _ => None,
    }
}

fn parse_command<A: Args>(rest: &[OsString], command: impl FnOnce(A) -> Command) -> Option<Cli> {
    let line = std::iter::once("roost".into()).chain(rest.iter().cloned());
    let SingleCommand { global, args } = SingleCommand::<A>::try_parse_from(line).ok()?;
    Some(Cli { global, command: command(args) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_reads_what_all_read() {
        const LINES: &[&str] = &[
            "request video --at 27,92 -o clip.ts --json",
            "request sensor --near -27,-92 --within 3 -q --socket /tmp/s --for 3s --mode relay",
            "request image --any -k 3 --scope home --reflect never --progress",
            "request track --any -v --no-color --format raw -o - --timeout 300ms",
            "request track --from uav7 --form full -o track.jsonl",
            "subscribe video --from uav7 -o udp://127.0.0.1:5004",
            "call acme/tiles --any --data - --params zoom=3 -o tile.png",
            "lookup track --rect 0,0,50,50 --json",
            "ping uav7 --count 10",
            "ping",
            "send survey.tif uav7 --address udp://10.0.0.3:7711",
        ];
        for line in LINES {
            let line = words(line);
            let all = Cli::from_arg_matches(&definition().try_get_matches_from(&line).unwrap()).unwrap();
            assert_eq!(format!("{:?}", read_single_command(&line).unwrap()), format!("{all:?}"));
        }
    }

    #[test]
    fn others_are_read_by_all() {
        for line in ["", "request", "request --help", "request video", "ping --bogus", "help request", "--json ping"] {
            assert!(read_single_command(&words(line)).is_none(), "{line}");
        }
        assert!(read(&words("--json ping")).unwrap().global.speech.json);
        let error = read(&words("request video --near 1,1 --bogus")).unwrap_err();
        assert!(error.to_string().contains("roost request"), "{error}");
    }

    fn words(line: &str) -> Vec<OsString> {
        std::iter::once("roost").chain(line.split_whitespace()).map(OsString::from).collect()
    }
}
