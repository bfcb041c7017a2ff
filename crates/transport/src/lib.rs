//! One transport layer for Roost: authenticated associations over UDP, TCP and QUIC.
