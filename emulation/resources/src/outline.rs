//! A run in numbers, without its names and times.

/// The parts of a run that cost something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunOutline {
    pub nodes: usize,
    pub hubs: usize,
    pub network: NetworkOutline,
    pub traffic: TrafficOutline,
    /// True if programs run whose needs nobody knows.
    pub has_programs: bool,
    /// Machines beside this one with parts of the same size.
    pub other_machines: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkOutline {
    pub hosts: usize,
    pub interfaces: usize,
    /// Open files that the lab itself needs for them.
    pub open_files: u64,
}

/// The traffic of all nodes together, each second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrafficOutline {
    pub requests: f64,
    /// Packets of streams that go from a provider to a requester; those of objects count as little as they cost.
    pub delivered: f64,
    /// Packets of data that hubs pass on.
    pub relayed: f64,
    /// Packets of data that links and LANs carry.
    pub carried: f64,
}

impl TrafficOutline {
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.delivered += other.delivered;
        self.relayed += other.relayed;
        self.carried += other.carried;
    }

    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            requests: self.requests * factor,
            delivered: self.delivered * factor,
            relayed: self.relayed * factor,
            carried: self.carried * factor,
        }
    }
}

impl RunOutline {
    pub const fn daemons(&self) -> usize {
        self.nodes + self.hubs
    }

    /// Changes the number of nodes: the network and the traffic grow with it, and hubs stay.
    #[must_use]
    pub fn with_nodes(&self, nodes: usize) -> Self {
        if self.nodes == 0 {
            return *self;
        }
        let factor = nodes as f64 / self.nodes as f64;
        let grown = |count: usize| (count as f64 * factor).ceil() as usize;
        let network = NetworkOutline {
            hosts: grown(self.network.hosts),
            interfaces: grown(self.network.interfaces),
            open_files: grown(self.network.open_files as usize) as u64,
        };
        Self { nodes, network, traffic: self.traffic.times(factor), ..*self }
    }

    /// The part of one of several machines that share a run evenly.
    #[must_use]
    pub fn shared_by(&self, machines: usize) -> Self {
        if machines <= 1 {
            return *self;
        }
        let part = |count: usize| count.div_ceil(machines);
        let network = NetworkOutline {
            hosts: part(self.network.hosts),
            interfaces: part(self.network.interfaces),
            open_files: part(self.network.open_files as usize) as u64,
        };
        let traffic = self.traffic.times(1.0 / machines as f64);
        Self { nodes: part(self.nodes), hubs: part(self.hubs), network, traffic, other_machines: machines - 1, ..*self }
    }
}
