//! Video that another program sends to a local port.

use std::net::SocketAddr;

use bytes::Bytes;

use super::rtcp::{Control, RtpSender};
use super::{Packing, rtp, ts};
use crate::SourceError;
use crate::net::{Datagrams, Decode, Port};
use crate::shared_reader::{Outlet, SourceReader};

/// After this many RTP packets of another type, and none of the right one, the source does not match its spec.
const MAX_STRANGERS: u32 = 20;

pub(super) async fn start(port: &Port, packing: Packing) -> Result<Video, SourceError> {
    let socket = port.listen().await?;
    let (address, stream) = (port.address.clone(), RtpSender::default());
    let control = match packing {
        Packing::MpegTs => None,
        Packing::RtpMpegTs | Packing::RtpH264 => Control::start(port, stream.clone(), packing).await,
    };
    let decoder = Decoder { packing, address: address.clone(), strangers: Some(0), stream };
    Ok(Video { datagrams: Datagrams { socket, address, decoder }, control })
}

/// The socket of a video source and, for RTP, the RTCP port beside it.
pub(super) struct Video {
    datagrams: Datagrams<Decoder>,
    control: Option<Control>,
}

impl SourceReader for Video {
    async fn run(self, outlet: Outlet) -> SourceError {
        let Some(control) = self.control else { return self.datagrams.run(outlet).await };
        tokio::select! {
            error = self.datagrams.run(outlet.clone()) => error,
            never = control.run(outlet) => match never {},
        }
    }
}

pub(super) struct Decoder {
    packing: Packing,
    address: String,
    /// Counts RTP packets of another type; `None` once the right type was seen.
    strangers: Option<u32>,
    stream: RtpSender,
}

impl Decode for Decoder {
    fn decode(&mut self, from: SocketAddr, datagram: &[u8], outlet: &Outlet) -> Result<(), SourceError> {
        let payload = match self.packing {
            Packing::MpegTs => Some(datagram).filter(|datagram| ts::is_datagram(datagram)),
            Packing::RtpMpegTs => return self.strip(from, datagram, outlet),
            Packing::RtpH264 => rtp::parse(datagram).map(|packet| {
                self.stream.record_sender(from, &packet);
                datagram
            }),
        };
        match payload {
            Some(payload) => outlet.put(Bytes::copy_from_slice(payload)),
            None => outlet.malformed(),
        }
        Ok(())
    }
}

impl Decoder {
    fn strip(&mut self, from: SocketAddr, datagram: &[u8], outlet: &Outlet) -> Result<(), SourceError> {
        match rtp::parse(datagram) {
            Some(packet) if packet.payload_type == rtp::MP2T && ts::is_datagram(packet.payload) => {
                self.strangers = None;
                self.stream.record_sender(from, &packet);
                outlet.put(Bytes::copy_from_slice(packet.payload));
                return Ok(());
            }
            Some(packet) if packet.payload_type != rtp::MP2T => {
                if let Some(count) = &mut self.strangers {
                    *count += 1;
                    if *count >= MAX_STRANGERS {
                        return Err(self.stranger(packet.payload_type));
                    }
                }
            }
            Some(_) | None => {}
        }
        outlet.malformed();
        Ok(())
    }

    fn stranger(&self, payload_type: u8) -> SourceError {
        SourceError::Malformed {
            from: self.address.clone(),
            expected: "MPEG-TS over RTP",
            reason: format!("its payload type is {payload_type}, not 33; add ?encoding=h264 if it is H.264"),
        }
    }
}
