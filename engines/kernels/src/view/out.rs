//! `Out`: output memory that the blocks of one launch write at the same time, each in its own part.
use crate::view::elem::Elem;

/// Memory that is lent one range at a time.
pub trait Parts<T> {
    /// Lends `len` elements from `start`; `None` if the range does not exist.
    fn part(&mut self, start: usize, len: usize) -> Option<&mut [T]>;
}

/// A writer over output elements: either a slice, or memory handed out in ranges while others write
/// other parts of it. A kernel asks only for the elements that its own units of work write.
pub struct Out<'a, T> {
    len: usize,
    memory: Memory<'a, T>,
}

enum Memory<'a, T> {
    Slice(&'a mut [T]),
    Parts(&'a mut dyn Parts<T>),
}

impl<'a, T: Elem> Out<'a, T> {
    /// A writer over a slice.
    pub fn new(slice: &'a mut [T]) -> Out<'a, T> {
        Out { len: slice.len(), memory: Memory::Slice(slice) }
    }

    /// A writer over `len` elements that `parts` lends.
    pub fn by_parts(len: usize, parts: &'a mut dyn Parts<T>) -> Out<'a, T> {
        Out { len, memory: Memory::Parts(parts) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Borrows the `len` elements from `start`. It panics if the range does not exist, like a slice
    /// index: kernels check the lengths of their operands before they run.
    #[inline]
    #[track_caller]
    pub fn part(&mut self, start: usize, len: usize) -> &mut [T] {
        let found = match &mut self.memory {
            Memory::Slice(s) => s.get_mut(start..).and_then(|s| s.get_mut(..len)),
            Memory::Parts(p) => p.part(start, len),
        };
        found.unwrap_or_else(|| panic!("part {start}+{len} of {} output elements", self.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_write_through() {
        let mut v = [0i32; 5];
        let mut o = Out::new(&mut v);
        o.part(1, 2).fill(7);
        o.part(4, 1)[0] = 9;
        assert_eq!((o.len(), o.is_empty()), (5, false));
        assert_eq!(v, [0, 7, 7, 0, 9]);
    }

    #[test]
    fn memory_can_be_lent_piece_by_piece() {
        struct Behind<'a>(&'a mut [i32]);
        impl Parts<i32> for Behind<'_> {
            fn part(&mut self, start: usize, len: usize) -> Option<&mut [i32]> {
                self.0.get_mut(start + 1..)?.get_mut(..len)
            }
        }
        let mut v = [0i32; 5];
        let mut behind = Behind(&mut v);
        let mut o = Out::by_parts(4, &mut behind);
        o.part(0, 3).fill(1);
        o.part(2, 2).fill(2);
        assert_eq!(v, [0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_part_beyond_the_end_is_refused() {
        let mut v = [0i32; 5];
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Out::new(&mut v).part(3, 3).len()));
        assert!(r.is_err());
    }
}
