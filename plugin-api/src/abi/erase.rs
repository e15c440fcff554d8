//! Objects behind erased pointers, and runs of values as two words.

/// Borrows the object behind an erased pointer.
///
/// # Safety
/// `ptr` must come from `from_box` of an object whose trait is
/// `T`, made by this library, and be alive for `'a`.
pub unsafe fn object<'a, T: ?Sized>(ptr: *const ()) -> &'a T {
    // SAFETY: by contract.
    unsafe { (*(ptr as *const Box<T>)).as_ref() }
}

/// Frees the object behind an erased pointer, guarded.
///
/// # Safety
/// As [`object`], and never used again.
pub unsafe fn drop_object<T: ?Sized>(ptr: *const ()) {
    // SAFETY: by contract.
    crate::abi::guard_drop(|| drop(unsafe { Box::from_raw(ptr as *mut Box<T>) }))
}

/// A borrowed run of values as two words; the safe wrappers give it its lifetime back.
#[repr(C)]
#[derive(crate::abi::StableAbi)]
pub struct RawSlice<T> {
    ptr: *const T,
    len: usize,
}
impl<T> Clone for RawSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for RawSlice<T> {}
impl<T> RawSlice<T> {
    /// The pointer and length of a slice.
    pub fn of(s: &[T]) -> RawSlice<T> {
        RawSlice { ptr: s.as_ptr(), len: s.len() }
    }
    /// No values.
    pub fn empty() -> RawSlice<T> {
        RawSlice::of(&[])
    }
    /// The slice again.
    ///
    /// # Safety
    /// The values must be alive and unchanged for `'a`.
    pub unsafe fn get<'a>(self) -> &'a [T] {
        // SAFETY: by contract.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
}
