//! Finds, checks, loads and wraps plugin libraries.
