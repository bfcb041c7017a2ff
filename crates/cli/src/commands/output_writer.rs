//! The destination of a request's data: an output that opens when a provider accepts, or the kept part of a large
//! object.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use roost_api::Accepted;
use roost_services::{
    Finished, MIN_PART_BYTES, ObjectIdentity, PartialFile, Sink, SinkError, SinkSpec, SinkState, TrackFormat,
};
use roost_terminal::Output;
use roost_wire::Service;
use roost_wire::messages::ResumePoint;
use roost_wire::object::parse_digest;

use super::bytes;
use crate::failure::{Code, Failure, Outcome};
use crate::progress::Progress;

pub(crate) struct OutputWriter<'a> {
    service: Service,
    spec: Option<&'a SinkSpec>,
    track_format: TrackFormat,
    output: Output,
    /// The part that an earlier request has kept, until a provider accepts.
    part: Option<PartialFile>,
    sink: Option<Sink>,
    /// The file that describes the stream to players, and the stream's format once it is known.
    sdp: Option<&'a Path>,
    format: String,
    /// True if the data at the end is verified here.
    verifies: bool,
    /// The offset at which a kept part went on, bytes.
    pub(crate) resumed_at: Option<u64>,
    pub(crate) kept: Option<WrittenOutput>,
}

pub(crate) struct WrittenOutput {
    pub(crate) finished: Finished,
    /// Lines of a track that were no records.
    pub(crate) left_out: u64,
    /// True if the data is the provider's.
    pub(crate) verified: bool,
}

impl<'a> OutputWriter<'a> {
    /// Looks for the part that an earlier request has kept, and reads it through.
    pub(crate) async fn begin(
        service: Service,
        spec: Option<&'a SinkSpec>,
        track_format: TrackFormat,
        output: Output,
    ) -> Outcome<Self> {
        let part = match file(service, spec) {
            Some(path) => find(path, output).await?,
            None => None,
        };
        let (sink, verifies, resumed_at, kept) = (None, false, None, None);
        let (sdp, format) = (None, String::new());
        Ok(Self { service, spec, track_format, output, part, sink, sdp, format, verifies, resumed_at, kept })
    }

    /// Adds a file that describes the stream to players.
    pub(crate) fn telling(self, sdp: Option<&'a Path>) -> Self {
        Self { sdp, ..self }
    }

    /// The data that is there already.
    pub(crate) fn resume(&self) -> Option<ResumePoint> {
        let part = self.part.as_ref().filter(|part| part.bytes() > 0)?;
        Some(ResumePoint { digest: part.object().digest, offset: part.bytes() })
    }

    /// Opens the output; again if another provider takes over from the beginning.
    pub(crate) async fn open(&mut self, accepted: &Accepted) -> Outcome {
        let Some(spec) = self.spec else { return Ok(()) };
        // No data has come from the provider that this one replaces.
        if let Some(earlier) = self.sink.take() {
            self.part = earlier.into_part().or(self.part.take());
        }
        let whole = accepted.sha256.as_deref().and_then(parse_digest).zip(accepted.bytes);
        let whole = whole.map(|(digest, length)| ObjectIdentity { digest, length });
        let sink = match (file(self.service, self.spec), whole) {
            (Some(path), Some(whole)) if whole.length > MIN_PART_BYTES && is_replaceable(path) => {
                self.verifies = true;
                self.go_on(path, whole, accepted.offset).await?
            }
            _ => {
                self.verifies = false;
                let sink = Sink::open(self.service, &accepted.format, spec, self.track_format).await;
                sink.map_err(|error| unwritten(&error))?
            }
        };
        self.sink = Some(sink);
        self.format.clone_from(&accepted.format);
        Ok(())
    }

