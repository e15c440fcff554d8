//! Offset assigners: buffers with lifetimes and sizes to offsets of a small arena.
