//! Working memory of kernels: one buffer a thread, kept between calls.
use std::cell::Cell;

thread_local! {
    static BUFFER: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with `len` floats of working memory, whose contents are whatever the last user left.
/// The memory starts at a multiple of 64 bytes. A nested call gets memory of its own.
pub fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    let mut buffer = BUFFER.take();
    if buffer.len() < len + 16 {
        buffer.resize(len + 16, 0.0);
    }
    let shift = buffer.as_ptr().align_offset(64).min(16);
    let r = f(&mut buffer[shift..shift + len]);
    BUFFER.set(buffer);
    r
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_nested_calls_do_not_share() {
        with_scratch(10, |a| {
            a.fill(1.0);
            assert!((a.as_ptr() as usize).is_multiple_of(64));
            with_scratch(10, |b| b.fill(2.0));
            assert_eq!(a, [1.0; 10]);
        });
    }
}
