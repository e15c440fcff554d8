//! Bytes that are shared instead of copied, whoever owns them: a mapped file, a vector, another
//! library's memory.
use crate::abi::StableAbi;
use std::sync::Arc;

/// A shared, immutable run of bytes with its owner. Cloning increments a reference count; the
/// library that made the owner frees it.
#[repr(C)]
#[derive(StableAbi)]
pub struct Blob {
    ptr: *const u8,
    len: usize,
    owner: *const (),
    retain: unsafe extern "C" fn(*const ()),
    release: unsafe extern "C" fn(*const ()),
}

type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

unsafe extern "C" fn retain(owner: *const ()) {
    // SAFETY: `owner` came from `Arc::into_raw` in `Blob::from_owner` and is alive while any Blob
    // holds it.
    unsafe { Arc::increment_strong_count(owner.cast::<Owner>()) }
}
unsafe extern "C" fn release(owner: *const ()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: each Blob owns one count of the Arc that `from_owner` made.
        drop(unsafe { Arc::from_raw(owner.cast::<Owner>()) })
    }))
    .map_err(std::mem::forget);
}
unsafe extern "C" fn nothing(_: *const ()) {}

// SAFETY: the bytes do not change while the Blob lives, and the owner is Send + Sync (bound of
// `from_owner`).
unsafe impl Send for Blob {}
// SAFETY: as above.
unsafe impl Sync for Blob {}

impl Blob {
    /// An empty blob without an owner.
    pub const fn empty() -> Blob {
        Blob {
            ptr: core::ptr::NonNull::<u128>::dangling().as_ptr() as *const u8,
            len: 0,
            owner: core::ptr::null(),
            retain: nothing,
            release: nothing,
        }
    }
    /// All bytes of an owner such as a vector or a mapping. The owner must return the same bytes
    /// every time `as_ref` is called.
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Blob {
        let owner: Owner = Arc::new(owner);
        let bytes = (*owner).as_ref();
        let (ptr, len) = (bytes.as_ptr(), bytes.len());
        let owner = Arc::into_raw(Arc::new(owner)).cast::<()>();
        Blob { ptr, len, owner, retain, release }
    }
    /// A blob with its own copy of the bytes.
    pub fn copy_of(bytes: &[u8]) -> Blob {
        Blob::from_owner(bytes.to_vec())
    }
    /// A part of this blob that shares its owner; `None` if it is out of range.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Blob> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        let mut b = self.clone();
        // SAFETY: offset is within the run of bytes, checked above.
        b.ptr = unsafe { self.ptr.add(offset) };
        b.len = len;
        Some(b)
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: ptr and len describe bytes that the owner keeps alive and unchanged.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
    /// Whether two blobs are the same bytes in memory (a quick test before comparing contents).
    pub fn same_memory(&self, other: &Blob) -> bool {
        self.ptr == other.ptr && self.len == other.len
    }
}

impl Clone for Blob {
    fn clone(&self) -> Blob {
        // SAFETY: `retain` belongs to `owner`, which is alive.
        unsafe { (self.retain)(self.owner) };
        Blob { ptr: self.ptr, len: self.len, owner: self.owner, retain: self.retain, release: self.release }
    }
}
impl Drop for Blob {
    fn drop(&mut self) {
        // SAFETY: this Blob holds one count of `owner`.
        unsafe { (self.release)(self.owner) }
    }
}
impl core::ops::Deref for Blob {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}
impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}
impl PartialEq for Blob {
    fn eq(&self, other: &Blob) -> bool {
        self.same_memory(other) || self.as_slice() == other.as_slice()
    }
}
impl core::fmt::Debug for Blob {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Blob({} bytes)", self.len)
    }
}
impl Default for Blob {
    fn default() -> Blob {
        Blob::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn parts_keep_the_owner_alive() {
        let whole = Blob::from_owner(vec![1u8, 2, 3, 4]);
        let part = whole.slice(1, 2).expect("in range");
        drop(whole);
        assert_eq!(&part[..], &[2, 3]);
        assert!(part.slice(1, 2).is_none());
        assert!(Blob::empty().is_empty());
    }
}
