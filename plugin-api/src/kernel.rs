//! Contracts of kernels: device kernels as plain functions, host kernels over typed tensor views.
use crate::abi::{ROption, RString, RVec, StableAbi};
use crate::diagnostic::{Error, ErrorKind, Result};
use crate::open_code;
use crate::services::HostTableRef;
use crate::types::{AttrMap, DType, Scalar};
use core::ffi::c_void;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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

/// What is currently handed out of a block's arguments and scratch.
#[derive(Default)]
struct Lent {
    /// Scratch bytes handed out.
    scratch: u64,
    /// Arguments for which a writer exists.
    writers: Vec<usize>,
    /// Writable arguments that were handed out for reading.
    readers: Vec<usize>,
    /// Byte ranges handed out for writing: argument, start, end. Most kernels ask for one or two.
    few: [(usize, usize, usize); 4],
    n: usize,
    /// Ranges that do not fit in `few`: the end by argument and start.
    many: BTreeMap<(usize, usize), usize>,
}

impl Lent {
    fn has_some(&self, arg: usize) -> bool {
        let many = || self.many.range((arg, 0)..=(arg, usize::MAX)).next().is_some();
        self.few[..self.n].iter().any(|s| s.0 == arg) || many()
    }
    fn read(&mut self, arg: usize) -> bool {
        if self.writers.contains(&arg) || self.has_some(arg) {
            return false;
        }
        if !self.readers.contains(&arg) {
            self.readers.push(arg);
        }
        true
    }
    fn whole(&mut self, arg: usize) -> bool {
        let free = !self.writers.contains(&arg) && !self.readers.contains(&arg) && !self.has_some(arg);
        if free {
            self.writers.push(arg);
        }
        free
    }
    fn give_back(&mut self, arg: usize) {
        self.writers.retain(|a| *a != arg);
    }
    /// Records a range; returns false if a part of it is handed out already.
    fn write(&mut self, arg: usize, start: usize, end: usize) -> bool {
        if self.writers.contains(&arg) || self.readers.contains(&arg) {
            return false;
        }
        let few = &mut self.few[..self.n];
        if few.iter().any(|s| s.0 == arg && start < s.2 && s.1 < end) {
            return false;
        }
        let before = self.many.range(..(arg, end)).next_back();
        if before.is_some_and(|((a, _), e)| *a == arg && *e > start) {
            return false;
        }
        // Adjacent ranges, as loops ask for them, become one.
        if let Some(s) = few.iter_mut().find(|s| s.0 == arg && (s.2 == start || s.1 == end)) {
            (s.1, s.2) = (s.1.min(start), s.2.max(end));
        } else if self.n < self.few.len() {
            self.few[self.n] = (arg, start, end);
            self.n += 1;
        } else {
            self.many.insert((arg, start), end);
        }
        true
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

/// A tensor as it crosses the ABI: element type, sizes and memory.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawTensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: crate::abi::erase::RawSlice<u64>,
    /// First byte.
    pub data: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

/// An input of a host kernel.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: &'a [u64],
    /// Contents; 64-byte aligned if the host or the device allocated them.
    pub bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// The elements as type `T`.
    /// # Errors
    /// Returns `failed` if the tensor has another element type, or `internal` if the bytes are not
    /// aligned for `T`.
    pub fn values<T: Scalar + Plain>(&self) -> Result<&'a [T]> {
        if T::DTYPE != self.dtype {
            return Err(Error::failed(format!("found {}, expected {}", self.dtype, T::DTYPE)));
        }
        self.plain()
    }
    /// The bytes as plain numbers of type `T`, whatever the element type is. Trailing bytes that do
    /// not fill a `T` are left out.
    /// # Errors
    /// Returns `internal` if the bytes are not aligned for `T`.
    pub fn plain<T: Plain>(&self) -> Result<&'a [T]> {
        if self.bytes.is_empty() {
            return Ok(&[]);
        }
        if self.bytes.as_ptr().align_offset(align_of::<T>()) != 0 {
            return Err(Error::internal("tensor bytes are not aligned"));
        }
        // SAFETY: aligned, the length is rounded down to whole elements, and Plain types have no
        // invalid bit patterns.
        Ok(unsafe { core::slice::from_raw_parts(self.bytes.as_ptr() as *const T, self.bytes.len() / size_of::<T>()) })
    }
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product::<u64>() as usize
    }
}

/// An output of a host kernel.
pub struct TensorMut<'a> {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: Vec<u64>,
    /// Bytes to write.
    pub bytes: &'a mut [u8],
}

