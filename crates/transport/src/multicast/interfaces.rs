//! The interfaces on which multicast is sent and received.

use std::fs;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
}

impl Interface {
    pub(super) fn is_loopback(&self) -> bool {
        self.name == "lo"
    }
}

/// The interfaces that are up and have an address of IPv4, or of IPv6.
pub(super) fn with_address(v6: bool) -> Vec<Interface> {
    // A protocol that the system does not have has no table either.
    let table = |name| fs::read_to_string(name).unwrap_or_default();
    if v6 {
        return parse_v6(&table("/proc/net/if_inet6"));
    }
    let routes = table("/proc/net/route");
    let has_route = |one: &Interface| routes.lines().any(|line| line.split_whitespace().next() == Some(&one.name));
    // The loopback's routes are not in the main table, so it needs none.
    parse_v4(&table("/proc/net/igmp")).into_iter().filter(|one| one.is_loopback() || has_route(one)).collect()
}

/// Parses `/proc/net/igmp`: a line for each interface, and indented ones for its groups.
fn parse_v4(text: &str) -> Vec<Interface> {
    let lines = text.lines().skip(1).filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let interfaces = lines.filter_map(|line| {
        let (index, rest) = line.split_once(char::is_whitespace)?;
        let name = rest.split_whitespace().next()?.trim_end_matches(':');
        Some(Interface { name: name.to_owned(), index: index.parse().ok()? })
    });
    interfaces.collect()
}

/// Parses `/proc/net/if_inet6`: a line for each address. Multicast needs a link-local one.
fn parse_v6(text: &str) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, index, _, _, _, name] = fields[..] else { continue };
        let is_in_subnet = address.starts_with("fe80") || name == "lo";
        if let Ok(index) = u32::from_str_radix(index, 16)
            && is_in_subnet
            && interfaces.iter().all(|other| other.index != index)
        {
            interfaces.push(Interface { name: name.to_owned(), index });
        }
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_tables_are_read() {
        let igmp = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
            1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
            4\teth0      :     2      V3\n\t\t\t\tFB0000E0     1 0:00000000\t\t0\n";
        let named = |list: Vec<Interface>| list.into_iter().map(|one| (one.name, one.index)).collect::<Vec<_>>();
        assert_eq!(named(parse_v4(igmp)), [("lo".to_owned(), 1), ("eth0".to_owned(), 4)]);
        let inet6 = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
            fe8000000000000000fc00fffe000001 0a 40 20 80     eth1\n\
            00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(named(parse_v6(inet6)), [("eth1".to_owned(), 10), ("lo".to_owned(), 1)]);
    }
}
