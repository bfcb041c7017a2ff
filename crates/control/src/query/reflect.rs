//! `always`, `if-busy`, `never`: whether super nodes reflect a stream.

use std::fmt;
use std::str::FromStr;

use roost_proto::node::ReflectionPolicy;

/// A choice of [`ReflectionPolicy`] as it stands in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReflectText(pub(super) Option<ReflectionPolicy>);

impl fmt::Display for ReflectText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(ReflectionPolicy::Always) => "always",
            Some(ReflectionPolicy::IfBusy) => "if-busy",
            None => "never",
        })
    }
}

impl FromStr for ReflectText {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Some(ReflectionPolicy::Always), Some(ReflectionPolicy::IfBusy), None].map(Self);
        all.into_iter().find(|one| one.to_string() == text).ok_or("expected always, if-busy or never")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for choice in [Some(ReflectionPolicy::Always), Some(ReflectionPolicy::IfBusy), None].map(ReflectText) {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert!("sometimes".parse::<ReflectText>().is_err());
    }
}