    /// Opens the part of a large object, at the provider's offset.
    async fn go_on(&mut self, path: &Path, whole: ObjectIdentity, offset: Option<u64>) -> Outcome<Sink> {
        let part = self.part.take();
        let has = part.as_ref().map(|part| (part.object(), part.bytes())).filter(|(_, bytes)| *bytes > 0);
        let goes_on = offset.is_some() && has == offset.map(|offset| (whole, offset));
        self.resumed_at = None;
        if offset.is_some() && !goes_on {
            let message = format!("the provider resumed after data that {} lacks; request it again", path.display());
            return Err(Failure::new(Code::Damaged, message));
        }
        match has {
            Some((_, there)) if goes_on => {
                self.resumed_at = Some(there);
                self.output.say(format!("Going on after the {} of {}.part", bytes(there), path.display()));
            }
            Some(_) => {
                let why = "The partial file belongs to another object";
                self.output.say(format!("{why}: starting {} anew", path.display()));
            }
            None => {}
        }
        Sink::resume(path.to_owned(), part, whole, !goes_on).await.map_err(|error| unwritten(&error))
    }

    /// True if data may be written.
    pub(crate) fn is_open(&self) -> bool {
        self.sink.is_some()
    }

    pub(crate) async fn write(&mut self, data: &Bytes) -> Outcome<SinkState> {
        if let (Some(path), Some(sink)) = (self.sdp, &self.sink)
            && let Some(description) = sink.describe(&self.format, data)
        {
            self.sdp = None;
            let written = tokio::fs::write(path, description).await;
            written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
        }
        match &mut self.sink {
            Some(sink) => sink.write(data).await.map_err(|error| unwritten(&error)),
            None => Ok(SinkState::Open),
        }
    }

    /// Writes data that waits for more.
    pub(crate) async fn flush_pending(&mut self) -> Outcome {
        match &mut self.sink {
            Some(sink) => sink.flush_if_due().await.map_err(|error| unwritten(&error)),
            None => Ok(()),
        }
    }

