//! The arguments of a plan, bound to the addresses of one run.
use super::kernel::Call;
use crate::memory::{copy, reduce};
use crate::plan::{Op, Plan};
use ge_plugin_api::device::Base;
use ge_plugin_api::{Error, ErrorKind, Result};

/// Addresses of all arguments of a plan for one run. They are kept between runs, so that only
/// changed addresses are resolved again.
pub struct Bound {
    addresses: Vec<*mut u8>,
    calls: Vec<Call>,
    bases: Vec<Vec<Base>>,
}
// SAFETY: this type treats addresses as plain numbers; whoever uses them must follow the contract
// of `bind`.
unsafe impl Send for Bound {}
// SAFETY: as above; shared use only reads.
unsafe impl Sync for Bound {}

fn same(a: &Base, b: &Base) -> bool {
    a.address == b.address && a.bytes == b.bytes
}

impl Bound {
    /// Allocates space for a plan's arguments, without addresses.
    pub fn new(plan: &Plan) -> Bound {
        let addresses: Vec<*mut u8> = vec![core::ptr::null_mut(); plan.args.len()];
        let calls = plan.tasks.iter().map(|t| Call {
            // SAFETY: `args` is a range of the plan's arguments and therefore of this table, which
            // is never resized.
            args: unsafe { addresses.as_ptr().add(t.args.start as usize) },
            n_args: t.args.len(),
            tiling: t.tiling.as_ptr(),
            tiling_len: t.tiling.len(),
        });
        let calls = calls.collect();
        Bound { addresses, calls, bases: vec![Vec::new(); plan.ranks()] }
    }

    /// Checks the bases of this rank against the plan's allocations. The addresses themselves are
    /// trusted: on this device they are addresses of the process, and the host guarantees that they
    /// stay valid for the run.
    pub fn check(plan: &Plan, bases: &[Base]) -> Result<()> {
        let device = |m: String| Error::new(ErrorKind::DEVICE, m);
        if bases.len() != plan.allocations.len() {
            return Err(device(format!(
                "model `{}` has {} allocations, the run gives {}",
                plan.name,
                plan.allocations.len(),
                bases.len()
            )));
        }
        for (i, (a, b)) in plan.allocations.iter().zip(bases).enumerate() {
            if b.bytes < a.bytes || (a.bytes > 0 && b.address == 0) || b.address.checked_add(b.bytes).is_none() {
                return Err(device(format!(
                    "allocation {i} ({}) of model `{}` needs {} bytes, the run gives {}",
                    a.kind, plan.name, a.bytes, b.bytes
                )));
            }
        }
        Ok(())
    }

    /// Binds the arguments to the bases of all ranks of the group (of one rank if there is no
    /// group); each must have passed [`Bound::check`]. Returns the number of arguments that got a
    /// new address.
    pub fn bind(&mut self, plan: &Plan, all: &[&[Base]]) -> u64 {
        let mut moved = 0u64;
        for (rank, bases) in all.iter().enumerate() {
            let old = &mut self.bases[rank];
            if old.len() == bases.len() && old.iter().zip(*bases).all(|(a, b)| same(a, b)) {
                continue;
            }
            for r in &plan.relocations {
                if r.rank as usize == rank {
                    let b = &bases[r.allocation as usize];
                    if old.get(r.allocation as usize).is_none_or(|o| o.address != b.address) {
                        self.addresses[r.argument as usize] = (b.address + r.offset) as *mut u8;
                        moved += 1;
                    }
                }
            }
            old.clear();
            old.extend_from_slice(bases);
        }
        moved
    }

    /// The kernel call of a task.
    pub fn call(&self, task: usize) -> &Call {
        &self.calls[task]
    }
    /// The kernel call of a task with other addresses for its arguments.
    pub fn call_at<'a>(&self, task: usize, addresses: &'a Addresses) -> (Call, &'a Addresses) {
        (Call { args: addresses.0.as_ptr(), n_args: addresses.0.len(), ..self.calls[task] }, addresses)
    }
    /// The address of an argument.
    pub fn address(&self, argument: u32) -> u64 {
        self.addresses[argument as usize] as u64
    }

    /// The bases of a rank in this run.
    pub fn bases(&self, rank: usize) -> &[Base] {
        &self.bases[rank]
    }
    /// Flips one bit of a byte that a task has just written (an injected fault).
    pub(crate) fn flip(&self, address: u64, bit: u32) {
        // SAFETY: the address is in a range that the task was bound to write, and nothing else
        // runs.
        unsafe { *(address as *mut u8) ^= 1 << (bit & 7) }
    }

    /// Reads argument `k` of a task as a signed integer of at most eight bytes.
    pub fn read(&self, plan: &Plan, task: usize, k: usize, bytes: usize) -> i64 {
        let argument = plan.tasks[task].args.start as usize + k;
        let n = bytes.min(plan.args[argument].bytes as usize).min(8);
        if n == 0 {
            return 0;
        }
        // SAFETY: the plan ensures that the argument is within its allocation, and `check` that the
        // allocation is within its base.
        let raw = unsafe { copy::read_number(self.address(argument as u32), n) };
        let unused = 64 - 8 * n as u32;
        ((raw << unused) as i64) >> unused
    }

    /// Runs the copy or reduction of a task and returns the number of bytes moved.
    pub fn copy(&self, plan: &Plan, task: usize) -> u64 {
        let t = &plan.tasks[task];
        let a = t.args.start;
        self.copy_between(plan, task, self.address(a), self.address(a + 1))
    }
    /// Runs the copy or reduction of a task with other source and destination addresses.
    pub fn copy_between(&self, plan: &Plan, task: usize, from: u64, to: u64) -> u64 {
        let t = &plan.tasks[task];
        let bytes = plan.copy_bytes(t);
        // SAFETY: both arguments are within allocations of the model and have at least `bytes`
        // bytes (plan, `check`); guarded copies have the same sizes. The plan orders accesses of
        // different tasks.
        unsafe {
            match t.op {
                Op::Reduce { kind, dtype } => reduce::reduce(from, to, bytes, dtype, kind),
                _ => copy::copy(from, to, bytes),
            }
        }
        bytes
    }
}

/// Addresses of a task's arguments in other memory (guarded copies).
pub struct Addresses(pub(crate) Vec<*mut u8>);
