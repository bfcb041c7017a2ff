//! The flags of `roost tak`, the gateway between the overlay and TAK.

use std::path::PathBuf;

use clap::Args;
use roost_tak::{Endpoint, ListenAddress, TypeRule};
use roost_wire::Service;

use super::AreaArgs;
use super::offer::rate_kbps;

#[derive(Clone, Debug, Args)]
pub(crate) struct TakArgs {
    /// A TAK server or a multicast group: tcp://HOST:8087, tls://HOST:8089 or udp://239.2.3.1:6969?interface=ADDRESS
    #[arg(value_name = "ENDPOINT", required_unless_present = "listen")]
    pub(crate) endpoints: Vec<Endpoint>,
    /// Listen for clients that connect as to a server, such as tcp://127.0.0.1:8087; without encryption
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<ListenAddress>,
    /// The certificates of the authorities that sign servers, PEM; for tls://
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate that the server is shown, PEM
    #[arg(long, value_name = "FILE", requires_all = ["key", "ca"])]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate, PEM without a passphrase
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// The most that is sent on each connection; newer events replace older ones that wait
    #[arg(long, value_name = "RATE", default_value = "64kbit", value_parser = rate_kbps)]
    pub(crate) rate: u32,
    /// The type in TAK of nodes and targets whose name matches, such as 'uav*=a-f-A-M-F-Q'; may be given several times
    #[arg(long = "type", value_name = "PATTERN=TYPE")]
    pub(crate) types: Vec<TypeRule>,
    /// An RTSP server of this overlay: nodes with video are shown as cameras of URL/video/from/NAME
    #[arg(long, value_name = "URL", value_parser = video_url)]
    pub(crate) video_url: Option<String>,
    /// Subscribe to the tracks of these nodes, and show their targets
    #[arg(long)]
    pub(crate) tracks: bool,
    /// Show only nodes that offer one of these services [default: video, track, image, sensor]
    #[arg(long = "service", value_name = "SERVICE")]
    pub(crate) services: Vec<Service>,
    /// The track by which other nodes get the contacts of TAK
    #[arg(long, value_name = "SERVICE", default_value = "track#tak", value_parser = track)]
    pub(crate) offer: Service,
    #[command(flatten)]
    pub(crate) area: AreaArgs,
}

fn track(text: &str) -> Result<Service, String> {
    let service: Service = text.parse().map_err(|error: roost_wire::service::ParseServiceError| error.to_string())?;
    if service.is_stream() {
        Ok(service)
    } else {
        Err(format!("{text:?} is no stream: expected such as track#tak or acme/contacts:stream"))
    }
}

fn video_url(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no address of an RTSP server: expected such as rtsp://10.0.0.3:8554");
    let server = text.trim_end_matches('/');
    let address = server.strip_prefix("rtsp://").or_else(|| server.strip_prefix("rtsps://")).ok_or_else(wrong)?;
    roost_services::check_address(address).map_err(|_| wrong())?;
    Ok(server.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn video_url_is_a_server() {
        assert_eq!(video_url("rtsp://10.0.0.3:8554/"), Ok("rtsp://10.0.0.3:8554".to_owned()));
        for wrong in ["", "http://a:1", "rtsp://a", "rtsp://a:1/x", "rtsp://a b:1"] {
            assert!(video_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn contacts_are_a_stream() {
        assert!(track("track#tak").is_ok() && track("acme/contacts:stream").is_ok());
        assert!(track("image").is_err() && track("acme/contacts").is_err() && track("x").is_err());
    }
}
