//! Kernels loaded by engines, and the launch of one block.
use ge_plugin_api::abi::ROption;
use ge_plugin_api::kernel::{Access, KernelCall, LoadedKernel};
use ge_plugin_api::{Error, ErrorKind, Result};
use std::cell::RefCell;

/// A registered kernel; its own library frees it when the model is dropped.
pub struct Kernel(LoadedKernel);

/// A kernel call without block index and scratch memory, ready to be launched.
#[derive(Clone, Copy)]
pub struct Call {
    pub(crate) args: *const *mut u8,
    pub(crate) n_args: usize,
    pub(crate) tiling: *const u8,
    pub(crate) tiling_len: usize,
}
// SAFETY: the pointers refer to tables of the run state and of the plan, which outlive every launch
// and are not written during one.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

/// One 64-byte line of scratch memory.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

impl Kernel {
    /// Wraps a loaded kernel.
    pub fn new(kernel: LoadedKernel) -> Kernel {
        Kernel(kernel)
    }
    /// How it accesses each of its arguments.
    pub fn access(&self) -> &[Access] {
        &self.0.access
    }
    /// Bytes of scratch memory that each block needs.
    pub fn scratch_bytes(&self) -> u64 {
        self.0.scratch_bytes
    }
    /// Runs one block on the calling thread.
    pub fn run(&self, call: &Call, block_idx: u32, block_dim: u32, tiling_key: u64) -> Result<()> {
        let mut c = KernelCall {
            args: call.args,
            n_args: call.n_args,
            block_idx,
            block_dim,
            tiling_key,
            tiling: call.tiling,
            tiling_len: call.tiling_len,
            scratch: core::ptr::null_mut(),
            host: ge_plugin_api::services::host_or_none().map(|h| h.table()).into(),
        };
        let rc = if self.0.scratch_bytes == 0 {
            // SAFETY: the contract of `KernelFn` holds: the context belongs to the kernel, the call
            // is live, and the addresses were checked against the model's memory when they were
            // bound.
            unsafe { (self.0.run)(self.0.ctx, &c) }
        } else {
            self.with_scratch(&mut c)?
        };
        if rc == 0 { Ok(()) } else { Err(self.failure(rc)) }
    }
    fn with_scratch(&self, c: &mut KernelCall) -> Result<i32> {
        let lines = usize::try_from(self.0.scratch_bytes.div_ceil(64)).unwrap_or(usize::MAX);
        // The scratch memory is taken out of the cell during the call, so that a kernel that runs
        // another launch inside its own finds an empty cell rather than a borrowed one.
        let mut scratch = SCRATCH.with(RefCell::take);
        if scratch.len() < lines {
            scratch.try_reserve_exact(lines - scratch.len()).map_err(|_| {
                Error::new(ErrorKind::DEVICE, format!("no memory for {} bytes of scratch", self.0.scratch_bytes))
            })?;
            scratch.resize(lines, Line([0; 64]));
        }
        c.scratch = scratch.as_mut_ptr().cast();
        // SAFETY: as in `run`; during the call only this thread uses the scratch memory.
        let rc = unsafe { (self.0.run)(self.0.ctx, c) };
        SCRATCH.with(|s| *s.borrow_mut() = scratch);
        Ok(rc)
    }
    #[cold]
    fn failure(&self, rc: i32) -> Error {
        if let ROption::RSome(f) = self.0.last_error
            && let ROption::RSome(e) = (f.0)()
        {
            return e;
        }
        Error::new(ErrorKind::DEVICE, format!("the kernel returned {rc}"))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let ROption::RSome(d) = self.0.drop {
            // SAFETY: the context came together with this function and is freed once.
            unsafe { (d.0)(self.0.ctx) }
        }
    }
}
