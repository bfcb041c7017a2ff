//! The group's index: a plain file to which a line is added for every certificate issued and every revocation list
//! signed.
//!
//! ```text
//! issued<TAB>SERIAL<TAB>NODE<TAB>ROLE<TAB>NAME<TAB>NOT_BEFORE<TAB>NOT_AFTER[<TAB>LABELS]
//! labels<TAB>NODE<TAB>LABELS
//! list<TAB>NUMBER
//! policy<TAB>NUMBER
//! change<TAB>NUMBER
//! ```
//! A member's labels are those of its last line. A certificate without labels has no field for them. The authority changes
//! by the document of trust with a number; certificates after that line are of the new one.
//! Times are seconds of the Unix epoch. Only the revocation list says which certificates are revoked. The index keeps
//! the numbers of list and policy, so that an old one put back in its place is noticed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_wire::{Labels, NodeId};

use super::Issued;
use super::stored::seconds;

/// The largest index that is read, in bytes: some 400 000 certificates.
const MAX_INDEX_BYTES: u64 = 64 * 1024 * 1024;

/// Room that certificates leave to revocation lists, so that a full index can still revoke: some 80 000 lists.
const ROOM_FOR_LISTS: u64 = 1024 * 1024;

/// The index, open and locked, so that one process at a time issues or revokes.
pub(crate) struct Index {
    path: PathBuf,
    file: File,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    /// Certificates in the order of issue. The index does not know of revocations, so `revoked` is `None`.
    pub(crate) issued: Vec<Issued>,
    /// The greatest number of a revocation list.
    pub(crate) list_number: u64,
    /// The count of certificates issued before each change of the authority, by the number of its document.
    pub(crate) changes: BTreeMap<u64, usize>,
    /// The greatest number of a policy; 0 if there never was one.
    pub(crate) policy_number: u64,
    /// The labels that a member's next certificate gets.
    pub(crate) labels: BTreeMap<NodeId, Labels>,
}

impl Index {
    /// Opens the index at `path`. It waits while another process holds the lock.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        file.lock()?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Reads the whole index. An error with `InvalidData` names the first bad line. A last line that does not end in a
    /// newline was cut short while it was written, and is skipped.
    pub(crate) fn read(&mut self) -> io::Result<Entries> {
        let mut entries = Entries::default();
        for (number, line) in self.whole_lines()?.lines().enumerate() {
            entries.parse_line(line).ok_or_else(|| {
                let message = format!("line {} is damaged", number + 1);
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?;
        }
        Ok(entries)
    }

    fn whole_lines(&mut self) -> io::Result<String> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        (&self.file).take(MAX_INDEX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_INDEX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 64 MiB"));
        }
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
        String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"))
    }

    pub(crate) fn add_issued(&mut self, issued: &Issued) -> io::Result<()> {
        let labels = if issued.labels.is_empty() { String::new() } else { format!("\t{}", issued.labels) };
        let line = format!(
            "issued\t{}\t{}\t{}\t{}\t{}\t{}{labels}\n",
            issued.serial,
            issued.node,
            issued.role,
            issued.name,
            seconds(issued.not_before),
            seconds(issued.not_after)
        );
        self.add(&line, MAX_INDEX_BYTES - ROOM_FOR_LISTS)
    }

    pub(crate) fn add_labels(&mut self, node: NodeId, labels: &Labels) -> io::Result<()> {
        self.add(&format!("labels\t{node}\t{labels}\n"), MAX_INDEX_BYTES - ROOM_FOR_LISTS)
    }

    pub(crate) fn add_list(&mut self, number: u64) -> io::Result<()> {
        self.add(&format!("list\t{number}\n"), MAX_INDEX_BYTES)
    }

    pub(crate) fn add_policy(&mut self, number: u64) -> io::Result<()> {
        self.add(&format!("policy\t{number}\n"), MAX_INDEX_BYTES)
    }

    pub(crate) fn add_change(&mut self, number: u64) -> io::Result<()> {
        self.add(&format!("change\t{number}\n"), MAX_INDEX_BYTES)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line after the last whole one, up to `limit` bytes, or leaves the file as it was.
    fn add(&mut self, line: &str, limit: u64) -> io::Result<()> {
        let end = self.whole_lines()?.len() as u64;
        if end + line.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "it is full: make a new group"));
        }
        self.file.set_len(end)?;
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // If this fails too, readers skip the line that was cut short.
            let _ = self.file.set_len(end);
        }
        written
    }
}

