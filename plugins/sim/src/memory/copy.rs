//! Copies within device memory.

/// Copies `bytes` from one address to another; the ranges may overlap.
///
/// # Safety
/// Both ranges must be live memory of this process for the call, and no other task may touch them
/// in a conflicting way.
pub unsafe fn copy(from: u64, to: u64, bytes: u64) {
    if bytes != 0 && from != to {
        // SAFETY: by contract.
        unsafe { core::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) }
    }
}

/// Reads up to eight bytes as a little-endian number without sign.
///
/// # Safety
/// The range must be live memory of this process.
pub unsafe fn read_number(at: u64, bytes: usize) -> u64 {
    let mut b = [0u8; 8];
    // SAFETY: by contract; at most eight bytes.
    unsafe { core::ptr::copy_nonoverlapping(at as *const u8, b.as_mut_ptr(), bytes.min(8)) };
    u64::from_le_bytes(b)
}
