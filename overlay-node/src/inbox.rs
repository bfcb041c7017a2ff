//! Files that other nodes send to this one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roost_daemon::driver::Mailbox;
use roost_proto::flow::digest_text;
use roost_proto::peer::{Command, Peer, Provider, Wanted};
use roost_proto::wire::{Mode, Offer, Push, Reception, Resume};
use roost_proto::{Area, NodeId, Service};
use roost_services::{Finished, Part, SinkError, Whole};

use crate::tickets::{Purpose, Reply, Tickets, ask};

/// How long the sender may take to send what it has offered.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most files of the inbox that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// How many names are tried for a file whose own is taken.
const MAX_NAMES: u32 = 10_000;

/// A folder for files that nodes send.
#[derive(Debug)]
pub(crate) struct Inbox {
    folder: PathBuf,
    /// What all files in it may have together, bytes.
    limit: u64,
    /// What is being received.
    under_way: Mutex<BTreeMap<[u8; 32], u64>>,
}

/// How the machine is asked for what was offered.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) inbox: Option<Arc<Inbox>>,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) mailbox: Mailbox<Peer>,
}

impl Desk {
    /// Takes what a node offers, or does not, and says so.
    pub(crate) async fn take(self, from: NodeId, push: Push) {
        let reception = match &self.inbox {
            Some(inbox) => inbox.take(&self, from, &push).await,
            None => Reception::NoInbox,
        };
        let (name, bytes) = (&push.name, push.bytes);
        if reception == Reception::Stored {
            tracing::info!(?from, name, bytes, "a file has come");
        } else {
            tracing::info!(?from, name, bytes, ?reception, "a file was not taken");
        }
        // The machine is gone when the daemon ends; then nobody waits.
        let _ = self.mailbox.command(Command::Received { from, id: push.id, reception }).await;
    }
}

impl Inbox {
    /// The inbox in a folder.
    pub(crate) fn new(folder: PathBuf, limit: u64) -> Self {
        Self { folder, limit, under_way: Mutex::default() }
    }

    /// Whether files can be written there; makes the folder if it is not there.
    ///
    /// # Errors
    /// One sentence that says why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let probe = self.folder.join(".inbox.part");
        let made = fs::create_dir_all(&self.folder);
        let written = made.and_then(|()| fs::write(&probe, "")).and_then(|()| fs::remove_file(&probe));
        let folder = self.folder.display();
        written.map_err(|error| {
            format!("the inbox {folder} cannot be written to: {error}; name a folder that this user may write to")
        })
    }

    async fn take(self: &Arc<Self>, desk: &Desk, from: NodeId, push: &Push) -> Reception {
        if !is_sane(&push.name) {
            return Reception::BadName;
        }
        if push.bytes > self.limit {
            return Reception::TooLarge;
        }
        let Some(_place) = Place::take(self, push) else { return Reception::Busy };
        let whole = Whole { digest: push.digest, length: push.bytes };
        let inbox = Arc::clone(self);
        match blocking(move || inbox.open(whole)).await {
            Ok(Some(part)) => receive(desk, from, push, part, &self.folder).await,
            Ok(None) => Reception::NoRoom,
            Err(error) => complain(&error),
        }
    }

    /// The part of an object, if there is room for the rest of it. Blocks.
    fn open(&self, whole: Whole) -> Result<Option<Part>, SinkError> {
        let path = self.folder.join(hidden(&whole.digest, whole.length));
        if self.taken().saturating_add(self.promised()) > self.limit {
            return Ok(None);
        }
        match Part::find(&path, |_| {})? {
            Some(part) if part.of() == whole => Ok(Some(part)),
            _ => Part::create(&path, whole).map(Some),
        }
    }

    /// What all is to have that is being received, bytes.
    fn promised(&self) -> u64 {
        self.lock().values().sum()
    }

    /// What the other files have, bytes. Blocks.
    fn taken(&self) -> u64 {
        let parts: Vec<String> = self.lock().iter().map(|(digest, bytes)| hidden(digest, *bytes) + ".part").collect();
        let is_other = |entry: &fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            !parts.iter().any(|part| name.starts_with(part.as_str()))
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().take(MAX_ENTRIES).flatten();
        entries.filter(is_other).filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], u64>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object's place among those that are being received.
struct Place(Arc<Inbox>, [u8; 32]);

