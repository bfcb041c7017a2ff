//! The group of a Roost network: private CA, node keys and certificates, revocation, verification policy.
