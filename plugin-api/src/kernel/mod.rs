//! Contracts of kernels: device kernels as plain functions, host kernels over typed tensor views.
use crate::abi::{ROption, RVec, StableAbi};
use crate::diagnostic::Error;
use crate::open_code;
use crate::services::HostTableRef;
use core::ffi::c_void;

mod block;
mod host;
mod lent;
mod tensor;

pub use block::{BlockArgs, BlockKernel, Writer, block_kernel, split_range};
pub(crate) use block::{check_lengths, declared};
pub use host::{HostCall, HostKernel, KernelCtx};
pub use tensor::{HostTensor, RawTensor, TensorMut, TensorView};

open_code! {
    /// How a kernel accesses an argument.
    pub struct Access: u8 {
        /// Only reads it.
        READ = 0 "R",
        /// Only writes it.
        WRITE = 1 "W",
        /// Reads and writes it.
        READ_WRITE = 2 "RW",
    }
}

/// One launch of one block, as passed to a kernel. The arguments are in the order of the task's
/// `args_format`.
#[repr(C)]
#[derive(StableAbi)]
pub struct KernelCall {
    /// Addresses of the arguments (`n_args` of them).
    pub args: *const *mut u8,
    /// Number of arguments.
    pub n_args: usize,
    /// Index of this block, from 0.
    pub block_idx: u32,
    /// Number of blocks of the launch.
    pub block_dim: u32,
    /// Key of the kernel variant that the tiling chose.
    pub tiling_key: u64,
    /// Tiling data.
    pub tiling: *const u8,
    /// Length of the tiling data in bytes.
    pub tiling_len: usize,
    /// Scratch memory for this block alone: `LoadedKernel::scratch_bytes` bytes, 64-byte aligned.
    /// Null if that is 0.
    pub scratch: *mut u8,
    /// The host's services; `None` if there is no host.
    pub host: ROption<HostTableRef>,
}

/// A device kernel. Which work it does depends only on the block index and the tiling. It returns 0
/// for success; any other value fails the task.
pub type KernelFn = unsafe extern "C" fn(ctx: *const c_void, call: *const KernelCall) -> i32;

/// Frees the context of a kernel.
#[repr(transparent)]
#[derive(Clone, Copy, StableAbi)]
pub struct DropFn(pub unsafe extern "C" fn(ctx: *mut c_void));

/// Returns and clears the error of the last failed launch on this thread. It is a function of the
/// library that owns the kernel.
#[repr(transparent)]
#[derive(Clone, Copy, StableAbi)]
pub struct LastErrorFn(pub extern "C" fn() -> ROption<Error>);

/// A kernel that an executor loaded: its function, context and argument accesses.
#[repr(C)]
#[derive(StableAbi)]
pub struct LoadedKernel {
    /// Kernel function; see [`KernelFn`].
    pub run: unsafe extern "C" fn(ctx: *const c_void, call: *const KernelCall) -> i32,
    /// Context that is passed to `run` (parsed parameters), or null.
    pub ctx: *mut c_void,
    /// Frees the context; `None` if nothing needs to be freed.
    pub drop: ROption<DropFn>,
    /// Access of each argument, in `args_format` order.
    pub access: RVec<Access>,
    /// Scratch bytes of each block.
    pub scratch_bytes: u64,
    /// Says why a launch failed. The device calls it on the thread on which `run` returned
    /// non-zero. `None`: only the return code is available.
    pub last_error: ROption<LastErrorFn>,
}
// SAFETY: the kernel owns the context and only reads it, which any thread may do (contract of
// KernelFn).
unsafe impl Send for LoadedKernel {}
// SAFETY: as above.
unsafe impl Sync for LoadedKernel {}
/// Plain numbers without invalid bit patterns (bool is read as u8).
///
/// # Safety
/// Every bit pattern of the type must be a valid value.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}
macro_rules! plain {
    ($($t:ty),+) => {$(
        // SAFETY: every bit pattern of a number is a valid value.
        unsafe impl Plain for $t {}
    )+};
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, half::f16, half::bf16);
/// The error of the last kernel that returned non-zero on each thread. The device fetches it
/// through [`LoadedKernel::last_error`].
pub mod last_error {
    use super::Error;
    use std::cell::RefCell;
    thread_local! {
        static LAST: RefCell<Option<Error>> = const { RefCell::new(None) };
    }
    /// Stores the error of this thread.
    pub fn set(e: Error) {
        let _ = LAST.try_with(|l| *l.borrow_mut() = Some(e));
    }
    /// Returns and clears the stored error of this thread.
    pub fn take() -> Option<Error> {
        LAST.try_with(|l| l.borrow_mut().take()).ok().flatten()
    }
}
