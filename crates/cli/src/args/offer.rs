//! The flags of `roost offer`.

use clap::{ArgGroup, Args};
use roost_wire::{Form, Metadata, Offer, Service};

use super::merged;

#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("form").args(["stream", "object", "call"]))]
pub(crate) struct OfferArgs {
    /// A service of one's own such as acme/lidar, or an instance such as video#bow
    pub(crate) service: Service,
    /// The program's output is a stream, cut into datagrams
    #[arg(long)]
    stream: bool,
    /// The program's output is an object: all bytes until the program ends
    #[arg(long)]
    object: bool,
    /// The program's output is the answer to a call, whose body is on the program's standard input
    #[arg(long)]
    call: bool,
    /// Run one program for all requesters of the stream: from the first one until none is left
    #[arg(long, conflicts_with_all = ["object", "call"])]
    pub(crate) shared: bool,
    /// The rate of the stream; the program may give a fifth more [default: 1mbit, of a known service its own]
    #[arg(long, value_name = "RATE", value_parser = rate_kbps)]
    rate: Option<u32>,
    /// The greatest size of the object or answer [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    max: Option<u32>,
    /// Metadata that others see in a lookup and select with --where; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    meta: Vec<Metadata>,
    /// The bytes of one datagram of the stream
    #[arg(long, value_name = "BYTES", default_value_t = 1128,
        value_parser = clap::value_parser!(u16).range(1..=8192))]
    pub(crate) datagram: u16,
    /// Make a datagram of each line of the program's output
    #[arg(long, conflicts_with_all = ["datagram", "object", "call"])]
    pub(crate) lines: bool,
    /// The media type of the data, which requesters see
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    pub(crate) format: String,
    /// The program, run for each request unless it is shared; its standard output is the data
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
}

impl OfferArgs {
    pub(crate) fn offer(&self) -> Offer {
        let said = if self.stream {
            Form::Stream
        } else if self.object {
            Form::Object
        } else if self.call {
            Form::Call
        } else {
            self.service.form()
        };
        Offer {
            kbps: self.rate,
            max_bytes: self.max,
            metadata: merged(&self.meta),
            ..Offer::new(self.service.with_form(said))
        }
    }
}

/// Reads a number and its unit, of which `factor` tells how many it is.
fn scaled(text: &str, factor: impl FnOnce(&str) -> Option<u64>) -> Option<u32> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..digits].parse::<u64>().ok()?.checked_mul(factor(&text[digits..])?)?;
    u32::try_from(number).ok().filter(|number| *number > 0)
}

pub(super) fn rate_kbps(text: &str) -> Result<u32, String> {
    let kbps = scaled(text, |unit| match unit {
        "kbit" => Some(1),
        "mbit" => Some(1_000),
        "gbit" => Some(1_000_000),
        _ => None,
    });
    kbps.ok_or_else(|| format!("{text:?} is no rate: expected such as 500kbit or 2mbit"))
}

fn size_bytes(text: &str) -> Result<u32, String> {
    let bytes = scaled(text, |unit| match unit {
        "" | "b" => Some(1),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        _ => None,
    });
    bytes.ok_or_else(|| format!("{text:?} is no size: expected such as 100kB or 1MB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_have_units() {
        assert_eq!((rate_kbps("2mbit"), rate_kbps("40kbit")), (Ok(2_000), Ok(40)));
        assert_eq!((size_bytes("1MB"), size_bytes("2kiB"), size_bytes("7")), (Ok(1_000_000), Ok(2_048), Ok(7)));
        for wrong in ["", "2", "mbit", "0kbit", "99999gbit", "-1kbit"] {
            assert!(rate_kbps(wrong).is_err(), "{wrong}");
        }
        assert!(size_bytes("0").is_err() && size_bytes("5GB").is_err());
    }
}
