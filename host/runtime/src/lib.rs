//! From an OM to results: load, execute, profile, dump, compare.
