use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use roost_services::ObjectIdentity;
use roost_wire::NodeId;
use roost_wire::object::digest_text;
use roost_wire::printable::is_plain;

/// Most names that are tried for a file whose own is taken.
const MAX_NAMES: u32 = 10_000;

/// Digits of a digest, and of a sender's id, in the name of a part.
const DIGEST_DIGITS: usize = 32;
const SENDER_DIGITS: usize = 32;

/// Names that other systems reserve for devices, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// True if a file in the inbox may have this name: it stays in the folder, shows no other name there, is no part of
/// another one, no command takes it for a flag, and other systems allow it.
pub(super) fn is_sane(name: &str) -> bool {
    let is_part = name.ends_with(".part") || name.ends_with(".part.json");
    let is_odd = |letter: char| letter == '/' || letter == '\\' || !is_plain(letter);
    let is_ragged = name.starts_with([' ', '.', '-']) || name.ends_with(['.', ' ']);
    !name.is_empty() && !is_ragged && !is_part && !name.contains(is_odd) && !is_device(name)
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_port = |port: &str| {
        let number = stem.strip_prefix(port);
        number.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
    };
    DEVICES.contains(&stem.as_str()) || is_port("com") || is_port("lpt")
}

/// The name of an object's part, before `.part`. It contains the length and the sender, so that neither an offer of
/// another length nor another sender touches the part.
pub(super) fn hidden(from: NodeId, whole: &ObjectIdentity) -> String {
    format!(".{}-{}-{from}", &digest_text(&whole.digest)[..DIGEST_DIGITS], whole.length)
}

/// The object and its sender, if this is the name of a part or of its sidecar.
pub(super) fn sender_of_part(name: &str) -> Option<(&str, NodeId)> {
    let hidden = name.strip_suffix(".part").or_else(|| name.strip_suffix(".part.json"))?;
    let mut fields = hidden.strip_prefix('.')?.split('-');
    let (digest, length, sender) = (fields.next()?, fields.next()?, fields.next()?);
    let is_hex = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_part = is_hex(digest, DIGEST_DIGITS) && length.parse::<u64>().is_ok() && is_hex(sender, SENDER_DIGITS);
    let sender = sender.parse().ok().filter(|_| is_part && fields.next().is_none())?;
    Some((hidden, sender))
}

/// Gives a part the name of `target`, or one with a number if that is taken, and has the name on disk. Replaces no file.
/// Blocks.
///
/// # Errors
/// The part has no other name then.
pub(super) fn named(part: &Path, target: &Path) -> io::Result<PathBuf> {
    named_on_disk(part, target, |named| File::open(named.parent().unwrap_or(Path::new(".")))?.sync_all())
}

fn named_on_disk(part: &Path, target: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    for number in 1..=MAX_NAMES {
        let candidate = numbered(target, number);
        match fs::hard_link(part, &candidate) {
            Ok(()) => {
                if let Err(error) = sync(&candidate) {
                    fs::remove_file(&candidate)?;
                    return Err(error);
                }
                // A part that stays is a second name of the file. It goes with the old parts.
                let _ = fs::remove_file(part);
                return Ok(candidate);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Not every file system has hard links: then the name is reserved first.
            Err(_) => match OpenOptions::new().write(true).create_new(true).open(&candidate) {
                Ok(_) => return renamed(part, candidate, sync),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            },
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "too many files of this name are there"))
}

/// Gives a part a name that is reserved for it by an empty file.
fn renamed(part: &Path, reserved: PathBuf, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    if let Err(error) = fs::rename(part, &reserved) {
        fs::remove_file(&reserved)?;
        return Err(error);
    }
    if let Err(error) = sync(&reserved) {
        fs::rename(&reserved, part)?;
        return Err(error);
    }
    Ok(reserved)
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
        for name in ["survey.tif", "a b", "ä.jpg", "a-b", "no-extension", "console.txt", "com10", "nully", "x.con"] {
            assert!(is_sane(name), "{name}");
        }
        let hidden = ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", ".bashrc", "x.part", "x.part.json"];
        let misleading = ["a\0b", "a\nb", "-rf", "x\u{202e}gpj.exe", "x\u{2066}y", "x\u{200f}y", "\u{61c}x"];
        let unseen = ["a\u{1b}[2J", "a\u{9b}b", "a\u{200b}b", "a\u{2028}b", "a\u{feff}", "a\u{7f}"];
        let foreign = ["CON", "nul.txt", "com1", "Lpt9.tar.gz", "aux .c", "x.", "x ", "x. ", " x"];
        for name in hidden.into_iter().chain(misleading).chain(unseen).chain(foreign) {
            assert!(!is_sane(name), "{name:?}");
        }
    }

    #[test]
    fn parts_are_known_by_their_names() {
        let from = NodeId::from_bytes([7; 16]);
        let name = hidden(from, &ObjectIdentity { digest: [1; 32], length: 900 });
        for end in [".part", ".part.json"] {
            assert_eq!(sender_of_part(&format!("{name}{end}")), Some((name.as_str(), from)));
        }
        for other in ["survey.tif", ".part", ".a-1-b.part", &name, &format!("x{name}.part"), &format!("{name}-1.part")]
        {
            assert_eq!(sender_of_part(other), None, "{other}");
        }
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

    #[test]
    fn name_that_is_not_on_disk_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (part, target) = (folder.path().join(".part"), folder.path().join("survey.tif"));
        fs::write(&part, "x").unwrap();
        let full = |_: &Path| Err(io::Error::from(ErrorKind::StorageFull));
        assert!(named_on_disk(&part, &target, full).is_err());
        fs::write(&target, "").unwrap();
        assert!(renamed(&part, target.clone(), full).is_err());
        assert!(part.exists() && !target.exists());
        fs::write(&target, "").unwrap();
        assert!(renamed(&folder.path().join("gone"), target.clone(), |_| Ok(())).is_err());
        assert!(!target.exists(), "a reserved name is given back");
    }

    #[test]
    fn name_is_on_disk_before_the_part_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (part, target) = (folder.path().join(".part"), folder.path().join("survey.tif"));
        fs::write(&part, "x").unwrap();
        let both = |named: &Path| {
            assert!(part.exists() && named.exists());
            // From here on the part cannot be removed.
            fs::remove_file(&part)?;
            fs::create_dir(&part)
        };
        assert_eq!(named_on_disk(&part, &target, both).unwrap(), target, "a part that stays is no error");
    }
}
