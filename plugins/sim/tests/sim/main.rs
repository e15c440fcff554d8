//! The simulator through its public face: hand-made streams, random stream graphs, ranks, tiling sink, faults.
mod support;

mod control;
mod fuzz;
mod graphs;
mod ranks;
mod sink;
mod streams;
mod team;
