//! Device kernels in safe Rust: the arguments of one block, and the kernel as the ABI has it.
use super::lent::Lent;
use super::{Access, DropFn, KernelCall, LastErrorFn, LoadedKernel, Plain, last_error};
use crate::abi::ROption;
use crate::diagnostic::{Error, ErrorKind, Result};
use core::ffi::c_void;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The arguments of one block for a kernel in safe Rust. It knows the length and access of each
/// argument and never hands out the same bytes for writing twice.
pub struct BlockArgs<'a> {
    call: &'a KernelCall,
    lens: &'a [u64],
    access: &'a [Access],
    scratch_bytes: u64,
    lent: RefCell<Lent>,
}

/// A block kernel in safe Rust. [`block_kernel`] turns it into a [`LoadedKernel`].
///
/// The blocks of one launch run at the same time and must write disjoint parts of the outputs.
/// Outputs are therefore handed out by range, each range once per block ([`BlockArgs::output`]), or
/// as a writer that lends one range at a time ([`BlockArgs::writer`]). When the kernel is bound,
/// its argument lengths are checked against the host's plan, so a crate without `unsafe` cannot
/// access memory beyond them.
/// # Examples
/// ```
/// use ge_plugin_api::Result;
/// use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, block_kernel};
///
/// /// Doubles f32 numbers: argument 0 is read, argument 1 written, both of the same length.
/// struct Double;
///
/// impl BlockKernel for Double {
///     fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
///         let x = call.input::<f32>(0)?;
///         // This block's share, in steps of 16 elements.
///         let mine = call.part(x.len(), 16);
///         for (y, x) in call.output::<f32>(1, mine.clone())?.iter_mut().zip(&x[mine]) {
///             *y = 2.0 * x;
///         }
///         Ok(())
///     }
/// }
/// let bytes = vec![1024, 1024];
/// let kernel = block_kernel(Box::new(Double), bytes, vec![Access::READ, Access::WRITE], 0);
/// assert_eq!(kernel.scratch_bytes, 0);
/// ```
pub trait BlockKernel: Send + Sync + 'static {
    /// Runs block `call.block_idx()` of `call.block_dim()`.
    /// # Errors
    /// Returns an error if the block fails; the run of the model then fails with it.
    fn run(&self, call: &BlockArgs<'_>) -> Result<()>;
}

