//! Working memory of kernels: a thread keeps its buffers between calls, one for each call that was
//! within another.
use std::cell::Cell;

thread_local! {
    /// Those that nobody uses now; the last one belongs to the outermost call.
    static BUFFERS: Cell<Vec<Vec<f32>>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with `len` floats of working memory, whose contents are whatever the last user left.
/// The memory starts at a multiple of 64 bytes. A nested call gets memory of its own.
pub fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    let mut buffer = change(Vec::pop).unwrap_or_default();
    if buffer.len() < len + 16 {
        buffer.resize(len + 16, 0.0);
    }
    let shift = buffer.as_ptr().align_offset(64).min(16);
    let r = f(&mut buffer[shift..shift + len]);
    change(|unused| unused.push(buffer));
    r
}

/// Takes from the unused buffers, or gives one back.
fn change<R>(f: impl FnOnce(&mut Vec<Vec<f32>>) -> R) -> R {
    let mut unused = BUFFERS.take();
    let r = f(&mut unused);
    BUFFERS.set(unused);
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
        // Both are there for the next calls, each for the one that had it.
        with_scratch(10, |a| {
            assert_eq!(a, [1.0; 10]);
            with_scratch(10, |b| assert_eq!(b, [2.0; 10]));
        });
    }
}
