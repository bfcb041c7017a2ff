//! Addresses of interfaces: those that a file gives, and free ones for the rest.
//!
//! A net without explicit addresses gets the first free `/24` from 10.1.1.0 up (a shorter prefix if it has too
//! many members), its members `.2`, `.3`… in their order, as Emulab does. Explicit addresses fix their net's
//! subnet, and the other members take free addresses in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use super::model::{Net, Topology};

/// The range of automatic subnets: 10.1.1.0 to 10.255.255.255.
const POOL: std::ops::RangeInclusive<u32> = 0x0a01_0100..=0x0aff_ffff;
/// The host part of a net's first member; `.1` is left for a gateway.
const FIRST_HOST: u32 = 2;

/// The reason why some interface gets no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The subnet of a net's explicit address has no room for the other members.
    #[error("`{net}` has more members than {subnet}/{prefix} has addresses: give it a shorter prefix")]
    Full { net: String, subnet: Ipv4Addr, prefix: u8 },
    #[error("no subnet is left for `{net}`: those from 10.1.1.0 to 10.255.255.255 are taken")]
    Exhausted { net: String },
}

impl AddressError {
    pub fn net(&self) -> &str {
        match self {
            Self::Full { net, .. } | Self::Exhausted { net } => net,
        }
    }
}

/// Returns the topology with an address for every interface.
///
/// The choice depends on the topology alone, so that it repeats. Addresses are unique, except where the file
/// itself gives one twice.
///
/// # Errors
/// Fails when a subnet or the pool of subnets is too small.
pub fn assign(topology: &Topology) -> Result<Topology, AddressError> {
    let mut topology = topology.clone();
    let mut taken = UsedAddresses::from_nets(&topology.nets);
    for net in &mut topology.nets {
        let explicit = net.members.iter().find_map(|member| Some((member.address?, member.prefix)));
        match explicit {
            Some((address, prefix)) => fill(net, address, prefix, &mut taken)?,
            None => place(net, &mut taken)?,
        }
    }
    Ok(topology)
}

pub fn network(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() & mask(prefix))
}

/// The last address of the subnet, its broadcast address.
pub fn broadcast(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() | !mask(prefix))
}

/// A subnet, by its first address or another one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet {
    pub address: Ipv4Addr,
    pub prefix: u8,
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Subnet {
    pub fn contains(self, address: Ipv4Addr) -> bool {
        network(self.address, self.prefix) == network(address, self.prefix)
    }

    /// True if two subnets share an address.
    pub fn overlaps(self, other: Self) -> bool {
        if self.prefix < other.prefix { self.contains(other.address) } else { other.contains(self.address) }
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0)
}

/// Explicit addresses, and subnets by their first address.
struct UsedAddresses {
    addresses: BTreeSet<u32>,
    subnets: BTreeMap<u32, u32>,
    /// The position at which to search for the next free subnet, by prefix.
    next: BTreeMap<u8, u32>,
}

impl UsedAddresses {
    fn from_nets(nets: &[Net]) -> Self {
        let mut taken = Self { addresses: BTreeSet::new(), subnets: BTreeMap::new(), next: BTreeMap::new() };
        for member in nets.iter().flat_map(|net| &net.members) {
            if let Some(address) = member.address {
                taken.addresses.insert(address.to_bits());
                taken.reserve(network(address, member.prefix).to_bits(), broadcast(address, member.prefix).to_bits());
            }
        }
        taken
    }

    /// Marks a subnet as in use. Two subnets are disjoint or one contains the other, so keeping the larger one
    /// keeps the list free of overlaps.
    fn reserve(&mut self, first: u32, last: u32) {
        if self.blocked(first, last).is_some_and(|(begin, end)| begin <= first && last <= end) {
            return;
        }
        let inside: Vec<u32> = self.subnets.range(first..=last).map(|(begin, _)| *begin).collect();
        for begin in inside {
            self.subnets.remove(&begin);
        }
        self.subnets.insert(first, last);
    }

    /// Finds a subnet in use that shares an address with this one.
    fn blocked(&self, first: u32, last: u32) -> Option<(u32, u32)> {
        let (begin, end) = self.subnets.range(..=last).next_back()?;
        (*end >= first).then_some((*begin, *end))
    }

    /// Takes the first free subnet with this prefix.
    fn subnet(&mut self, prefix: u8) -> Option<u32> {
        let size = !mask(prefix) + 1;
        // Subnets begin where a /24 does, so that their third numbers differ.
        let step = size.max(256);
        let mut first = self.next.get(&prefix).copied().unwrap_or_else(|| POOL.start().next_multiple_of(step));
        while let Some((_, end)) = self.blocked(first, first + (size - 1)) {
            first = (end + 1).next_multiple_of(step);
        }
        if !POOL.contains(&(first + (size - 1))) {
            return None;
        }
        self.reserve(first, first + (size - 1));
        self.next.insert(prefix, first + step);
        Some(first)
    }
}

