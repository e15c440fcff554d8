//! Collectives and point-to-point transfers between ranks.
