//! Operators that read or write by index.
pub mod gather;
pub mod choose;
pub mod nms;
pub mod scatter;