impl<'a> BlockArgs<'a> {
    /// The arguments of a call, with `lens[i]` bytes in argument `i`.
    pub(crate) fn new(call: &'a KernelCall, lens: &'a [u64], access: &'a [Access], scratch_bytes: u64) -> Self {
        BlockArgs { call, lens, access, scratch_bytes, lent: RefCell::default() }
    }
    /// Index of this block, from 0.
    pub fn block_idx(&self) -> usize {
        self.call.block_idx as usize
    }
    /// Number of blocks of the launch.
    pub fn block_dim(&self) -> usize {
        self.call.block_dim as usize
    }
    /// Key of the kernel variant that the tiling chose.
    pub fn tiling_key(&self) -> u64 {
        self.call.tiling_key
    }
    /// Tiling data of the launch.
    pub fn tiling(&self) -> &'a [u8] {
        if self.call.tiling_len == 0 {
            return &[];
        }
        // SAFETY: the device passes `tiling_len` bytes that outlive the call.
        unsafe { core::slice::from_raw_parts(self.call.tiling, self.call.tiling_len) }
    }
    /// This block's part of `n` items. Parts are balanced, in block order, and made of whole units
    /// of `unit` items (the last unit may be shorter).
    pub fn part(&self, n: usize, unit: usize) -> core::ops::Range<usize> {
        split_range(n, unit, self.block_idx(), self.block_dim())
    }
    /// Length of argument `i` in bytes; 0 if there is no such argument.
    pub fn len(&self, i: usize) -> usize {
        self.lens.get(i).map_or(0, |&l| l as usize)
    }
    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }
    /// Address of argument `i`.
    fn addr(&self, i: usize) -> Result<*mut u8> {
        if i >= self.call.n_args || i >= self.lens.len() {
            return Err(Error::internal(format!("kernel asks for argument {i} of {}", self.call.n_args)));
        }
        // SAFETY: the device passes n_args addresses.
        Ok(unsafe { *self.call.args.add(i) })
    }
    /// Argument `i`, for reading. A kernel can also read an argument that it may write, as long as
    /// no part of it is handed out for writing; it is then no longer handed out for writing.
    /// # Errors
    /// Returns `internal` if the kernel has no argument `i` or a part of it is handed out for
    /// writing, and `failed` if it is not aligned for `T`.
    pub fn input<T: Plain>(&self, i: usize) -> Result<&'a [T]> {
        let p = self.addr(i)?;
        if self.access.get(i).is_some_and(|a| *a != Access::READ) && !self.lent.borrow_mut().read(i) {
            return Err(Error::internal(format!("kernel reads argument {i}, which it was handed out to write")));
        }
        let n = self.len(i) / size_of::<T>();
        if n == 0 {
            return Ok(&[]);
        }
        self.aligned::<T>(i, p)?;
        // SAFETY: `lens[i]` bytes were checked against the host's plan when the kernel was bound
        // (`ModelSink::bind_task`), and the device checked the plan against its memory. Plain types
        // have no invalid bit patterns. Inputs are not written during the launch (plan and
        // check_races), and this block no longer gets the argument for writing.
        Ok(unsafe { core::slice::from_raw_parts(p as *const T, n) })
    }
    fn aligned<T>(&self, i: usize, p: *mut u8) -> Result<()> {
        if p.is_null() || p.align_offset(align_of::<T>()) != 0 {
            return Err(Error::failed(format!("argument {i} is null or not aligned for {} bytes", align_of::<T>())));
        }
        Ok(())
    }
    fn writable(&self, i: usize) -> Result<*mut u8> {
        let p = self.addr(i)?;
        if self.access.get(i).is_none_or(|a| *a == Access::READ) {
            return Err(Error::internal(format!("kernel writes argument {i}, which it declared as read")));
        }
        Ok(p)
    }
    /// Elements `range` of argument `i`, for writing. Each element is handed out once, and
    /// different blocks must ask for disjoint ranges. Use a [`writer`](BlockArgs::writer) to write
    /// an argument in many pieces or more than once.
    /// # Errors
    /// Returns `internal` if there is no argument `i`, it is read-only, the range is out of bounds,
    /// or a part of it was handed out before; `failed` if it is not aligned for `T`.
    #[allow(clippy::mut_from_ref)]
    pub fn output<T: Plain>(&self, i: usize, range: core::ops::Range<usize>) -> Result<&'a mut [T]> {
        let p = self.writable(i)?;
        let n = self.len(i) / size_of::<T>();
        if range.start > range.end || range.end > n {
            return Err(Error::internal(format!(
                "kernel writes elements {}..{} of {n} of argument {i}",
                range.start, range.end
            )));
        }
        if range.is_empty() {
            return Ok(&mut []);
        }
        self.aligned::<T>(i, p)?;
        let (start, end) = (range.start * size_of::<T>(), range.end * size_of::<T>());
        if !self.lent.borrow_mut().write(i, start, end) {
            return Err(Error::internal(format!(
                "kernel asks for elements {}..{} of argument {i}, of which it has some already",
                range.start, range.end
            )));
        }
        // SAFETY: as `input`; the range is within the argument, this block gets it only once, and
        // by the trait's contract no other block asks for it.
        Ok(unsafe { core::slice::from_raw_parts_mut((p as *mut T).add(range.start), range.len()) })
    }
    /// A writer for argument `i`, which lends one range at a time, as often as needed. While the
    /// writer lives, nothing else of the argument is handed out.
    /// # Errors
    /// Returns `internal` if there is no argument `i`, it is read-only, or a part of it was handed
    /// out before; `failed` if it is not aligned for `T`.
    pub fn writer<T: Plain>(&self, i: usize) -> Result<Writer<'_, T>> {
        let p = self.writable(i)?;
        let bytes = self.len(i);
        if bytes >= size_of::<T>() {
            self.aligned::<T>(i, p)?;
        }
        if !self.lent.borrow_mut().whole(i) {
            return Err(Error::internal(format!(
                "kernel asks for a writer of argument {i}, of which it has some already"
            )));
        }
        Ok(Writer { lent: &self.lent, i, first: p as *mut T, n: bytes / size_of::<T>() })
    }
    /// Calls `f` with the contents of argument `i`. A writable argument is only read during the
    /// call and may be written afterwards.
    /// # Errors
    /// Returns `internal` if there is no argument `i`, or a part of it is handed out for writing;
    /// `failed` if it is not aligned for `T`.
    pub fn look<T: Plain, R>(&self, i: usize, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        if self.access.get(i) == Some(&Access::READ) {
            return Ok(f(self.input(i)?));
        }
        let mut whole = self.writer::<T>(i)?;
        let n = whole.len();
        Ok(f(whole.part(0, n).unwrap_or_default()))
    }
    /// Address of argument `i`, for kernels that check bounds themselves.
    /// # Errors
    /// Returns `internal` if there is no argument `i`.
    pub fn raw(&self, i: usize) -> Result<*mut u8> {
        self.addr(i)
    }
    /// `len` elements of this block's scratch memory; each call returns different ones. Panics if
    /// the kernel asks for more than it declared; the run then fails with an error that names the
    /// kernel.
    #[allow(clippy::mut_from_ref)]
    #[track_caller]
    pub fn scratch<T: Plain>(&self, len: usize) -> &'a mut [T] {
        if len == 0 {
            return &mut [];
        }
        let mut lent = self.lent.borrow_mut();
        let start = lent.scratch.next_multiple_of(64);
        let end = len.checked_mul(size_of::<T>()).and_then(|n| start.checked_add(n as u64));
        let Some(end) = end.filter(|e| *e <= self.scratch_bytes && !self.call.scratch.is_null()) else {
            panic!(
                "the kernel asks for {len} elements of scratch behind {start} bytes, it declared {} bytes",
                self.scratch_bytes
            );
        };
        lent.scratch = end;
        // SAFETY: the device gives `scratch_bytes` aligned bytes to this block alone, and each part
        // is handed out once.
        unsafe { core::slice::from_raw_parts_mut(self.call.scratch.add(start as usize) as *mut T, len) }
    }
}

