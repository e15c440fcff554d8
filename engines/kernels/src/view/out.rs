//! `Out`: output memory that the blocks of one launch write side by side, each its own part.
use crate::view::elem::Elem;
use crate::view::layout::ViewError;
use std::marker::PhantomData;

/// A writer over output elements. One `Out` behaves as `&mut [T]`; unlike a slice it makes no claim on the elements that
/// it does not touch, so that several blocks may each hold one over the same memory.
pub struct Out<'a, T> {
    ptr: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: an `Out` is an exclusive borrow of the elements it touches, as `&mut [T]` is, and those are `Send`.
unsafe impl<T: Elem> Send for Out<'_, T> {}

impl<'a, T: Elem> Out<'a, T> {
    /// Over a slice, which it borrows exclusively.
    pub fn new(slice: &'a mut [T]) -> Out<'a, T> {
        Out { ptr: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// Over raw memory of `bytes` bytes.
    ///
    /// # Errors
    /// When address or length do not suit the type.
    ///
    /// # Safety
    /// The memory is valid for reads and writes of `bytes` bytes during `'a`, and no one else reads or writes, during
    /// `'a`, an element that this `Out` is made to read or write.
    pub unsafe fn from_raw(ptr: *mut u8, bytes: usize) -> Result<Out<'a, T>, ViewError> {
        let size = std::mem::size_of::<T>();
        if !(ptr as usize).is_multiple_of(std::mem::align_of::<T>()) {
            return Err(ViewError::Misaligned { kind: T::KIND, align: std::mem::align_of::<T>() });
        }
        if !bytes.is_multiple_of(size) {
            return Err(ViewError::OddLength { kind: T::KIND, bytes });
        }
        Ok(Out { ptr: ptr.cast(), len: bytes / size, life: PhantomData })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` elements from `start`; the caller's arithmetic is checked, as a slice index is.
    #[inline(always)]
    #[track_caller]
    pub fn part(&mut self, start: usize, len: usize) -> &mut [T] {
        assert!(start <= self.len && len <= self.len - start, "part {start}+{len} of {} elements", self.len);
        // SAFETY: in range by the check above; exclusive by `&mut self` and the contract of the constructors.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(start), len) }
    }

    /// Writes one element.
    #[inline(always)]
    #[track_caller]
    pub fn set(&mut self, index: usize, value: T) {
        assert!(index < self.len, "element {index} of {}", self.len);
        // SAFETY: in range by the check above; exclusive as in `part`.
        unsafe { *self.ptr.add(index) = value }
    }

    /// Borrows again for a shorter time.
    pub fn reborrow(&mut self) -> Out<'_, T> {
        Out { ptr: self.ptr, len: self.len, life: PhantomData }
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
        o.set(4, 9);
        assert_eq!((o.len(), o.is_empty()), (5, false));
        assert_eq!(v, [0, 7, 7, 0, 9]);
    }

    #[test]
    fn a_part_beyond_the_end_is_refused() {
        let mut v = [0i32; 5];
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Out::new(&mut v).part(3, 3).len()));
        assert!(r.is_err());
    }
}
