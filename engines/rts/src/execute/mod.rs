//! What is loaded onto a device: only the kernel that clears memory; all other tasks are bound as
//! the host resolved them.
pub mod clear;
