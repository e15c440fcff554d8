//! Tests of whole files: round trips, damage of every kind, hostile numbers, failing disks and
//! foreign files.
#![allow(clippy::unwrap_used)]

mod damage;
mod foreign;
mod round_trip;
mod sample;
mod writing;
