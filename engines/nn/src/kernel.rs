//! The kernel trait of this crate, tiling data, and the adapter to the device's block kernels.
use crate::sig::Places;
use ge_kernels::simd::{Level, with_level};
use ge_kernels::view::{Elem, Out, Parts, block_range, cast_slice, cast_slice_mut};
use ge_plugin_api::author::tiling_sink;
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, LoadedKernel, Writer, block_kernel};
use ge_plugin_api::{Error, Result};
use std::cell::RefCell;
use std::ops::Range;

/// A kernel whose work is divided into units. The bits of a unit depend only on the inputs.
pub trait Kernel: Send + Sync + 'static {
    /// Number of units.
    fn units(&self) -> usize;
    /// Number of elementary operations of all units, used for block_dim and planning.
    fn work(&self) -> u64;
    /// Number of multiply-adds of all units, for kernels made of products; 0 for others.
    fn products(&self) -> u64 {
        0
    }
    /// Number of arithmetic operations of all units: by default two for each multiply-add, or else
    /// `work`. Kernels that only move data say 0.
    fn operations(&self) -> u64 {
        match self.products() {
            0 => self.work(),
            products => products.saturating_mul(2),
        }
    }
    /// Number of elements read and written, for kernels with little arithmetic per element; 0 for
    /// others.
    fn moved(&self) -> u64 {
        0
    }
    /// Number of elements that a launch converts to the cube unit's formats because they do not
    /// come in them.
    fn lays_out(&self) -> u64 {
        0
    }
    /// Number of elements that each block scans before it begins, however small its part is.
    fn scanned(&self) -> u64 {
        0
    }
    /// Number of consecutive units that share the same preparation if one block computes them.
    fn shared(&self) -> usize {
        1
    }
    /// Names of other ways to divide the work into units; all give the same bits.
    fn schedules(&self) -> Vec<String> {
        Vec::new()
    }
    /// The kernel divided in the named way; `None` if it has no such way.
    fn scheduled(&self, schedule: &str) -> Option<Box<dyn Kernel>> {
        let _ = schedule;
        None
    }
    /// Whether it reads what the outputs held before it began, because they are variables.
    fn updates(&self) -> bool {
        false
    }
    /// Computes some units.
    ///
    /// # Errors
    /// Fails if an operand differs from what was planned, or if a value is out of range.
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()>;
    /// Computes some units with the result of the tiling on the device; `data` is what follows the
    /// version and the units.
    ///
    /// # Errors
    /// See `run`; also fails if the data does not match.
    fn run_tiled(&self, units: Range<usize>, io: &Io<'_, '_>, data: &[u8]) -> Result<()> {
        let _ = data;
        self.run(units, io)
    }
    /// Tiling on the device: computes the words of the tiling data from the values of the inputs
    /// that tiling reads, in the store's order (`None`: the input is absent).
    ///
    /// # Errors
    /// Fails if the values do not match the shapes, or if the kernel has no such tiling.
    fn tile(&self, values: &[Option<Vec<i64>>]) -> Result<Vec<u64>> {
        let _ = values;
        Err(Error::internal("a kernel whose tiling reads no values"))
    }
    /// Size in bytes of each workspace that tiling on the device needs.
    fn workspaces(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Names of divisions near `a` by `b`: each of the two halved, unchanged or doubled, except both
/// unchanged.
pub fn near(word: &str, [a, b]: [usize; 2], fits: impl Fn([usize; 2]) -> bool) -> Vec<String> {
    let of = |v: usize| [v / 2, v, v.saturating_mul(2)];
    let all = of(a).into_iter().flat_map(|x| of(b).map(|y| [x, y]));
    all.filter(|t| *t != [a, b] && t.iter().all(|v| *v > 0) && fits(*t))
        .map(|[x, y]| format!("{word}={x}x{y}"))
        .collect()
}

/// The two numbers in a name made by [`near`]; `None` if the kernel has no such schedule.
pub fn divided(kernel: &dyn Kernel, schedule: &str) -> Option<[usize; 2]> {
    if !kernel.schedules().iter().any(|s| s == schedule) {
        return None;
    }
    let (a, b) = schedule.split_once('=')?.1.split_once('x')?;
    Some([a.parse().ok()?, b.parse().ok()?])
}

/// The inputs and outputs of one block.
pub struct Io<'c, 'a> {
    call: &'c BlockArgs<'a>,
    places: &'c Places,
    watch: Option<&'c Watch>,
}

/// Records the parts of output 0 that were lent to a kernel, as element ranges.
#[derive(Default)]
pub struct Watch(RefCell<Vec<Range<usize>>>);

impl Watch {
    /// Records a part that was lent.
    pub fn lent(&self, part: Range<usize>) {
        let mut all = self.0.borrow_mut();
        match all.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            Some(last) if last.start <= part.start && part.end <= last.end => {}
            _ => all.push(part),
        }
    }

    /// The recorded parts, merged so that each element is in one of them.
    pub fn parts(self) -> Vec<Range<usize>> {
        let mut all = self.0.into_inner();
        all.sort_unstable_by_key(|r| r.start);
        let mut parts: Vec<Range<usize>> = Vec::with_capacity(all.len());
        for r in all.into_iter().filter(|r| !r.is_empty()) {
            match parts.last_mut() {
                Some(last) if r.start <= last.end => last.end = last.end.max(r.end),
                _ => parts.push(r),
            }
        }
        parts
    }
}

