//! Objects behind erased pointers, and slices as a pointer and a length.

/// Borrows the object behind an erased pointer.
///
/// # Safety
/// `ptr` must come from this library's `from_box` of an object with the trait `T`, and the object
/// must be alive for `'a`.
pub unsafe fn object<'a, T: ?Sized>(ptr: *const ()) -> &'a T {
    // SAFETY: guaranteed by the caller.
    unsafe { (*(ptr as *const Box<T>)).as_ref() }
}

/// Frees the object behind an erased pointer; a panic in its drop is swallowed.
///
/// # Safety
/// The same as for [`object`], and `ptr` must never be used again.
pub unsafe fn drop_object<T: ?Sized>(ptr: *const ()) {
    // SAFETY: guaranteed by the caller.
    crate::abi::guard_drop(|| drop(unsafe { Box::from_raw(ptr as *mut Box<T>) }))
}

/// A borrowed slice as a pointer and a length; the safe wrappers restore its lifetime.
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
    /// An empty slice.
    pub fn empty() -> RawSlice<T> {
        RawSlice::of(&[])
    }
    /// Restores the slice.
    ///
    /// # Safety
    /// The values must be alive and unchanged for `'a`.
    pub unsafe fn get<'a>(self) -> &'a [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
}
