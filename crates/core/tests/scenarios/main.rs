//! Nodes and hubs together, in virtual time.
//!
//! `ROOST_SEEDS=1000` runs what varies for so many seeds, the slowest of it for
//! a hundredth of them. A seed that fails is replayed with `ROOST_SEED=17`, and
//! with `ROOST_WORLD_LOG=1` says what was delivered.

#[path = "../world/mod.rs"]
mod world;

mod caching;
mod calls;
mod capacity;
mod chaos;
mod declines;
mod direct;
mod documents;
mod endpoint_faults;
mod equal_providers;
mod failback;
mod fairness;
mod homes;
mod hostile_hubs;
mod hostile_providers;
mod joining;
mod losses;
mod lost_sight;
mod mass_joins;
mod members;
mod meshes;
mod multicast;
mod nat;
mod objects;
mod out_of_sight;
mod outages;
mod overflow;
mod own_services;
mod policies;
mod profiles;
mod providers;
mod pushes;
mod reflection;
mod returns;
mod rogues;
mod rooms;
mod satellites;
mod scene;
mod services;
mod standby;
mod suspend;
mod third_parties;
mod tiers;
mod transports;
mod two_parents;
mod uplinks;
mod versions;
mod watches;

use std::time::Duration;

use bytes::Bytes;
use roost_core::hub::*;
use roost_core::node::*;
use roost_wire::messages::*;
use roost_wire::random::SplitMix64;
use roost_wire::*;

use world::check::*;
use world::seeds::*;
use world::*;

const ANYWHERE: Area = Area::Anywhere;

fn finished(world: &mut World, host: HostId, ticket: Ticket) -> RequestSummary {
    match world.outcome(host, ticket) {
        NodeEvent::Finished { summary, .. } => summary,
        other => panic!("{other:?}"),
    }
}

fn failed(world: &mut World, host: HostId, ticket: Ticket) -> Reason {
    match world.outcome(host, ticket) {
        NodeEvent::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// A hub, a provider of everything at (27, 92), and a requester.
fn single_hub_world(seed: u64, role: Role) -> (World, HostId, HostId, HostId) {
    let mut world = World::new(seed);
    let hub = world.hub(role);
    let provider = world.node((27, 92), &Service::ALL, &[hub]);
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    (world, hub, provider, requester)
}

/// A hub, a near and a far provider of everything, and a requester.
fn two_provider_world(seed: u64) -> (World, HostId, [HostId; 2], HostId) {
    let mut world = World::new(seed);
    let hub = world.hub(Role::SuperNode);
    let near = world.node((1, 0), &Service::ALL, &[hub]);
    let far = world.node((9, 0), &Service::ALL, &[hub]);
    let requester = world.node((0, 0), &[], &[hub]);
    world.run_until_attached();
    (world, hub, [near, far], requester)
}

const NEAREST: Area = Area::Nearest(Cell::new(0, 0));