impl<'a> Io<'_, 'a> {
    /// The same inputs and outputs, recording in `watch` which parts of output 0 are lent.
    pub fn watched<'w>(&'w self, watch: &'w Watch) -> Io<'w, 'a> {
        Io { call: self.call, places: self.places, watch: Some(watch) }
    }

    /// Returns input `i`.
    ///
    /// # Errors
    /// Fails if the input is absent or not aligned.
    pub fn input<T: Elem>(&self, i: usize) -> Result<&[T]> {
        let arg =
            self.places.inputs.get(i).copied().flatten().ok_or_else(|| Error::internal(format!("no input {i}")))?;
        cast_slice(self.call.input::<u8>(arg)?).map_err(|e| Error::failed(format!("input {i}: {e}")))
    }

    /// Returns input `i`, or an empty slice if it is absent.
    ///
    /// # Errors
    /// Fails if the input is not aligned.
    pub fn opt_input<T: Elem>(&self, i: usize) -> Result<&[T]> {
        if self.places.inputs.get(i).copied().flatten().is_none() { Ok(&[]) } else { self.input(i) }
    }

    /// Calls `f` with output `k`.
    ///
    /// # Errors
    /// Fails if the output is absent, or if `f` fails.
    pub fn output<T: Elem, R>(&self, k: usize, f: impl FnOnce(&mut Out<'_, T>) -> Result<R>) -> Result<R> {
        let (mut lent, bytes) = self.lent(k)?;
        f(&mut Out::by_parts(bytes / T::KIND.size(), &mut lent))
    }

    /// The memory of output `k`, and its size in bytes.
    fn lent(&self, k: usize) -> Result<(Lent<'_>, usize)> {
        let arg = *self.places.outputs.get(k).ok_or_else(|| Error::internal(format!("no output {k}")))?;
        Ok((Lent(self.call.writer::<u8>(arg)?, self.watch.filter(|_| k == 0)), self.call.len(arg)))
    }
}

/// An output, in the form in which the numeric library writes it.
struct Lent<'b>(Writer<'b, u8>, Option<&'b Watch>);

impl<T: Elem> Parts<T> for Lent<'_> {
    fn part(&mut self, start: usize, len: usize) -> Option<&mut [T]> {
        let size = T::KIND.size();
        if let Some(watch) = self.1 {
            watch.lent(start..start.checked_add(len)?);
        }
        cast_slice_mut(self.0.part(start.checked_mul(size)?, len.checked_mul(size)?)?).ok()
    }
}

/// How the blocks of a launch share a kernel's units. Encoded as version and units, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Number of units of the whole launch.
    pub units: u64,
    /// Number of blocks that compute them.
    pub block_dim: u32,
}

/// Version of the tiling data.
const VERSION: u64 = 1;
/// Minimum number of operations that makes starting a block worthwhile.
const GRAIN: u64 = 32 * 1024;
/// Maximum number of blocks per thread in a launch.
const BLOCKS_A_THREAD: u32 = 4;

impl Tiling {
    /// The tiling of a kernel on a device with `cores` cores.
    pub fn of(kernel: &dyn Kernel, cores: u32) -> Tiling {
        let units = kernel.units() as u64;
        let work = kernel.work().max(kernel.moved()).saturating_add(kernel.lays_out());
        // Scanning four elements takes about as long as one operation; the scans of all blocks
        // together must take less than half of the rest.
        let most = work.saturating_mul(2).checked_div(kernel.scanned()).unwrap_or(u64::MAX);
        let worth = (work / GRAIN).min(most).clamp(1, u64::from(cores.max(1)));
        Tiling { units, block_dim: u32::try_from(alike(units.max(1), worth.min(units.max(1)))).unwrap_or(1) }
    }

    /// Encodes the tiling data.
    pub fn encode(&self) -> Vec<u8> {
        [VERSION.to_le_bytes(), self.units.to_le_bytes()].concat()
    }

