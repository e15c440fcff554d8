//! Whole files: round trips, damage of every kind, hostile numbers, failing disks, foreign files.
#![allow(clippy::unwrap_used)]

mod damage;
mod foreign;
mod round_trip;
mod sample;
mod writing;