/// Gives the members without an address free ones in the subnet of `address`.
fn fill(net: &mut Net, address: Ipv4Addr, prefix: u8, taken: &mut UsedAddresses) -> Result<(), AddressError> {
    let (subnet, last) = (network(address, prefix), broadcast(address, prefix).to_bits());
    let mut next = subnet.to_bits() + FIRST_HOST;
    for member in net.members.iter_mut().filter(|member| member.address.is_none()) {
        while taken.addresses.contains(&next) {
            next += 1;
        }
        if next >= last {
            return Err(AddressError::Full { net: net.name.clone(), subnet, prefix });
        }
        taken.addresses.insert(next);
        (member.address, member.prefix) = (Some(Ipv4Addr::from_bits(next)), prefix);
    }
    Ok(())
}

/// Gives all members addresses of a free subnet that is large enough.
fn place(net: &mut Net, taken: &mut UsedAddresses) -> Result<(), AddressError> {
    let wanted = net.members.iter().map(|member| member.prefix).min().unwrap_or(24);
    // The network's own address, the gateway's and the broadcast address are reserved.
    let room = u32::try_from(net.members.len()).unwrap_or(u32::MAX).saturating_add(FIRST_HOST + 1);
    let fitting = 32_u8.saturating_sub(room.next_power_of_two().trailing_zeros() as u8);
    let prefix = wanted.min(fitting);
    let first = taken.subnet(prefix).ok_or_else(|| AddressError::Exhausted { net: net.name.clone() })?;
    for (next, member) in (first + FIRST_HOST..).zip(&mut net.members) {
        (member.address, member.prefix) = (Some(Ipv4Addr::from_bits(next)), prefix);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{self, address};
    use super::*;

    fn given(topology: &Topology) -> Vec<Vec<String>> {
        let text = |net: &Net| net.members.iter().map(|m| format!("{}/{}", m.address.unwrap(), m.prefix)).collect();
        assign(topology).unwrap().nets.iter().map(text).collect()
    }

    #[test]
    fn nets_count_from_one_members_two() {
        let topology = testing::nets(4, &[&[0, 1], &[3, 2, 1]]);
        assert_eq!(
            given(&topology),
            [vec!["10.1.1.2/24", "10.1.1.3/24"], vec!["10.1.2.2/24", "10.1.2.3/24", "10.1.2.4/24"]]
        );
    }

    #[test]
    fn explicit_address_reserves_its_subnet() {
        let mut topology = testing::nets(4, &[&[0, 1], &[2, 3], &[0, 3]]);
        topology.nets[1].members[1].address = Some(address("10.1.1.2"));
        topology.nets[2].members[0].address = Some(address("192.168.7.9"));
        topology.nets[2].members[0].prefix = 30;
        let seen = given(&topology);
        assert_eq!(seen[0], ["10.1.2.2/24", "10.1.2.3/24"]);
        assert_eq!(seen[1], ["10.1.1.3/24", "10.1.1.2/24"]);
        assert_eq!(seen[2], ["192.168.7.9/30", "192.168.7.10/30"]);
    }

    #[test]
    fn large_lan_gets_shorter_prefix() {
        let all: Vec<usize> = (0..300).collect();
        let seen = given(&testing::nets(300, &[&[0, 1], &all, &[1, 2]]));
        assert_eq!(seen[0][0], "10.1.1.2/24");
        assert_eq!((seen[1][0].as_str(), seen[1][299].as_str()), ("10.1.2.2/23", "10.1.3.45/23"));
        assert_eq!(seen[2][0], "10.1.4.2/24");
    }

    #[test]
    fn a_subnet_without_room_is_refused() {
        let mut topology = testing::nets(4, &[&[0, 1, 2, 3]]);
        topology.nets[0].members[0].address = Some(address("10.9.0.1"));
        topology.nets[0].members[0].prefix = 30;
        let error = assign(&topology).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`net0` has more members than 10.9.0.0/30 has addresses: give it a shorter prefix"
        );
    }

    #[test]
    fn overlap_is_by_the_shorter_prefix() {
        let subnet = |first, prefix| Subnet { address: address(first), prefix };
        assert!(subnet("10.0.1.0", 24).overlaps(subnet("10.0.0.0", 16)));
        assert!(!subnet("10.0.1.0", 24).overlaps(subnet("10.0.2.0", 24)));
        assert_eq!(
            (network(address("10.9.8.7"), 0), broadcast(address("10.9.8.7"), 22)),
            (address("0.0.0.0"), address("10.9.11.255"))
        );
    }

    proptest! {
        #[test]
        fn every_interface_gets_unique_address(topology in testing::any_topology()) {
            let assigned = assign(&topology).unwrap();
            let mut seen = BTreeSet::new();
            let mut subnets: Vec<Subnet> = Vec::new();
            for (net, before) in assigned.nets.iter().zip(&topology.nets) {
                let (first, prefix) = (net.members[0].address.unwrap(), net.members[0].prefix);
                let own = Subnet { address: network(first, prefix), prefix };
                prop_assert!(!subnets.iter().any(|other| other.overlaps(own)));
                subnets.push(own);
                for (member, given) in net.members.iter().zip(&before.members) {
                    let own = member.address.unwrap();
                    prop_assert!(seen.insert(own), "{own} twice");
                    prop_assert!(given.address.is_none_or(|address| address == own));
                    prop_assert_eq!(network(own, prefix), network(first, prefix));
                }
            }
        }
    }
}
