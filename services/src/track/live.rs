//! Positions from the network.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gpsd::{Lines, Report, WATCH};
use super::nmea::{Sentence, Sentences};
use super::{cot, gpsd};
use crate::SourceError;
use crate::error::plain;
use crate::net::{Datagrams, Decode, Port};
use crate::shared_reader::{Outlet, SourceReader};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The idle time before TCP keepalive probes, which detect a host that vanished.
const QUIET: Duration = Duration::from_secs(10);

/// Connects to a gpsd and asks for its reports.
pub(super) async fn gpsd(address: &str) -> Result<Gpsd, SourceError> {
    let unreachable = |reason: String| SourceError::Unreachable { address: format!("gpsd://{address}"), reason };
    let connecting = async {
        let mut stream = TcpStream::connect(address).await?;
        SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(QUIET).with_interval(QUIET))?;
        stream.write_all(WATCH).await.map(|()| stream)
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(stream)) => Ok(Gpsd { address: address.to_owned(), stream }),
        Ok(Err(error)) => Err(unreachable(plain(&error))),
        Err(_) => Err(unreachable(format!("it did not answer within {} s", CONNECT_TIMEOUT.as_secs()))),
    }
}

pub(super) struct Gpsd {
    address: String,
    stream: TcpStream,
}

impl SourceReader for Gpsd {
    async fn run(mut self, outlet: Outlet) -> SourceError {
        let (mut lines, mut buffer) = (Lines::default(), vec![0; 4096]);
        let reason = loop {
            match self.stream.read(&mut buffer).await {
                Ok(0) => break "it closed the connection".to_owned(),
                Ok(length) => lines.push(&buffer[..length], |line| match line.map(gpsd::parse) {
                    Some(Some(Report::Position(record))) => outlet.put(record.line(SystemTime::now())),
                    Some(Some(Report::Other)) => {}
                    Some(None) | None => outlet.malformed(),
                }),
                Err(error) => break plain(&error),
            }
        };
        SourceError::Unreachable { address: format!("gpsd://{}", self.address), reason }
    }
}

pub(super) async fn cot(port: &Port) -> Result<Datagrams<CotDecoder>, SourceError> {
    Ok(Datagrams { socket: port.listen().await?, address: port.address.clone(), decoder: CotDecoder })
}

pub(super) struct CotDecoder;

impl Decode for CotDecoder {
    fn decode(&mut self, _: SocketAddr, datagram: &[u8], outlet: &Outlet) -> Result<(), SourceError> {
        match std::str::from_utf8(datagram).ok().and_then(|xml| cot::parse(xml).ok()) {
            Some(record) => outlet.put(record.line(SystemTime::now())),
            None => outlet.malformed(),
        }
        Ok(())
    }
}

pub(super) async fn nmea(port: &Port, id: &str) -> Result<Datagrams<NmeaDecoder>, SourceError> {
    let decoder = NmeaDecoder(Sentences::new(id));
    Ok(Datagrams { socket: port.listen().await?, address: port.address.clone(), decoder })
}

pub(super) struct NmeaDecoder(Sentences);

impl Decode for NmeaDecoder {
    fn decode(&mut self, _: SocketAddr, datagram: &[u8], outlet: &Outlet) -> Result<(), SourceError> {
        let text = String::from_utf8_lossy(datagram);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let now = SystemTime::now();
            match self.0.push(line, now) {
                Sentence::Position(record) => outlet.put(record.line(now)),
                Sentence::Other => {}
                Sentence::Malformed => outlet.malformed(),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silent_gpsd_is_detected() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gpsd = gpsd(&listener.local_addr().unwrap().to_string()).await.unwrap();
        assert!(SockRef::from(&gpsd.stream).keepalive().unwrap());
    }
}
