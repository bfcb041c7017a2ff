//! `BODY?key=value&key=value` in the text of a spec.

/// The text before the options, and those not yet taken.
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

    /// The value of an option, which then counts as understood.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'a str> {
        let index = self.pairs.iter().position(|(name, _)| *name == key)?;
        Some(self.pairs.remove(index).1)
    }

    /// Refuses options that nobody took.
    pub(crate) fn finish(self) -> Result<&'a str, String> {
        match self.pairs.first() {
            Some((name, _)) => Err(format!("its option {name:?} is unknown or comes twice")),
            None => Ok(self.body),
        }
    }

    /// `rate=BITS`, the payload rate to announce.
    pub(crate) fn rate(&mut self, nominal: u32) -> Result<u32, String> {
        let Some(text) = self.take("rate") else { return Ok(nominal) };
        let rate = text.parse().ok().filter(|rate| *rate > 0);
        rate.ok_or_else(|| format!("its rate {text:?} is not a number of bits per second"))
    }

    /// `interface=ADDRESS`, where to join a multicast group.
    pub(crate) fn interface(&mut self) -> Result<Option<std::net::Ipv4Addr>, String> {
        let Some(text) = self.take("interface") else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("its interface {text:?} is not an IPv4 address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_and_the_rest_refused() {
        let mut options = Options::split("file:a?b.ts?rate=5&loop=no");
        assert_eq!(options.rate(1), Ok(5));
        assert_eq!(options.take("loop"), Some("no"));
        assert_eq!(options.finish(), Ok("file:a?b.ts"));
        assert_eq!(Options::split("what?").finish(), Ok("what?"));
        assert!(Options::split("a?b=c").finish().unwrap_err().contains("\"b\""));
        assert!(Options::split("a?rate=0").rate(1).is_err());
        assert!(Options::split("a?interface=eth0").interface().is_err());
    }
}
