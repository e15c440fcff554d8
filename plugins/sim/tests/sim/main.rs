//! Tests the simulator through its public interface: hand-made streams, random stream graphs,
//! ranks, tiling sink and faults.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]
mod support;

mod control;
mod fuzz;
mod graphs;
mod ranks;
mod sink;
mod streams;
mod team;
