//! Trait objects in the form that crosses the border: a pointer to the maker's own box, a table of
//! functions, a drop by the maker.

/// Declares the carrier of a trait object.
///
/// Expansion: a `repr(C)` struct of a pointer and a prefix table whose `drop` field frees it in the
/// library that made it; `from_box` on the maker's side; `Send + Sync` because the trait is.
#[macro_export]
#[doc(hidden)]
macro_rules! erased_object {
    ($(#[$m:meta])* $name:ident, $vt_ref:ident, dyn $tr:path, $table:expr) => {
        $(#[$m])*
        #[repr(C)]
        #[derive($crate::abi::StableAbi)]
        pub struct $name { ptr: *const (), table: $vt_ref }
        // SAFETY: the object behind the pointer is a `Box<dyn Trait>` whose trait requires Send +
        // Sync.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
        impl $name {
            /// Wraps an object of this library.
            pub fn from_box(object: Box<dyn $tr>) -> Self {
                Self { ptr: Box::into_raw(Box::new(object)) as *const (), table: $table }
            }
            #[allow(dead_code)]
            pub(crate) fn ptr(&self) -> *const () { self.ptr }
            #[allow(dead_code)]
            pub(crate) fn table(&self) -> $vt_ref { self.table }
        }
        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: `ptr` came from `from_box` of the library that `table` belongs to, and is
                // dropped once.
                unsafe { (self.table.drop())(self.ptr) }
            }
        }
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { f.write_str(stringify!($name)) }
        }
    };
}

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
