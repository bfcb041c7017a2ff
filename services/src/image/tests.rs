use std::time::{Duration, SystemTime};

use roost_wire::Service;

use super::*;
use crate::testing::any_request;
use crate::{SourceSpec, synthetic};

fn parse(text: &str) -> Result<SourceSpec, String> {
    SourceSpec::parse(Service::Image, text).map_err(|error| error.to_string())
}

async fn open(spec: &SourceSpec) -> Result<(Bytes, String), SourceError> {
    spec.open(&any_request(None)).await.map(|opened| match opened {
        OpenedSource::Object { bytes, format } => (bytes, format),
        OpenedSource::Stored { .. } | OpenedSource::Stream { .. } => panic!("a small picture is given whole"),
    })
}

/// Makes a whole JPEG that contains `number`.
fn picture(number: u8) -> Vec<u8> {
    let mut bytes = synthetic::object(Service::Image).to_vec();
    bytes[100] = number;
    bytes
}

fn put(folder: &tempfile::TempDir, name: &str, bytes: &[u8], age: u64) {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
}

#[test]
fn bad_specs_say_what_is_accepted() {
    for text in ["", "dir:", "dir:x?pick=oldest", "command: ", "file: ", "tape:x.jpg"] {
        let error = parse(text).unwrap_err();
        assert!(error.contains("is no image source"), "{error}");
        assert!(error.contains("expected synthetic, file:PATH, dir:FOLDER"), "{error}");
    }
}

#[tokio::test]
async fn the_newest_whole_picture_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    put(&folder, "a.jpg", &picture(1), 30);
    put(&folder, "b.JPEG", &picture(2), 20);
    put(&folder, "c.jpg", &picture(3)[..5000], 10);
    put(&folder, "d.txt", &picture(4), 5);
    let spec = parse(&format!("dir:{}", folder.path().display())).unwrap();
    assert_eq!(open(&spec).await.unwrap(), (Bytes::from(picture(2)), "image/jpeg".to_owned()));
    put(&folder, "e.jpg", &picture(5), 0);
    assert_eq!(open(&spec).await.unwrap().0, picture(5), "a fresh one that has settled");
}

#[tokio::test]
async fn next_goes_round_by_name() {
    let folder = tempfile::tempdir().unwrap();
    put(&folder, "1.jpg", &picture(1), 10);
    put(&folder, "2.jpg", &picture(2), 30);
    let spec = parse(&format!("dir:{}?pick=next", folder.path().display())).unwrap();
    let mut got = Vec::new();
    for clone in [&spec, &spec.clone(), &spec] {
        got.push(open(clone).await.unwrap().0[100]);
    }
    assert_eq!(got, [1, 2, 1]);
}

#[tokio::test]
async fn large_picture_is_read_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let large = [&[0xff, 0xd8, 0xff, 0xe0][..], &[1; 3_000_000], &[0xff, 0xd9]].concat();
    put(&folder, "large.jpg", &large, 10);
    put(&folder, "half.jpg", &large[..2_000_000], 5);
    put(&folder, "scan.tif", &[&b"II*\0"[..], &[2; 2_000_000]].concat(), 10);
    let path = folder.path().display();
    for (source, expected, length) in [
        (format!("dir:{path}"), "image/jpeg", large.len() as u64),
        (format!("file:{path}/large.jpg"), "image/jpeg", large.len() as u64),
        (format!("file:{path}/scan.tif"), "image/tiff", 2_000_004),
    ] {
        let spec = parse(&source).unwrap();
        spec.check().await.unwrap();
        spec.prepare().await;
        let OpenedSource::Stored { file, format } = spec.open(&any_request(None)).await.unwrap() else {
            panic!("{source}")
        };
        assert_eq!((format.as_str(), file.length()), (expected, length), "{source}");
    }
    put(&folder, "note.txt", b"any file", 10);
    let spec = parse(&format!("file:{path}/note.txt")).unwrap();
    assert_eq!(open(&spec).await.unwrap(), (Bytes::from_static(b"any file"), "application/octet-stream".to_owned()));
    let gone = parse("file:/no/such").unwrap();
    assert!(gone.check().await.is_err() && open(&gone).await.is_err());
}

#[tokio::test]
async fn empty_or_missing_folder_is_error() {
    let folder = tempfile::tempdir().unwrap();
    let spec = parse(&format!("dir:{}", folder.path().display())).unwrap();
    spec.check().await.unwrap();
    let error = open(&spec).await.unwrap_err().to_string();
    assert!(error.contains("holds no complete JPEG"), "{error}");
    let error = parse("dir:/no/such").unwrap().check().await.unwrap_err().to_string();
    assert!(error.contains("cannot read /no/such: no such file or directory"), "{error}");
}

#[tokio::test]
async fn a_commands_picture_is_checked() {
    let encode = |codec: &str| {
        format!(
            "command:ffmpeg -loglevel error -f lavfi -i testsrc=size=64x64 -frames:v 1 -c:v {codec} -f image2pipe -"
        )
    };
    let (bytes, format) = open(&parse(&encode("mjpeg")).unwrap()).await.unwrap();
    assert!(jpeg::is_complete(&bytes));
    assert_eq!(format, "image/jpeg");
    assert_eq!(open(&parse(&encode("png")).unwrap()).await.unwrap().1, "image/png");
    let error = open(&parse("command:echo no picture").unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("gave no complete JPEG or PNG"), "{error}");
}

#[test]
fn the_synthetic_picture_decodes() {
    let folder = tempfile::tempdir().unwrap();
    put(&folder, "synthetic.jpg", &synthetic::object(Service::Image), 0);
    let decoded = std::process::Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-xerror", "-i"])
        .arg(folder.path().join("synthetic.jpg"))
        .args(["-f", "rawvideo", "-pix_fmt", "gray", "-"])
        .output()
        .expect("ffmpeg is installed");
    assert!(decoded.status.success() && decoded.stderr.is_empty(), "{}", String::from_utf8_lossy(&decoded.stderr));
    assert_eq!(decoded.stdout.len(), 640 * 480);
    let pixel = |x: usize, y: usize| decoded.stdout[y * 640 + x];
    assert!(pixel(280, 200) > 240, "the square is bright: {}", pixel(280, 200));
    assert!(pixel(4, 4).abs_diff(58) < 3, "the corner is dark: {}", pixel(4, 4));
}
