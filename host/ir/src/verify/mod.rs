//! The verifier: numbered rules that every graph must meet.