impl TensorMut<'_> {
    /// The elements as type `T`, for writing.
    /// # Errors
    /// Returns `failed` if the output has another element type, or `internal` if the bytes are not
    /// aligned for `T`.
    pub fn values<T: Scalar + Plain>(&mut self) -> Result<&mut [T]> {
        if T::DTYPE != self.dtype {
            return Err(Error::failed(format!("output is {}, expected {}", self.dtype, T::DTYPE)));
        }
        self.plain()
    }
    /// The bytes as plain numbers of type `T`, for writing, whatever the element type is. Trailing
    /// bytes that do not fill a `T` are left out.
    /// # Errors
    /// Returns `internal` if the bytes are not aligned for `T`.
    pub fn plain<T: Plain>(&mut self) -> Result<&mut [T]> {
        if self.bytes.is_empty() {
            return Ok(&mut []);
        }
        if self.bytes.as_ptr().align_offset(align_of::<T>()) != 0 {
            return Err(Error::internal("tensor bytes are not aligned"));
        }
        // SAFETY: as `TensorView::plain`, and the bytes are borrowed mutably.
        Ok(unsafe {
            core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr() as *mut T, self.bytes.len() / size_of::<T>())
        })
    }
}

/// One call of a host kernel. The caller gives the memory of outputs whose shape it knows; the
/// kernel allocates the others.
pub struct KernelCtx<'a> {
    /// Operator type.
    pub op: &'a str,
    /// Name of the node, for messages.
    pub node: &'a str,
    /// Attributes of the node.
    pub attrs: &'a AttrMap,
    /// Inputs; `None` for an absent optional input.
    pub inputs: Vec<Option<TensorView<'a>>>,
    /// Outputs; `alloc_output` allocates those that are `Wanted`.
    outputs: Vec<OutputSlot<'a>>,
}

enum OutputSlot<'a> {
    Given(DType, Vec<u64>, &'a mut [u8]),
    Wanted(DType),
    Made(HostTensor),
}

/// A tensor that a host kernel allocated; its memory is 64-byte aligned.
/// # Examples
/// ```
/// use ge_plugin_api::kernel::HostTensor;
/// use ge_plugin_api::types::DType;
///
/// let mut t = HostTensor::zeroed(DType::F32, &[2, 3])?;
/// t.bytes_mut()[..4].copy_from_slice(&1.5f32.to_le_bytes());
/// assert_eq!(t.view().values::<f32>()?[..2], [1.5, 0.0]);
/// # Ok::<(), ge_plugin_api::Error>(())
/// ```
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct HostTensor {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: RVec<u64>,
    /// Memory in units of 64 bytes; only the first `len` bytes are used.
    store: RVec<Line>,
    len: u64,
}

#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, StableAbi)]
struct Line([u64; 8]);

impl HostTensor {
    /// A zeroed tensor.
    /// # Errors
    /// Returns `failed` if the size overflows, the type of its elements has no fixed width, or there
    /// is not enough memory.
    pub fn zeroed(dtype: DType, dims: &[u64]) -> Result<HostTensor> {
        let count = crate::types::Shape::of(dims).count();
        if (count, dtype) == (Some(0), DType::STRING) {
            return HostTensor::from_bytes(dtype, dims, &crate::types::bytes_of_strings::<&str>(&[]));
        }
        let len = count
            .and_then(|c| if c == 0 { Some(0) } else { dtype.bytes_of(c) })
            .ok_or_else(|| Error::failed(format!("a tensor {dtype}{dims:?} has no size")))?;
        HostTensor::with_len(dtype, dims, len)
    }
    /// A zeroed tensor of `len` bytes, for types without a fixed width (strings).
    /// # Errors
    /// Returns `failed` if there is not enough memory.
    pub fn with_len(dtype: DType, dims: &[u64], len: u64) -> Result<HostTensor> {
        let lines = usize::try_from(len.div_ceil(64)).map_err(|_| Error::failed("tensor too large"))?;
        let mut v: Vec<Line> = Vec::new();
        v.try_reserve_exact(lines).map_err(|_| Error::failed(format!("no memory for {len} bytes")))?;
        v.resize(lines, Line([0; 8]));
        Ok(HostTensor { dtype, dims: dims.into(), store: v.into(), len })
    }
    /// A tensor with a copy of `bytes`.
    /// # Errors
    /// Returns `failed` if there is not enough memory.
    pub fn from_bytes(dtype: DType, dims: &[u64], bytes: &[u8]) -> Result<HostTensor> {
        let mut t = HostTensor::with_len(dtype, dims, bytes.len() as u64)?;
        t.bytes_mut().copy_from_slice(bytes);
        Ok(t)
    }
    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `store` holds at least `len` bytes (with_len); every byte is a valid u8.
        unsafe { core::slice::from_raw_parts(self.store.as_ptr() as *const u8, self.len as usize) }
    }
    /// The contents, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`; borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.store.as_mut_ptr() as *mut u8, self.len as usize) }
    }
    /// A read-only view of the tensor.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, dims: &self.dims, bytes: self.bytes() }
    }
}

