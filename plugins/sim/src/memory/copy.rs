//! Copies within device memory.

/// Copies `bytes` from one address to another; the ranges may overlap.
///
/// # Safety
/// Both ranges must be live memory of this process during the call, and no other task may access
/// them in a conflicting way.
pub unsafe fn copy(from: u64, to: u64, bytes: u64) {
    if bytes != 0 && from != to {
        // SAFETY: by the contract of this function.
        unsafe { core::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) }
    }
}

/// Reads up to eight bytes as an unsigned little-endian number.
///
/// # Safety
/// The range must be live memory of this process.
pub unsafe fn read_number(at: u64, bytes: usize) -> u64 {
    let mut b = [0u8; 8];
    // SAFETY: by the contract of this function; at most eight bytes are read.
    unsafe { core::ptr::copy_nonoverlapping(at as *const u8, b.as_mut_ptr(), bytes.min(8)) };
    u64::from_le_bytes(b)
}
