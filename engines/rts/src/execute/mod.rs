//! The only kernel that this engine loads onto a device, which clears memory. All other tasks are
//! bound as the host resolved them.
pub mod clear;