impl Entries {
    fn parse_line(&mut self, line: &str) -> Option<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.as_slice() {
            ["issued", serial, node, role, name, not_before, not_after, labels @ ..] if labels.len() <= 1 => {
                let labels: Labels = labels.concat().parse().ok()?;
                let node = node.parse::<NodeId>().ok()?;
                self.labels.insert(node, labels.clone());
                self.issued.push(Issued {
                    name: (*name).to_owned(),
                    role: role.parse().ok()?,
                    node,
                    serial: (*serial).to_owned(),
                    not_before: time(not_before)?,
                    not_after: time(not_after)?,
                    revoked: None,
                    next_labels: labels.clone(),
                    labels,
                });
            }
            ["labels", node, labels] => {
                self.labels.insert(node.parse().ok()?, labels.parse().ok()?);
            }
            ["list", number] => self.list_number = self.list_number.max(number.parse().ok()?),
            ["change", number] => {
                self.changes.insert(number.parse().ok()?, self.issued.len());
            }
            ["policy", number] => self.policy_number = self.policy_number.max(number.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

fn time(text: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_wire::Role;

    fn issued() -> Issued {
        Issued {
            name: "uav7".into(),
            role: Role::Node,
            node: NodeId::from_bytes([7; 16]),
            serial: "4f00".into(),
            not_before: UNIX_EPOCH + Duration::from_secs(5),
            not_after: UNIX_EPOCH + Duration::from_secs(9),
            revoked: None,
            labels: Labels::default(),
            next_labels: Labels::default(),
        }
    }

    fn labels(text: &str) -> Labels {
        text.parse().unwrap()
    }

    #[test]
    fn full_index_still_takes_lists() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issued.tsv");
        std::fs::write(&path, vec![b'\n'; 63 * 1024 * 1024]).unwrap();
        let mut index = Index::open(&path).unwrap();
        assert_eq!(index.add_issued(&issued()).unwrap_err().kind(), io::ErrorKind::StorageFull);
        index.add_list(1).unwrap();
    }

    #[test]
    fn index_round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issued.tsv");
        File::create(&path).unwrap();
        let plain = issued();
        let labelled = Issued { labels: labels("team=red"), next_labels: labels("team=red"), ..issued() };
        let mut index = Index::open(&path).unwrap();
        index.add_list(1).unwrap();
        index.add_change(1).unwrap();
        index.add_issued(&plain).unwrap();
        index.add_issued(&labelled).unwrap();
        index.add_list(2).unwrap();
        index.add_policy(3).unwrap();
        let labels = BTreeMap::from([(plain.node, labels("team=red"))]);
        assert_eq!(
            index.read().unwrap(),
            Entries {
                issued: vec![plain, labelled],
                list_number: 2,
                changes: BTreeMap::from([(1, 0)]),
                policy_number: 3,
                labels
            }
        );
    }

    #[test]
    fn last_labels_of_a_member_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issued.tsv");
        File::create(&path).unwrap();
        let mut index = Index::open(&path).unwrap();
        let held = |index: &mut Index| index.read().unwrap().labels[&issued().node].to_string();
        index.add_issued(&Issued { labels: labels("team=red"), ..issued() }).unwrap();
        index.add_labels(issued().node, &labels("role=scout,team=blue")).unwrap();
        assert_eq!(held(&mut index), "role=scout,team=blue");
        index.add_labels(issued().node, &Labels::default()).unwrap();
        assert_eq!(held(&mut index), "");
    }

    #[test]
    fn torn_line_is_ignored_and_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issued.tsv");
        for torn in [&b"issued\t4f"[..], b"list\t9", b"\0\0\0\0", b"\xff\xfe", b""] {
            std::fs::write(&path, [b"list\t1\n", torn].concat()).unwrap();
            let mut index = Index::open(&path).unwrap();
            assert_eq!(index.read().unwrap().list_number, 1, "{torn:?}");
            index.add_list(2).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "list\t1\nlist\t2\n", "{torn:?}");
        }
    }

    #[test]
    fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issued.tsv");
        std::fs::write(&path, "list\t1\nissued\tzz\n").unwrap();
        let error = Index::open(&path).unwrap().read().unwrap_err();
        assert_eq!(error.to_string(), "line 2 is damaged");
    }
}