impl Place {
    /// `None` if the same object is being received already.
    fn take(inbox: &Arc<Inbox>, push: &Push) -> Option<Self> {
        let mut under_way = inbox.lock();
        // What is promised already stays promised, whatever the other offer says.
        let Entry::Vacant(free) = under_way.entry(push.digest) else { return None };
        free.insert(push.bytes);
        drop(under_way);
        Some(Self(Arc::clone(inbox), push.digest))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

/// Asks for what was offered, from where the part ends, and gives it its name.
async fn receive(desk: &Desk, from: NodeId, push: &Push, part: Part, folder: &Path) -> Reception {
    let resume = Resume { digest: push.digest, offset: part.bytes() };
    let wanted = Wanted {
        deadline: PATIENCE,
        provider: Some(Provider { node: from, addresses: push.addresses.clone() }),
        resume: Some(resume),
        pushed: true,
        ..Wanted::new(Service::Image, Area::Anywhere)
    };
    let purpose = Purpose::Request(Service::Image, Mode::Forward);
    let asked = ask(&desk.tickets, &desk.mailbox, purpose, |ticket| Command::Request { ticket, wanted }).await;
    let Ok(mut replies) = asked else { return Reception::Busy };
    let mut slot = Some(part);
    loop {
        match replies.next().await {
            Some(Reply::Accepted(accepted)) => {
                if !is_offered(&accepted.offer, push, resume.offset) {
                    return Reception::Broken;
                }
            }
            Some(Reply::Data(data)) => {
                if let Err(error) = Part::add(&mut slot, &data).await {
                    return complain(&error);
                }
            }
            Some(Reply::Finished(summary)) if summary.complete || summary.digest_ok == Some(false) => break,
            Some(Reply::Finished(_) | Reply::Failed { .. }) | None => return Reception::Broken,
            Some(_) => {}
        }
    }
    let Some(part) = slot else { return Reception::Broken };
    let target = folder.join(&push.name);
    match blocking(move || part.finish_as(|part, _| named(part, &target))).await {
        Ok(Finished::Written { .. }) => Reception::Stored,
        Ok(_) => Reception::Broken,
        Err(error) => complain(&error),
    }
}

/// Whether the sender accepts with what it has offered, for which there is
/// room, from `offset` on.
fn is_offered(offer: &Offer, push: &Push, offset: u64) -> bool {
    let Offer::Object { bytes, digest, offset: at, .. } = offer else { return false };
    (*bytes, *digest, *at) == (push.bytes, push.digest, Some(offset))
}

/// What went wrong, in the log and in a word for the sender.
fn complain(error: &SinkError) -> Reception {
    tracing::warn!(%error, "a file cannot be taken into the inbox");
    match error {
        SinkError::Damaged { .. } | SinkError::Overlong { .. } => Reception::Damaged,
        SinkError::InUse { .. } => Reception::Busy,
        SinkError::Full { .. } => Reception::NoRoom,
        _ => Reception::Unwritable,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(SinkError::failed("the inbox", &io::Error::other(error))))
}

/// Whether a file in the inbox may have this name: it stays in the folder, is
/// seen there as what it is, is no part of another one, and no command takes it for a flag.
fn is_sane(name: &str) -> bool {
    let is_part = name.ends_with(".part") || name.ends_with(".part.json");
    let is_odd = |letter: char| letter == '/' || letter == '\\' || letter.is_control() || turns_text(letter);
    !name.is_empty() && !name.starts_with(['.', '-']) && !is_part && !name.contains(is_odd)
}

/// Letters that change the direction of those around them (Unicode's Bidi_Control) make `gpj.exe`
/// read as `exe.jpg`.
const fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What the part of an object is called, before `.part`: an offer with another
/// length does not touch it.
fn hidden(digest: &[u8; 32], length: u64) -> String {
    format!(".{}-{length}", &digest_text(digest)[..32])
}

/// Gives a part the name of `target`, or one with a number if that is taken.
/// Nothing that is there is ever replaced. Blocks.
fn named(part: &Path, target: &Path) -> io::Result<PathBuf> {
    for number in 1..=MAX_NAMES {
        let candidate = numbered(target, number);
        match fs::hard_link(part, &candidate) {
            Ok(()) => return fs::remove_file(part).map(|()| candidate),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Not every file system has links: then the name is reserved first.
            Err(_) => match OpenOptions::new().write(true).create_new(true).open(&candidate) {
                Ok(_) => return fs::rename(part, &candidate).map(|()| candidate),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            },
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "too many files of this name are there"))
}

/// `survey.tif`, `survey-2.tif`, `survey-3.tif`.
fn numbered(target: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return target.to_owned();
    }
    let stem = target.file_stem().unwrap_or_default().to_string_lossy();
    let extension = target.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    target.with_file_name(format!("{stem}-{number}{}", extension.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        for name in ["survey.tif", "a b", "ä.jpg", "..a".trim_start_matches('.'), "no-extension"] {
            assert!(is_sane(name), "{name}");
        }
        let hidden = ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", ".bashrc", "x.part", "x.part.json"];
        let misleading = ["a\0b", "a\nb", "-rf", "x\u{202e}gpj.exe", "x\u{2066}y", "x\u{200f}y", "\u{61c}x"];
        for name in hidden.into_iter().chain(misleading) {
            assert!(!is_sane(name), "{name:?}");
        }
    }

    #[test]
    fn missing_folder_is_made() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new").join("inbox");
        Inbox::new(folder.clone(), 1).check().unwrap();
        assert!(folder.is_dir() && fs::read_dir(&folder).unwrap().next().is_none());
        fs::write(parent.path().join("file"), "").unwrap();
        let refused = Inbox::new(parent.path().join("file"), 1).check().unwrap_err();
        assert!(refused.contains("this user may write to"), "{refused}");
    }

    #[test]
    fn nothing_that_is_there_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("survey.tif");
        for (number, expected) in ["survey.tif", "survey-2.tif", "survey-3.tif"].into_iter().enumerate() {
            let part = folder.path().join(".part");
            fs::write(&part, number.to_string()).unwrap();
            assert_eq!(named(&part, &target).unwrap(), folder.path().join(expected));
            assert!(!part.exists());
        }
        assert_eq!(fs::read(&target).unwrap(), b"0");
    }