impl<'a> KernelCtx<'a> {
    /// A call whose outputs have the given types and are all allocated by the kernel (constant
    /// folding, dynamic shapes).
    pub fn new(
        op: &'a str,
        node: &'a str,
        attrs: &'a AttrMap,
        inputs: Vec<Option<TensorView<'a>>>,
        output_types: &[DType],
    ) -> KernelCtx<'a> {
        KernelCtx { op, node, attrs, inputs, outputs: output_types.iter().map(|&d| OutputSlot::Wanted(d)).collect() }
    }
    /// Gives the memory of output `i`, whose shape is known. Does nothing if there is no output
    /// `i`.
    pub fn give_output(&mut self, i: usize, dtype: DType, dims: Vec<u64>, bytes: &'a mut [u8]) {
        if let Some(o) = self.outputs.get_mut(i) {
            *o = OutputSlot::Given(dtype, dims, bytes);
        }
    }
    /// Input `i`.
    /// # Errors
    /// Returns `failed` if the node has no input `i`.
    pub fn input(&self, i: usize) -> Result<TensorView<'a>> {
        self.inputs.get(i).copied().flatten().ok_or_else(|| Error::failed(format!("input {i} is missing")))
    }
    /// Input `i`, or `None` if it is absent.
    pub fn opt_input(&self, i: usize) -> Option<TensorView<'a>> {
        self.inputs.get(i).copied().flatten()
    }
    /// Number of outputs.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }
    /// The element type that output `i` must have; `None` if there is no output `i`.
    pub fn output_dtype(&self, i: usize) -> Option<DType> {
        Some(match self.outputs.get(i)? {
            OutputSlot::Given(d, ..) | OutputSlot::Wanted(d) => *d,
            OutputSlot::Made(t) => t.dtype,
        })
    }
    /// The sizes of output `i`, if they are known already.
    pub fn output_dims(&self, i: usize) -> Option<&[u64]> {
        match self.outputs.get(i)? {
            OutputSlot::Given(_, d, _) => Some(d),
            OutputSlot::Made(t) => Some(&t.dims),
            OutputSlot::Wanted(_) => None,
        }
    }
    /// Output `i` with sizes `dims`. Uses the given memory if its shape is `dims`; allocates memory
    /// if none was given.
    /// # Errors
    /// Returns `failed` if the given memory has another shape or there is not enough memory, and
    /// `internal` if the node has no output `i`.
    pub fn alloc_output(&mut self, i: usize, dims: &[u64]) -> Result<TensorMut<'_>> {
        let n = self.outputs.len();
        let slot =
            self.outputs.get_mut(i).ok_or_else(|| Error::internal(format!("kernel writes output {i} of {n}")))?;
        if let OutputSlot::Wanted(d) = slot {
            *slot = OutputSlot::Made(HostTensor::zeroed(*d, dims)?);
        }
        match slot {
            OutputSlot::Given(dtype, planned, bytes) => {
                if planned.as_slice() != dims {
                    return Err(Error::failed(format!("output {i} has shape {dims:?}, the plan has {planned:?}")));
                }
                Ok(TensorMut { dtype: *dtype, dims: planned.clone(), bytes })
            }
            OutputSlot::Made(t) => {
                if t.dims.as_slice() != dims {
                    *t = HostTensor::zeroed(t.dtype, dims)?;
                }
                Ok(TensorMut { dtype: t.dtype, dims: dims.to_vec(), bytes: t.bytes_mut() })
            }
            OutputSlot::Wanted(_) => Err(Error::internal("output slot")),
        }
    }
    /// Sets output `i` to a whole tensor (for strings, whose byte count does not follow from the
    /// shape).
    /// # Errors
    /// Returns `failed` if the given memory has another shape or is too small, and `internal` if
    /// the node has no output `i`.
    pub fn set_output(&mut self, i: usize, tensor: HostTensor) -> Result<()> {
        match self.outputs.get_mut(i) {
            Some(OutputSlot::Given(_, dims, bytes)) => {
                if dims.as_slice() != tensor.dims.as_slice() || bytes.len() < tensor.bytes().len() {
                    return Err(Error::failed(format!("output {i} does not fit its planned memory")));
                }
                bytes[..tensor.bytes().len()].copy_from_slice(tensor.bytes());
                Ok(())
            }
            Some(o) => {
                *o = OutputSlot::Made(tensor);
                Ok(())
            }
            None => Err(Error::internal(format!("kernel writes output {i}, which the node lacks"))),
        }
    }
    /// The tensors that the kernel allocated, by output; `None` for outputs whose memory was given.
    pub fn into_made(self) -> Vec<Option<HostTensor>> {
        self.outputs.into_iter().map(|o| if let OutputSlot::Made(t) = o { Some(t) } else { None }).collect()
    }
    /// Operator and node name, for messages about this call.
    pub fn label(&self) -> String {
        format!("{} `{}`", self.op, self.node)
    }
}

