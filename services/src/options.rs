//! `BODY?key=value&key=value` in the text of a spec.

use roost_wire::{FlowKind, Service};

/// The text before the options, and the options that are not yet taken.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    pub(crate) body: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Splits at the last `?`, if there is a `=` behind it: a file's name may
    /// have a `?` of its own.
    pub(crate) fn split(text: &'a str) -> Self {
        let Some((body, options)) = text.rsplit_once('?').filter(|(_, options)| options.contains('=')) else {
            return Self { body: text, pairs: Vec::new() };
        };
        let pairs = options.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        Self { body, pairs }
    }

    /// Removes an option and returns its value; [`Self::finish`] refuses those that remain.
    pub(crate) fn take_value(&mut self, key: &str) -> Option<&'a str> {
        let index = self.pairs.iter().position(|(name, _)| *name == key)?;
        Some(self.pairs.remove(index).1)
    }

    pub(crate) fn finish(self) -> Result<&'a str, String> {
        match self.pairs.first() {
            Some((name, _)) => Err(format!("its option {name:?} is unknown or comes twice")),
            None => Ok(self.body),
        }
    }

    /// Takes `rate=2Mbit/s`, the payload rate to announce, bits per second. The default is the service's rate.
    pub(crate) fn rate(&mut self, service: Service) -> Result<u32, String> {
        match (self.take_value("rate"), service.flow_kind()) {
            (Some(text), _) => rate(text)
                .ok_or_else(|| format!("its rate {text:?} is not like 700kbit/s or 2Mbit/s, up to 4000Mbit/s")),
            (None, FlowKind::Stream { bits_per_second, .. }) => Ok(bits_per_second),
            (None, FlowKind::Object { .. }) => Ok(0),
        }
    }

    /// Takes `interface=ADDRESS`, the network on which to join a multicast group.
    pub(crate) fn interface(&mut self) -> Result<Option<std::net::Ipv4Addr>, String> {
        let Some(text) = self.take_value("interface") else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("its interface {text:?} is not an IPv4 address"))
    }
}

fn rate(text: &str) -> Option<u32> {
    let kilobits = text.strip_suffix("kbit/s").map(|number| (number, 1e3));
    let (number, unit) = kilobits.or_else(|| text.strip_suffix("Mbit/s").map(|number| (number, 1e6)))?;
    let bits = number.trim().parse::<f64>().ok()? * unit;
    // NaN fails the comparison as well.
    (1.0..=4e9).contains(&bits).then_some(bits as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_rejected() {
        let mut options = Options::split("file:a?b.ts?rate=2.5Mbit/s&loop=no");
        assert_eq!(options.rate(Service::Video), Ok(2_500_000));
        assert_eq!(options.take_value("loop"), Some("no"));
        assert_eq!(options.finish(), Ok("file:a?b.ts"));
        assert_eq!(Options::split("what?").finish(), Ok("what?"));
        assert!(Options::split("a?b=c").finish().unwrap_err().contains("\"b\""));
        assert_eq!(Options::split("a").rate(Service::Video), Ok(700_000));
        assert_eq!(Options::split("a?rate=64kbit/s").rate(Service::Track), Ok(64_000));
        for bad in ["0kbit/s", "900000", "-1Mbit/s", "NaNMbit/s", "1e9Mbit/s", "Mbit/s", ""] {
            assert!(Options::split(&format!("a?rate={bad}")).rate(Service::Video).is_err(), "{bad}");
        }
        assert!(Options::split("a?interface=eth0").interface().is_err());
    }
}