    /// The number of units of a launch, from its tiling data.
    ///
    /// # Errors
    /// `damaged` if the data was not written by this engine.
    pub fn units_of(data: &[u8]) -> Result<u64> {
        match Self::split(data)? {
            (units, []) => Ok(units),
            _ => Err(Error::damaged("tiling data of another kernel")),
        }
    }

    /// The number of units, and the data that follows it.
    fn split(data: &[u8]) -> Result<(u64, &[u8])> {
        match data.as_chunks::<8>().0 {
            [v, units, ..] if u64::from_le_bytes(*v) == VERSION => Ok((u64::from_le_bytes(*units), &data[16..])),
            _ => Err(Error::damaged("tiling data of another kernel")),
        }
    }
}

/// Number of blocks for a launch that was planned with `planned` blocks, if `threads` threads
/// execute them: one, or so many per thread that all threads end at about the same time.
/// Preparation that every block repeats is then repeated less often. The bits do not depend on the
/// number of blocks.
pub fn blocks_on(kernel: &dyn Kernel, planned: u32, threads: u32) -> u32 {
    if threads <= 1 {
        return planned.min(1);
    }
    let units = kernel.units() as u64;
    let alone = units.div_ceil(kernel.shared().max(1) as u64).max(u64::from(threads));
    let most = alone.min(u64::from(threads.saturating_mul(BLOCKS_A_THREAD)));
    if u64::from(planned) <= most {
        return planned;
    }
    u32::try_from(most).unwrap_or(planned) / threads * threads
}

/// An even number of blocks, not far below `most`, that divides the units evenly; `most` if there
/// is none.
pub fn alike(units: u64, most: u64) -> u64 {
    let near = (most.div_ceil(2).max(2)..=most).rev().filter(|b| b.is_multiple_of(2));
    near.into_iter().find(|b| units.is_multiple_of(*b)).filter(|_| units < 4 * most).unwrap_or(most)
}

struct OnDevice {
    kernel: Box<dyn Kernel>,
    places: Places,
    /// Index of the argument that holds the device's tiling data, if any.
    context: Option<usize>,
    /// The highest instruction set that its loops may use; `None`: whatever the machine has.
    level: Option<Level>,
    node: String,
    op: String,
}

impl BlockKernel for OnDevice {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        match self.level {
            None => self.units(call),
            Some(level) => with_level(level, || self.units(call)),
        }
    }
}

impl OnDevice {
    fn units(&self, call: &BlockArgs<'_>) -> Result<()> {
        // The units of this build may be cut differently from those of the build that planned the
        // launch. That does no harm: the bits do not depend on the units, and any number of blocks
        // can share them.
        let data = match self.context {
            Some(arg) => {
                let (units, data) = Tiling::split(tiling_sink::tiling_data(call, arg)?)?;
                if units != self.kernel.units() as u64 {
                    let own = self.kernel.units();
                    return Err(Error::damaged(format!("tiling is for {units} units, the kernel has {own}")));
                }
                data
            }
            None => Tiling::units_of(call.tiling()).map(|_| &[][..])?,
        };
        let part = block_range(self.kernel.units(), call.block_idx(), call.block_dim());
        if part.is_empty() {
            return Ok(());
        }
        let io = Io { call, places: &self.places, watch: None };
        match self.context {
            Some(_) => self.kernel.run_tiled(part, &io, data),
            None => self.kernel.run(part, &io),
        }
        .map_err(|e| e.at_node(&self.node, &self.op))
    }
}

/// Wraps a kernel for the device; the access of each argument follows from its place.
pub fn on_device(kernel: Box<dyn Kernel>, places: Places, level: Option<Level>, node: &str, op: &str) -> LoadedKernel {
    let writes = |a: &usize| places.outputs.contains(a) || places.workspaces.contains(a);
    let written = if kernel.updates() { Access::READ_WRITE } else { Access::WRITE };
    let access = (0..places.bytes.len()).map(|a| if writes(&a) { written } else { Access::READ });
    let (lens, access, context) = (places.bytes.clone(), access.collect(), places.context);
    block_kernel(
        Box::new(OnDevice { kernel, places, context, level, node: node.into(), op: op.into() }),
        lens,
        access,
        0,
    )
}

/// The words of the tiling data that [`Kernel::tile`] computed.
pub fn words(data: &[u8]) -> Vec<u64> {
    data.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect()
}

/// Number of elements per unit of element-wise kernels.
pub const CHUNK: usize = 4096;

/// The element range of some chunks of `n` elements.
pub fn chunk(units: &Range<usize>, n: usize) -> Range<usize> {
    (units.start * CHUNK).min(n)..(units.end * CHUNK).min(n)
}
