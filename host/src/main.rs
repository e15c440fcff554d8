//! The `ge` command.

fn main() {}