    /// The file in which an incomplete transfer is kept.
    pub(crate) fn part(&self) -> Option<&Path> {
        match &self.kept.as_ref()?.finished {
            Finished::KeptPart { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Marks the data as the provider's object, as the daemon has found.
    pub(crate) fn mark_verified(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink.mark_verified();
        }
    }

    /// Ends the output of a complete transfer.
    pub(crate) async fn finish(&mut self) -> Outcome {
        match self.sink.take() {
            Some(sink) => self.keep(sink.skipped_lines(), sink.finish().await),
            None => Ok(()),
        }
    }

    /// Ends the output of an incomplete transfer, unless it has ended.
    pub(crate) async fn break_off(&mut self) -> Outcome {
        match self.sink.take() {
            Some(sink) => self.keep(sink.skipped_lines(), sink.break_off().await),
            None => Ok(()),
        }
    }

    fn keep(&mut self, left_out: u64, ended: Result<Finished, SinkError>) -> Outcome {
        let finished = ended.map_err(|error| unwritten(&error))?;
        let verified = self.verifies && matches!(finished, Finished::Written { .. });
        self.kept = Some(WrittenOutput { finished, left_out, verified });
        Ok(())
    }
}

/// The file that an object is to become.
fn file(service: Service, spec: Option<&SinkSpec>) -> Option<&Path> {
    match spec {
        Some(SinkSpec::File(path)) if !service.is_stream() => Some(path),
        _ => None,
    }
}

/// True if a file can take this name, and no device or folder has it.
fn is_replaceable(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |found| found.is_file())
}

async fn find(path: &Path, output: Output) -> Outcome<Option<PartialFile>> {
    let progress = Progress::start(output, format!("checking what is there of {}", path.display()));
    let found = found(path, |_| {}).await.map_err(|error| unwritten(&error))?;
    progress.end();
    Ok(found)
}

/// The part of a file, read through off the runtime.
async fn found(path: &Path, heard: impl FnMut(u64) + Send + 'static) -> Result<Option<PartialFile>, SinkError> {
    let path: PathBuf = path.to_owned();
    let found = tokio::task::spawn_blocking(move || PartialFile::find(&path, heard)).await;
    found.unwrap_or(Ok(None))
}

pub(crate) fn unwritten(error: &SinkError) -> Failure {
    match error {
        SinkError::Unsuitable { .. } => Failure::usage(error.to_string()),
        SinkError::Damaged { .. } | SinkError::Overlong { .. } => Failure::new(Code::Damaged, error.to_string()),
        _ => Failure::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use roost_terminal::OutputArgs;
    use roost_wire::object::{digest, digest_text};

    use super::*;

    const HALF: u64 = MIN_PART_BYTES;

    /// A folder with the first half of an object of twice [`HALF`] as `site.tif.part`.
    fn half() -> (tempfile::TempDir, SinkSpec, Bytes) {
        let folder = tempfile::tempdir().unwrap();
        let object = Bytes::from((0..2 * HALF).map(|n| (n % 251) as u8).collect::<Vec<_>>());
        let path = folder.path().join("site.tif");
        let mut part =
            PartialFile::create(&path, ObjectIdentity { digest: digest(&object), length: 2 * HALF }).unwrap();
        part.write(&object[..HALF as usize]).unwrap();
        (folder, SinkSpec::File(path), object)
    }

    fn accepted(object: &Bytes, offset: Option<u64>) -> Accepted {
        Accepted {
            provider_name: None,
            request: Some(1),
            provider: roost_wire::NodeId::from_bytes([7; 16]),
            cell: roost_wire::Cell::new(27, 92),
            place: None,
            transport: roost_wire::Scheme::Udp,
            relayed: false,
            reflected: false,
            format: "image/tiff".to_owned(),
            bytes: Some(object.len() as u64),
            sha256: Some(digest_text(&digest(object))),
            offset,
            duration_ms: None,
            bits_per_second: None,
        }
    }

    async fn begin(spec: &SinkSpec) -> OutputWriter<'_> {
        let keeping = OutputWriter::begin(
            Service::Image,
            Some(spec),
            TrackFormat::Raw,
            OutputArgs { quiet: true, no_color: true, ..OutputArgs::default() }.output(),
        )
        .await;
        keeping.map_err(|failure| failure.to_string()).unwrap()
    }

    #[tokio::test]
    async fn an_acceptance_alone_destroys_no_part() {
        let (folder, spec, object) = half();
        let other = Bytes::from(vec![1; 2 * HALF as usize]);
        let mut keeping = begin(&spec).await;
        keeping.open(&accepted(&other, None)).await.unwrap();
        keeping.break_off().await.unwrap();
        let mut keeping = begin(&spec).await;
        assert_eq!(keeping.resume().unwrap().offset, HALF);
        // The first provider ends before its data comes, and a provider that has the object takes over.
        keeping.open(&accepted(&other, None)).await.unwrap();
        keeping.open(&accepted(&object, Some(HALF))).await.unwrap();
        assert_eq!(keeping.resumed_at, Some(HALF));
        keeping.write(&object.slice(HALF as usize..)).await.unwrap();
        keeping.finish().await.unwrap();
        assert!(std::fs::read(folder.path().join("site.tif")).unwrap() == object);
        assert!(keeping.kept.unwrap().verified);
    }

    #[tokio::test]
    async fn resume_at_wrong_offset_is_rejected() {
        let (_folder, spec, object) = half();
        for offset in [HALF - 1, HALF + 1] {
            let mut keeping = begin(&spec).await;
            let failure = keeping.open(&accepted(&object, Some(offset))).await.unwrap_err();
            assert_eq!(failure.exit_code(), Code::Damaged as u8);
        }
    }

    #[tokio::test]
    async fn other_object_replaces_part() {
        let (folder, spec, _) = half();
        let other = Bytes::from(vec![1; 2 * HALF as usize]);
        let mut keeping = begin(&spec).await;
        keeping.open(&accepted(&other, None)).await.unwrap();
        keeping.write(&other).await.unwrap();
        keeping.finish().await.unwrap();
        assert!(std::fs::read(folder.path().join("site.tif")).unwrap() == other);
    }
}
