//! Working memory of kernels. A thread keeps its buffers between calls: one for each level of
//! nesting.
use std::cell::Cell;

thread_local! {
    /// The buffers not in use; the last one belongs to the outermost call.
    static BUFFERS: Cell<Vec<Vec<f32>>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with `len` floats of working memory, which still hold what the last user left there.
/// The memory is aligned to 64 bytes. A nested call gets its own memory.
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

/// Changes the list of unused buffers.
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
        // Both buffers are reused by the next calls, each at its level of nesting.
        with_scratch(10, |a| {
            assert_eq!(a, [1.0; 10]);
            with_scratch(10, |b| assert_eq!(b, [2.0; 10]));
        });
    }
}
