//! Memory that plugins have freed goes back to the system.
//!
//! Plugins allocate by the C library, which keeps what is freed between blocks in use for itself:
//! after a front end has handed over a graph of a hundred thousand nodes, twice the graph's size
//! stays with it.

/// Nodes of a graph from which on it is worth asking.
const LARGE: usize = 10_000;

/// After work on a graph of so many nodes: gives back what the C library keeps, where it can be
/// asked to and the graph is large. Takes a few milliseconds for each hundred MiB that go.
pub fn trim_after(nodes: usize) {
    if nodes < LARGE {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the allocator's own locks, moves no block in use and may be called from any
    // thread at any time (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}