/// A kernel on the host. One registration serves constant folding, the host and AI CPU engines, and
/// dynamic execution. Every function `fn(&mut KernelCtx<'_>) -> Result<()>` is a host kernel.
///
/// # Examples
/// ```
/// use ge_plugin_api::Result;
/// use ge_plugin_api::kernel::{HostKernel, HostTensor, KernelCtx};
/// use ge_plugin_api::types::{AttrMap, DType};
///
/// /// x f32\[d0..dn\] -> y f32\[d0..dn\], each number doubled.
/// fn double(ctx: &mut KernelCtx<'_>) -> Result<()> {
///     let x = ctx.input(0)?;
///     let mut y = ctx.alloc_output(0, x.dims)?;
///     for (y, x) in y.values::<f32>()?.iter_mut().zip(x.values::<f32>()?) {
///         *y = 2.0 * x;
///     }
///     Ok(())
/// }
/// let x = HostTensor::from_bytes(DType::F32, &[2], &[1.0f32, -3.0].map(f32::to_le_bytes).concat())?;
/// let attrs = AttrMap::default();
/// let mut call = KernelCtx::new("Double", "n", &attrs, vec![Some(x.view())], &[DType::F32]);
/// HostKernel::run(&double, &mut call)?;
/// let y = call.into_made().remove(0).expect("the kernel made output 0");
/// assert_eq!(y.view().values::<f32>()?, [2.0, -6.0]);
/// # Ok::<(), ge_plugin_api::Error>(())
/// ```
pub trait HostKernel: Send + Sync {
    /// Computes the outputs.
    /// # Errors
    /// Returns an error if the outputs cannot be computed; the run, or the folding of the node,
    /// then fails.
    fn run(&self, ctx: &mut KernelCtx<'_>) -> Result<()>;
}
impl<F: Fn(&mut KernelCtx<'_>) -> Result<()> + Send + Sync> HostKernel for F {
    fn run(&self, ctx: &mut KernelCtx<'_>) -> Result<()> {
        self(ctx)
    }
}

/// The call of a host kernel as it crosses the ABI.
#[repr(C)]
#[derive(StableAbi)]
pub struct HostCall {
    /// Operator type.
    pub op: RString,
    /// Name of the node.
    pub node: RString,
    /// Attributes of the node.
    pub attrs: AttrMap,
    /// Inputs; `None` for an absent optional input.
    pub inputs: RVec<ROption<RawTensor>>,
    /// Element types of the outputs.
    pub outputs: RVec<DType>,
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
    #[test]
    fn each_range_is_handed_out_once() {
        let mut l = Lent::default();
        assert!(l.write(0, 0, 8) && l.write(0, 8, 16) && !l.write(0, 12, 20) && l.write(1, 12, 20));
        assert!(!l.write(0, 0, 1) && !l.read(0) && !l.whole(0));
        // More ranges than fit in `few`.
        for k in (2..200).rev() {
            assert!(l.write(0, k * 100, k * 100 + 10), "{k}");
        }
        for k in 2..200 {
            assert!(!l.write(0, k * 100 + 5, k * 100 + 20) && !l.write(0, k * 100 - 5, k * 100 + 1), "{k}");
            assert!(l.write(0, k * 100 + 10, k * 100 + 20), "{k}");
        }
        assert!(!l.write(0, 50, 20_000));
        assert!(l.read(2) && l.read(2) && !l.write(2, 0, 1) && !l.whole(2));
        assert!(l.whole(3) && !l.whole(3) && !l.write(3, 0, 1) && !l.read(3));
        l.give_back(3);
        assert!(l.write(3, 0, 1));
    }
    #[test]
    fn outputs_are_made_or_must_fit() {
        let attrs = AttrMap::default();
        let mut c = KernelCtx::new("X", "n", &attrs, vec![], &[DType::F32]);
        c.alloc_output(0, &[2]).expect("made").values::<f32>().expect("f32")[1] = 3.0;
        let made = c.into_made();
        assert_eq!(made[0].as_ref().expect("made").view().values::<f32>().expect("f32"), &[0.0, 3.0]);
        let mut c = KernelCtx::new("X", "n", &attrs, vec![], &[DType::F32]);
        let mut mem = [0u8; 8];
        c.give_output(0, DType::F32, vec![2], &mut mem);
        assert!(c.alloc_output(0, &[3]).is_err());
    }
}
