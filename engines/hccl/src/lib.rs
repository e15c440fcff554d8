//! DNN_HCCL: collectives and point-to-point transfers between ranks.
//!
//! [`store`] says which operators it takes, [`collective`] what a node asks for, [`schedule`] which
//! tasks each rank runs for it. The builder emits one HCCL task a node; the executor lowers it for
//! its rank at load into notifies, copies and reductions between ranks: the device knows no
//! collective (DESIGN 3.2).
#![deny(unsafe_code)]

/// What a node asks for, and its form in a task.
pub mod collective;
/// The engine.
pub mod engine;
/// Tasks of a rank.
pub mod schedule;
/// What the engine takes.
pub mod store;
/// Sends and receives as transfers.
pub mod transfer;

mod plugin;