/// Lends the elements of an output one range at a time ([`BlockArgs::writer`]).
pub struct Writer<'b, T> {
    lent: &'b RefCell<Lent>,
    i: usize,
    first: *mut T,
    n: usize,
}

impl<T: Plain> Writer<'_, T> {
    /// Number of elements of the output.
    pub fn len(&self) -> usize {
        self.n
    }
    /// Whether the output has no elements.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }
    /// `len` elements from `start`, for writing; `None` if the range is out of bounds. Different
    /// blocks must ask for disjoint ranges.
    pub fn part(&mut self, start: usize, len: usize) -> Option<&mut [T]> {
        if start.checked_add(len)? > self.n {
            return None;
        }
        if len == 0 {
            return Some(&mut []);
        }
        // SAFETY: as `BlockArgs::output`: the range is within the argument and aligned, and the
        // writer stays borrowed while the range is lent.
        Some(unsafe { core::slice::from_raw_parts_mut(self.first.add(start), len) })
    }
}

impl<T> Drop for Writer<'_, T> {
    fn drop(&mut self) {
        self.lent.borrow_mut().give_back(self.i);
    }
}

/// Part `k` of `parts` of `n` items. The parts are balanced and made of whole units of `unit` items
/// (the last unit may be shorter).
pub fn split_range(n: usize, unit: usize, k: usize, parts: usize) -> core::ops::Range<usize> {
    let (unit, parts) = (unit.max(1), parts.max(1));
    let units = n.div_ceil(unit);
    let (each, more) = (units / parts, units % parts);
    let begin = k * each + k.min(more);
    let end = begin + each + usize::from(k < more);
    (begin * unit).min(n)..(end * unit).min(n)
}

struct Boxed {
    kernel: Box<dyn BlockKernel>,
    lens: Vec<u64>,
    access: Vec<Access>,
    scratch_bytes: u64,
}

/// What `block_kernel` was told about a kernel, kept by the address of the kernel's context for
/// [`declared`]. A kernel is bound only once.
#[derive(Clone)]
struct Declared {
    lens: Vec<u64>,
    access: Vec<Access>,
    scratch_bytes: u64,
    taken: bool,
}
static DECLARED: Mutex<BTreeMap<usize, Declared>> = Mutex::new(BTreeMap::new());

