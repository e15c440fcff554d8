//! DNN_HCCL: collectives and point-to-point transfers between ranks.
//!
//! [`store`] decides which operators the engine takes, [`collective`] describes what a node
//! requests, and [`schedule`] the tasks that each rank runs for it. The builder emits one HCCL task
//! per node. At load, the executor lowers it for its rank into notifies, copies and reductions
//! between ranks, because the device itself has no collectives (DESIGN 3.2).
#![deny(unsafe_code)]

/// The collective that a node requests, and its encoding in a task.
pub mod collective;
/// The engine.
pub mod engine;
/// The tasks that a rank runs for a collective.
pub mod schedule;
/// Operators that the engine takes.
pub mod store;
/// Sends and receives combined into transfers.
pub mod transfer;

mod plugin;
