//! Tasks around the code.

fn main() {}
