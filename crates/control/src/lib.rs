//! The local API of the Roost daemons: versioned types, client and server.
