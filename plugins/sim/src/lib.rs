//! The embedded Ascend simulator.