/// Checks a kernel that is about to be registered and returns the argument lengths that
/// [`block_kernel`] was told. `None`: `block_kernel` did not make the kernel.
///
/// # Errors
/// Returns `plugin` if fields of a block kernel were exchanged, or it is registered a second time.
pub(crate) fn declared(k: &LoadedKernel) -> Result<Option<Vec<u64>>> {
    let ours = k.run as usize == run_boxed as *const () as usize;
    let mut all = DECLARED.lock().unwrap_or_else(PoisonError::into_inner);
    let wrong = |what: &str| Err(Error::new(ErrorKind::PLUGIN, format!("a kernel of `block_kernel` {what}")));
    let freed = k.drop.as_ref().into_option().is_some_and(|d| d.0 as usize == drop_boxed as *const () as usize);
    match (ours, all.get_mut(&(k.ctx as usize))) {
        (false, None) if !freed => Ok(None),
        (true, Some(d)) if freed && k.scratch_bytes >= d.scratch_bytes && *k.access == *d.access => {
            if std::mem::replace(&mut d.taken, true) {
                return wrong("is bound a second time");
            }
            Ok(Some(d.lens.clone()))
        }
        _ => wrong("was changed behind it"),
    }
}

/// Checks the argument lengths that `block_kernel` was told against those that a test passes.
///
/// # Errors
/// Returns `failed` if `block_kernel` was told a longer length.
pub(crate) fn check_lengths(k: &LoadedKernel, given: &[u64]) -> Result<()> {
    let all = DECLARED.lock().unwrap_or_else(PoisonError::into_inner);
    let told = all.get(&(k.ctx as usize)).filter(|_| k.run as usize == run_boxed as *const () as usize);
    let longer = told.and_then(|t| t.lens.iter().zip(given).position(|(t, g)| t > g));
    match longer {
        Some(i) => Err(Error::failed(format!("the kernel was told of more bytes than argument {i} has"))),
        None => Ok(()),
    }
}

unsafe extern "C" fn run_boxed(ctx: *const c_void, call: *const KernelCall) -> i32 {
    // SAFETY: `ctx` is the `Boxed` of `block_kernel`; `call` is live during the call (contract of
    // KernelFn).
    let (b, call) = unsafe { (&*(ctx as *const Boxed), &*call) };
    let args = BlockArgs::new(call, &b.lens, &b.access, b.scratch_bytes);
    match crate::abi::guard("kernel", || b.kernel.run(&args)) {
        crate::abi::RResult::ROk(()) => 0,
        crate::abi::RResult::RErr(e) => {
            last_error::set(e);
            1
        }
    }
}
unsafe extern "C" fn drop_boxed(ctx: *mut c_void) {
    DECLARED.lock().unwrap_or_else(PoisonError::into_inner).remove(&(ctx as usize));
    // SAFETY: `block_kernel` made it, and it is dropped once.
    crate::abi::guard_drop(|| drop(unsafe { Box::from_raw(ctx as *mut Boxed) }))
}

extern "C" fn take_error() -> ROption<Error> {
    last_error::take().into()
}

/// Turns a kernel in safe Rust into a device kernel. `lens` and `access` are the bytes and access
/// of each argument, as the executor was told them
/// ([`LoadRequest::arg_bytes`](crate::engine::LoadRequest::arg_bytes)). When the kernel is bound,
/// `lens` is checked against the host's plan, and a kernel that claims more is refused.
pub fn block_kernel(
    kernel: Box<dyn BlockKernel>,
    lens: Vec<u64>,
    access: Vec<Access>,
    scratch_bytes: u64,
) -> LoadedKernel {
    let a = access.clone().into();
    let told = Declared { lens: lens.clone(), access: access.clone(), scratch_bytes, taken: false };
    let ctx = Box::into_raw(Box::new(Boxed { kernel, lens, access, scratch_bytes })) as *mut c_void;
    DECLARED.lock().unwrap_or_else(PoisonError::into_inner).insert(ctx as usize, told);
    LoadedKernel {
        run: run_boxed,
        ctx,
        drop: ROption::RSome(DropFn(drop_boxed)),
        access: a,
        scratch_bytes,
        last_error: ROption::RSome(LastErrorFn(take_error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn parts_cover_all_once_in_whole_units() {
        for (n, unit, parts) in [(0, 1, 3), (10, 1, 3), (10, 4, 3), (1000, 16, 7), (5, 16, 8)] {
            let mut next = 0;
            for k in 0..parts {
                let r = split_range(n, unit, k, parts);
                assert_eq!(r.start.min(n), next.min(n));
                next = r.end.max(next);
                assert!(r.end == n || r.end.is_multiple_of(unit));
            }
            assert_eq!(next, n);
        }
    }
}
