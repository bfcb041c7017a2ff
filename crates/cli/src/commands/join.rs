//! `roost join`: this host makes its key and becomes a member, by an invitation or by a file.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use roost_authority::{Client, ClientError};
use roost_identity::group::Joined;
use roost_identity::{Answer, Enrolment, EnrolmentError, Fingerprint, Identity, InvitationAddress, Owner, RenewalKey};
use roost_terminal::{Output, SCHEMA};
use roost_wire::Role;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::date;
use crate::args::{Daemon, JoinArgs};
use crate::failure::{Code, Failure, Outcome};

/// The user as which the units run their daemons.
const SERVICE_USER: &str = "roost";

/// The longest bundle that is read, bytes: a full revocation list has 4 MiB.
const MAX_BUNDLE: u64 = 8 * 1024 * 1024;

/// The pauses between two tries to reach the authority.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(15);

pub(crate) async fn run(args: &JoinArgs, output: Output) -> Outcome {
    let dir = args.to.clone().map_or_else(default_folder, Ok)?;
    let owner = find_owner(args.owner.as_deref())?;
    let invitation = read_invitation(&args.invitation)?;
    let (identity, answer, authority) = if invitation.starts_with("roost://") {
        let link: InvitationAddress = invitation.parse().map_err(|error| Failure::usage(format!("{error}")))?;
        let enrolment = begin(args, &dir, Enrolment::begin, Some(link.fingerprint))?;
        let answer = ask(args, &link, &enrolment, output).await?;
        let identity = enrolment.finish(&answer, Some(link.fingerprint), owner, SystemTime::now())?;
        (identity, answer, Some(link.authority))
    } else {
        let no_bundle = |_| Failure::usage(format!("{} is not what roost group sign wrote", args.invitation));
        let answer: Box<Answer> = serde_json::from_str(&invitation).map_err(no_bundle)?;
        (begin(args, &dir, Enrolment::resume, None)?.finish(&answer, None, owner, SystemTime::now())?, answer, None)
    };
    let config = settings(&dir, &identity, &answer, authority.as_deref());
    let config = write_config(config_path(args, identity.role())?, &dir, &config)?;
    report(&identity, &dir, &answer, &config, output)?;
    if authority.is_none() {
        output
            .say(format!("Compare the group's words with its operator: {}.", identity.authority_fingerprint().words()));
    }
    if args.start {
        return start(daemon(identity.role()));
    }
    if config.is_written && identity.role() == Role::Node && answer.hubs.is_empty() {
        output.say(format!("The group stores no hubs: name one in {} before the start.", config.path.display()));
    }
    let (program, path) = (daemon(identity.role()).program(), config.path.display());
    output.say(format!("Next: systemctl enable --now {program}, or {program} --config {path}"));
    Ok(())
}

/// Begins to join, or goes on after an earlier try that has left an identity without its configuration: the same key
/// then asks once more.
fn begin(
    args: &JoinArgs,
    dir: &Path,
    begin: impl FnOnce(&Path) -> Result<Enrolment, EnrolmentError>,
    authority: Option<Fingerprint>,
) -> Outcome<Enrolment> {
    let begun = begin(dir);
    if let Err(EnrolmentError::Exists { .. }) = &begun
        && let Ok(held) = Identity::load(dir)
        && authority.is_none_or(|invited| invited == held.authority_fingerprint())
        && !config_path(args, held.role())?.exists()
    {
        return Ok(Enrolment::renew(dir, &Arc::new(held), RenewalKey::Same)?);
    }
    Ok(begun?)
}

/// Asks the authority until it has answered. The same key asks each time, so no try uses the invitation again.
async fn ask(args: &JoinArgs, link: &InvitationAddress, enrolment: &Enrolment, output: Output) -> Outcome<Box<Answer>> {
    let client = Client::for_device(&link.authority, link.fingerprint)?;
    let request = enrolment.request(args.name.as_deref(), args.role)?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut patience = Patience::new(args.timeout, output);
    let mut ticket: Option<String> = None;
    loop {
        let asked = match &ticket {
            None => client.join(&link.token, &request, host.trim()).await,
            Some(ticket) => client.wait(ticket).await.map(|answer| match answer {
                Some(answer) => Joined::Issued(Box::new(answer)),
                None => Joined::Waiting { ticket: ticket.clone() },
            }),
        };
        match asked {
            Ok(Joined::Issued(answer)) => return Ok(answer),
            Ok(Joined::Waiting { ticket: given }) => {
                if ticket.is_none() {
                    let words = enrolment.fingerprint().words();
                    output.say(format!("Waiting for the group's operator, who sees these words: {words}."));
                }
                patience.renew();
                ticket = Some(given);
            }
            Err(ClientError::Refused { code, .. }) if code == "unknown-ticket" => ticket = None,
            Err(error) => patience.wait_after(error).await?,
        }
    }
}

/// The time left for an authority that does not answer.
struct Patience {
    whole: Duration,
    end: Instant,
    pause: Duration,
    output: Output,
}

impl Patience {
    fn new(whole: Duration, output: Output) -> Self {
        Self { whole, end: Instant::now() + whole, pause: MIN_PAUSE, output }
    }

    fn renew(&mut self) {
        *self = Self::new(self.whole, self.output);
    }