    fn push(number: u8, bytes: u64) -> Push {
        let (id, name) = (roost_proto::RequestId(1), String::new());
        Push { id, name, bytes, digest: [number; 32], addresses: Vec::new() }
    }

    #[test]
    fn a_second_offer_of_an_object_takes_nothing_from_what_the_first_was_promised() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Arc::new(Inbox::new(folder.path().to_owned(), 1000));
        let place = Place::take(&inbox, &push(1, 900)).unwrap();
        assert!(Place::take(&inbox, &push(1, 1)).is_none());
        assert_eq!(inbox.promised(), 900);
        let mut part = inbox.open(Whole { digest: [1; 32], length: 900 }).unwrap().unwrap();
        part.write(&[1; 600]).unwrap();
        drop((place, part));
        // Nor from what of it has come: that counts, and goes on.
        let _liar = Place::take(&inbox, &push(1, 1)).unwrap();
        inbox.open(Whole { digest: [1; 32], length: 1 }).unwrap().unwrap();
        assert!(inbox.taken() >= 600);
        assert_eq!(inbox.open(Whole { digest: [1; 32], length: 900 }).unwrap().unwrap().bytes(), 600);
    }

    #[test]
    fn who_offers_one_thing_must_not_send_another() {
        let offer = |bytes, number, offset| Offer::Object {
            format: "image/tiff".to_owned(),
            bytes,
            digest: [number; 32],
            inline: None,
            offset,
        };
        assert!(is_offered(&offer(10, 1, Some(4)), &push(1, 10), 4));
        for (bytes, number, offset) in [(u64::MAX, 1, Some(4)), (10, 2, Some(4)), (10, 1, Some(5)), (10, 1, None)] {
            assert!(!is_offered(&offer(bytes, number, offset), &push(1, 10), 4), "{bytes} {number} {offset:?}");
        }
    }

    #[test]
    fn what_is_promised_counts_against_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Arc::new(Inbox::new(folder.path().to_owned(), 1000));
        fs::write(folder.path().join("old"), [0; 400]).unwrap();
        let first = Place::take(&inbox, &push(1, 500)).unwrap();
        assert!(Place::take(&inbox, &push(1, 500)).is_none(), "once at a time");
        let mut part = inbox.open(Whole { digest: [1; 32], length: 500 }).unwrap().unwrap();
        part.write(&[1; 300]).unwrap();
        let second = Place::take(&inbox, &push(2, 101)).unwrap();
        assert!(inbox.open(Whole { digest: [2; 32], length: 101 }).unwrap().is_none());
        drop((first, second, part));
        let _third = Place::take(&inbox, &push(3, 150)).unwrap();
        assert!(
            inbox.open(Whole { digest: [3; 32], length: 150 }).unwrap().is_some(),
            "beside what is left of the first"
        );
    }
}
