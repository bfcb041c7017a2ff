//! Sensor: a reading, as a SenML pack in JSON (RFC 8428).
//!
//! | source | what it does |
//! |---|---|
//! | `file:READING.json` | the file as it is at the time of the request |
//! | `command:COMMAND` | what the command (run by `sh -c`) writes to its standard output |
//!
//! The pack is checked ([`senml::check`]) and passed on unchanged.

pub mod senml;

use std::path::PathBuf;

use bytes::Bytes;

use crate::{OpenedSource, SourceError, command, files, format};

pub(crate) const SYNTAX: &str = "synthetic, file:READING.json or command:COMMAND";

const MAX_PACK_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) enum SensorSource {
    File(PathBuf),
    Command(String),
}

impl SensorSource {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':').map(|(kind, rest)| (kind, rest.trim())) {
            Some(("file" | "command", "")) => Err("it names nothing".to_owned()),
            Some(("file", path)) => Ok(Self::File(PathBuf::from(path))),
            Some(("command", command)) => Ok(Self::Command(command.to_owned())),
            _ => Err("it is unknown".to_owned()),
        }
    }

    pub(crate) async fn open(&self) -> Result<OpenedSource, SourceError> {
        match self {
            Self::File(path) => {
                files::blocking(path, |path| pack(files::read(path, MAX_PACK_BYTES)?, path.display().to_string())).await
            }
            Self::Command(command) => {
                pack(command::run(command, MAX_PACK_BYTES).await?, format!("the command {command:?}"))
            }
        }
    }

    pub(crate) async fn check(&self) -> Result<(), SourceError> {
        match self {
            Self::File(_) => self.open().await.map(drop),
            Self::Command(_) => Ok(()),
        }
    }
}

fn pack(bytes: Vec<u8>, from: String) -> Result<OpenedSource, SourceError> {
    match senml::check(&bytes) {
        Ok(_) => Ok(OpenedSource::Object { bytes: Bytes::from(bytes), format: format::SENML_JSON.to_owned() }),
        Err(reason) => Err(SourceError::Malformed { from, expected: "SenML pack", reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceSpec;
    use crate::testing::any_request;
    use roost_wire::Service;

    fn parse(text: &str) -> Result<SourceSpec, String> {
        SourceSpec::parse(Service::Sensor, text).map_err(|error| error.to_string())
    }

    #[test]
    fn bad_specs_say_what_is_accepted() {
        for text in ["", "file:", "command:  ", "dir:x", "x.json"] {
            assert!(parse(text).unwrap_err().contains("expected synthetic, file:READING.json or command:COMMAND"));
        }
    }

    #[tokio::test]
    async fn only_senml_packs_pass() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reading.json");
        let pack = " [ {\"n\":\"urn:dev:x\", \"v\": 1.50} ]\n";
        std::fs::write(&path, pack).unwrap();
        for text in [format!("file:{}", path.display()), format!("command:cat {}", path.display())] {
            let spec = parse(&text).unwrap();
            spec.check().await.unwrap();
            let OpenedSource::Object { bytes, format } = spec.open(&any_request(None)).await.unwrap() else { panic!() };
            assert_eq!((&bytes[..], format.as_str()), (pack.as_bytes(), "application/senml+json"));
        }
        std::fs::write(&path, "[{\"n\":\"a\"}]").unwrap();
        let error = parse(&format!("file:{}", path.display())).unwrap().check().await.unwrap_err().to_string();
        assert!(error.ends_with("gave no SenML pack: record 1: it has no value"), "{error}");
    }
}