    /// Pauses after a failure that may pass. Any other ends the try.
    async fn wait_after(&mut self, error: ClientError) -> Outcome {
        if !error.is_temporary() || Instant::now() + self.pause > self.end {
            return Err(error.into());
        }
        if self.pause == MIN_PAUSE {
            self.output.say(format!("{error}; trying again"));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Ok(())
    }
}

/// The invitation or the bundle itself, or the text of a file or of standard input: all users of a host see a command
/// line.
fn read_invitation(given: &str) -> Outcome<String> {
    if given.starts_with("roost://") {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    let read = match given {
        "-" => io::stdin().take(MAX_BUNDLE).read_to_string(&mut text),
        path => File::open(path).and_then(|file| file.take(MAX_BUNDLE).read_to_string(&mut text)),
    };
    read.map_err(|error| Failure::file("read", Path::new(given), &error))?;
    Ok(text.trim().to_owned())
}

/// The folder of the identity: that of the units, or one of this user's.
pub(super) fn default_folder() -> Outcome<PathBuf> {
    if is_root() { Ok(PathBuf::from("/var/lib/roost/identity")) } else { Ok(user_folder()?.join("identity")) }
}

fn user_folder() -> Outcome<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    folder.map(|folder| folder.join("roost")).ok_or_else(|| Failure::usage("there is no home folder: give --to DIR"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The named user, or the units' user if root joins and there is one.
fn find_owner(named: Option<&str>) -> Outcome<Option<Owner>> {
    let id = |flag: &str, user: &str| {
        let output = Command::new("id").args([flag, "--", user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    let find = |user: &str| Some(Owner { user: id("-u", user)?, group: id("-g", user)? });
    match named {
        Some(user) => {
            let unknown = || Failure::usage(format!("there is no user {user} here: see --owner"));
            find(user).map(Some).ok_or_else(unknown)
        }
        None => Ok(Some(SERVICE_USER).filter(|_| is_root()).and_then(find)),
    }
}

const fn daemon(role: Role) -> Daemon {
    match role {
        Role::Node => Daemon::OverlayNode,
        Role::SuperNode => Daemon::Supernode,
        Role::Server => Daemon::CsServer,
    }
}

struct Config {
    path: PathBuf,
    is_written: bool,
}

/// The text of a configuration: the identity, the hubs to turn to, and the authority that renews the certificate.
fn settings(dir: &Path, identity: &Identity, answer: &Answer, authority: Option<&str>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let mut text = format!("# Written by roost join.\nidentity = {}\n", quoted(&absolute.display().to_string()));
    if let Some(authority) = authority {
        text += &format!("authority = {}\n", quoted(authority));
    }
    let key = match identity.role() {
        Role::Node => Some("super"),
        Role::SuperNode => Some("sibling"),
        Role::Server => None,
    };
    if let Some(key) = key.filter(|_| !answer.hubs.is_empty()) {
        let hubs: Vec<String> = answer.hubs.iter().map(|hub| quoted(hub)).collect();
        text += &format!("{key} = [{}]\n", hubs.join(", "));
    }
    text
}

fn config_path(args: &JoinArgs, role: Role) -> Outcome<PathBuf> {
    let folder = || if is_root() { Ok(PathBuf::from("/etc/roost")) } else { user_folder() };
    match &args.config {
        Some(path) => Ok(path.clone()),
        None => Ok(folder()?.join(format!("{}.toml", daemon(role).program()))),
    }
}

/// Writes the daemon's configuration, unless there is one.
fn write_config(path: PathBuf, dir: &Path, text: &str) -> Outcome<Config> {
    let is_written = !path.exists();
    if is_written {
        create_whole(&path, text).map_err(|error| {
            let (dir, path) = (dir.display(), path.display());
            Failure::failed(format!(
                "the identity is in {dir}, but its configuration {path} cannot be written: {error}"
            ))
        })?;
    }
    Ok(Config { path, is_written })
}

/// Makes a file that the daemon's user can read, whatever the umask. A host that fails in between has no file or all
/// of it.
fn create_whole(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut next = path.as_os_str().to_owned();
    next.push(".new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&next)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    renameat_with(CWD, &next, CWD, path, RenameFlags::NOREPLACE).inspect_err(|_| drop(fs::remove_file(&next)))?;
    File::open(folder)?.sync_all()
}

fn report(identity: &Identity, dir: &Path, answer: &Answer, config: &Config, output: Output) -> Outcome {
    let (group, role, name) = (identity.group(), identity.role(), identity.name());
    if output.is_json() {
        let until = identity.not_after().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        return Ok(output.json(&json!({
            "schema": SCHEMA, "group": group, "name": name, "role": role.name(), "node": identity.node().to_string(),
            "not_after_unix_s": until, "dir": dir, "hubs": answer.hubs, "config": config.path,
            "config_written": config.is_written
        }))?);
    }
    let (node, until) = (identity.node(), date(identity.not_after()));
    output.data(&format!("joined {group} as {role} {name}, id {node}, valid until {until}, in {}\n", dir.display()))?;
    if !config.is_written {
        output.say(format!("{} exists already: see that it names this identity.", config.path.display()));
    }
    Ok(())
}

fn start(daemon: Daemon) -> Outcome {
    let unit = daemon.program();
    let ran = Command::new("systemctl").args(["enable", "--now", unit]).status();
    match ran {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Failure::failed(format!("this host has joined, but systemctl cannot start {unit}: {status}")))
        }
        Err(error) => Err(Failure::failed(format!("this host has joined, but cannot run systemctl: {error}"))),
    }
}

impl From<EnrolmentError> for Failure {
    fn from(error: EnrolmentError) -> Self {
        match error {
            EnrolmentError::Name(_) => Self::usage(error.to_string()),
            EnrolmentError::OtherAuthority => Self::new(Code::Refused, error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let code = match &error {
            ClientError::Unreachable { .. } => Code::Unreachable,
            ClientError::TimedOut(_) => Code::TimedOut,
            ClientError::Refused { .. } | ClientError::OtherAuthority(_) | ClientError::Certificate { .. } => {
                Code::Refused
            }
            _ => Code::Failed,
        };
        Self::new(code, error.to_string())
    }
}
