//! The kernel contract inside this crate, tiling data, and the adapter to the device's block
//! kernel.
use crate::sig::Places;
use ge_kernels::simd::{Level, with_level};
use ge_kernels::view::{Elem, Out, Parts, block_range, cast_slice, cast_slice_mut};
use ge_plugin_api::author::tiling_sink;
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, LoadedKernel, Writer, block_kernel};
use ge_plugin_api::{Error, Result};
use std::cell::RefCell;
use std::ops::Range;

/// A kernel over units of work. The bits of a unit depend on nothing but the inputs.
pub trait Kernel: Send + Sync + 'static {
    /// Number of units.
    fn units(&self) -> usize;
    /// Elementary operations of all units together, for block_dim and planning.
    fn work(&self) -> u64;
    /// Multiply-adds of all units together, of a kernel that is made of products.
    fn products(&self) -> u64 {
        0
    }
    /// Arithmetic operations of all units together; none where numbers are moved alone.
    fn operations(&self) -> u64 {
        match self.products() {
            0 => self.work(),
            products => products.saturating_mul(2),
        }
    }
    /// Elements that it reads and writes, of a kernel whose arithmetic may be little beside them.
    fn moved(&self) -> u64 {
        0
    }
    /// Elements that a launch lays out for the cube unit on its way, because they do not come in
    /// its formats.
    fn lays_out(&self) -> u64 {
        0
    }
    /// Elements that each block looks through before it begins, however small its part is.
    fn scanned(&self) -> u64 {
        0
    }
    /// Units one behind the other that prepare the same and share it, where one block does them.
    fn shared(&self) -> usize {
        1
    }
    /// Other ways to divide its work into units, by name; the numbers keep their bits.
    fn schedules(&self) -> Vec<String> {
        Vec::new()
    }
    /// The kernel divided in one of these ways; None where it is none of them.
    fn scheduled(&self, schedule: &str) -> Option<Box<dyn Kernel>> {
        let _ = schedule;
        None
    }
    /// Whether it reads what the outputs hold when it begins: they are variables.
    fn updates(&self) -> bool {
        false
    }
    /// Does some units.
    ///
    /// # Errors
    /// When an operand is not what it was planned to be, or a value is out of range.
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()>;
    /// Does some units by what the device's tiling found: its data behind version and units.
    ///
    /// # Errors
    /// As `run`; and when the data does not fit.
    fn run_tiled(&self, units: Range<usize>, io: &Io<'_, '_>, data: &[u8]) -> Result<()> {
        let _ = data;
        self.run(units, io)
    }
    /// Tiling on the device: from the values of the inputs that tiling reads, in the store's order
    /// (None: absent), to the words of the tiling data.
    ///
    /// # Errors
    /// Where the values do not fit the shapes; and of a kernel without such a tiling.
    fn tile(&self, values: &[Option<Vec<i64>>]) -> Result<Vec<u64>> {
        let _ = values;
        Err(Error::internal("a kernel whose tiling reads no values"))
    }
    /// Bytes of each workspace that tiling on the device wants.
    fn workspaces(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Names of the divisions near one of `a` by `b`: half, as much and twice of each, but it itself.
pub fn near(word: &str, [a, b]: [usize; 2], fits: impl Fn([usize; 2]) -> bool) -> Vec<String> {
    let of = |v: usize| [v / 2, v, v.saturating_mul(2)];
    let all = of(a).into_iter().flat_map(|x| of(b).map(|y| [x, y]));
    all.filter(|t| *t != [a, b] && t.iter().all(|v| *v > 0) && fits(*t))
        .map(|[x, y]| format!("{word}={x}x{y}"))
        .collect()
}

/// The two numbers of a name that [`near`] gave, of a kernel that has it.
pub fn divided(kernel: &dyn Kernel, schedule: &str) -> Option<[usize; 2]> {
    if !kernel.schedules().iter().any(|s| s == schedule) {
        return None;
    }
    let (a, b) = schedule.split_once('=')?.1.split_once('x')?;
    Some([a.parse().ok()?, b.parse().ok()?])
}

/// Inputs and outputs of one block.
pub struct Io<'c, 'a> {
    call: &'c BlockArgs<'a>,
    places: &'c Places,
    watch: Option<&'c Watch>,
}

/// The parts of output 0 that a kernel was lent, in elements.
#[derive(Default)]
pub struct Watch(RefCell<Vec<Range<usize>>>);

impl Watch {
    fn lent(&self, part: Range<usize>) {
        let mut all = self.0.borrow_mut();
        match all.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            Some(last) if last.start <= part.start && part.end <= last.end => {}
            _ => all.push(part),
        }
    }

    /// The parts, each element in one of them.
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
    /// The same, which tells which parts of output 0 it lends.
    pub fn watched<'w>(&'w self, watch: &'w Watch) -> Io<'w, 'a> {
        Io { call: self.call, places: self.places, watch: Some(watch) }
    }

    /// Input `i`.
    ///
    /// # Errors
    /// When it is absent or not aligned.
    pub fn input<T: Elem>(&self, i: usize) -> Result<&[T]> {
        let arg =
            self.places.inputs.get(i).copied().flatten().ok_or_else(|| Error::internal(format!("no input {i}")))?;
        cast_slice(self.call.input::<u8>(arg)?).map_err(|e| Error::failed(format!("input {i}: {e}")))
    }

    /// Input `i`, empty where it is absent.
    ///
    /// # Errors
    /// When it is not aligned.
    pub fn opt_input<T: Elem>(&self, i: usize) -> Result<&[T]> {
        if self.places.inputs.get(i).copied().flatten().is_none() { Ok(&[]) } else { self.input(i) }
    }

    /// Calls `f` with output `k`.
    ///
    /// # Errors
    /// When it is absent, and what `f` says.
    pub fn output<T: Elem, R>(&self, k: usize, f: impl FnOnce(&mut Out<'_, T>) -> Result<R>) -> Result<R> {
        let arg = *self.places.outputs.get(k).ok_or_else(|| Error::internal(format!("no output {k}")))?;
        let mut lent = Lent(self.call.writer::<u8>(arg)?, self.watch.filter(|_| k == 0));
        f(&mut Out::by_parts(self.call.len(arg) / T::KIND.size(), &mut lent))
    }
}

/// An output as the numeric library writes it.
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

/// How a launch shares a kernel's units: version, units, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Units of the whole launch.
    pub units: u64,
    /// Blocks that do them.
    pub block_dim: u32,
}

/// Version of the tiling data.
const VERSION: u64 = 1;
/// Operations that a block should have to be worth starting.
const GRAIN: u64 = 32 * 1024;
/// Blocks of a launch that a thread does, where each does as many.
const BLOCKS_A_THREAD: u32 = 4;

impl Tiling {
    /// The tiling of a kernel on a device of so many cores.
    pub fn of(kernel: &dyn Kernel, cores: u32) -> Tiling {
        let units = kernel.units() as u64;
        let work = kernel.work().max(kernel.moved()).saturating_add(kernel.lays_out());
        // Looking through four elements takes about an operation's time: that of all blocks shall
        // be less than half of the rest.
        let most = work.saturating_mul(2).checked_div(kernel.scanned()).unwrap_or(u64::MAX);
        let worth = (work / GRAIN).min(most).clamp(1, u64::from(cores.max(1)));
        Tiling { units, block_dim: u32::try_from(alike(units.max(1), worth.min(units.max(1)))).unwrap_or(1) }
    }

    /// The tiling data.
    pub fn encode(&self) -> Vec<u8> {
        [VERSION.to_le_bytes(), self.units.to_le_bytes()].concat()
    }

    /// Units of a launch from its tiling data.
    ///
    /// # Errors
    /// `damaged` where the data is not ours.
    pub fn units_of(data: &[u8]) -> Result<u64> {
        match Self::split(data)? {
            (units, []) => Ok(units),
            _ => Err(Error::damaged("tiling data of another kernel")),
        }
    }

    /// Units, and what follows them.
    fn split(data: &[u8]) -> Result<(u64, &[u8])> {
        match data.as_chunks::<8>().0 {
            [v, units, ..] if u64::from_le_bytes(*v) == VERSION => Ok((u64::from_le_bytes(*units), &data[16..])),
            _ => Err(Error::damaged("tiling data of another kernel")),
        }
    }
}

/// Blocks of a launch that is planned for `planned` of them, where `threads` threads do them: one, or
/// so many for each that all end at about the same time. What blocks prepare alike is prepared less
/// often then. The bits do not depend on how many there are.
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

/// An even number of blocks, not far below `most`, that have as many units each; `most` where there
/// is none.
fn alike(units: u64, most: u64) -> u64 {
    let near = (most.div_ceil(2).max(2)..=most).rev().filter(|b| b.is_multiple_of(2));
    near.into_iter().find(|b| units.is_multiple_of(*b)).filter(|_| units < 4 * most).unwrap_or(most)
}

struct OnDevice {
    kernel: Box<dyn Kernel>,
    places: Places,
    /// Argument that holds the tiling data of the device.
    context: Option<usize>,
    /// The most that its loops may use; None: what the machine has.
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
        // Units are the kernel's own, which another build may cut in another way: the bits do not
        // depend on them, and blocks share them whatever their number.
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

/// The device's form of a kernel; `access` of each argument follows from its place.
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

/// The words of the tiling data that [`Kernel::tile`] gave.
pub fn words(data: &[u8]) -> Vec<u64> {
    data.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect()
}

/// Units of element-wise kernels: this many elements.
pub const CHUNK: usize = 4096;

/// The elements of some chunks of `n`.
pub fn chunk(units: &Range<usize>, n: usize) -> Range<usize> {
    (units.start * CHUNK).min(n)..(units.end * CHUNK).min(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lent_is_told_once() {
        let watch = Watch::default();
        for (start, len) in [(10, 5), (15, 5), (0, 3), (12, 4), (30, 0), (2, 4), (25, 1)] {
            watch.lent(start..start + len);
        }
        assert_eq!(watch.parts(), [0..6, 10..20, 25..26]);
    }

    #[test]
    fn blocks_have_as_many_units_each_where_that_costs_few() {
        let all = [(16, 6), (16, 8), (12, 6), (18, 8), (7, 6), (3, 3), (1, 1), (24, 6), (25, 6), (2, 2)];
        assert_eq!(all.map(|(units, most)| alike(units, most)), [4, 8, 6, 6, 6, 3, 1, 6, 6, 2]);
    }

    #[test]
    fn threads_get_a_few_blocks_each_and_what_is_shared_is_cut_for_them_alone() {
        struct Units(usize, usize);
        impl Kernel for Units {
            fn units(&self) -> usize {
                self.0
            }
            fn shared(&self) -> usize {
                self.1
            }
            fn work(&self) -> u64 {
                1 << 30
            }
            fn run(&self, _: Range<usize>, _: &Io<'_, '_>) -> Result<()> {
                Ok(())
            }
        }
        let blocks = |units, shared, planned, threads| blocks_on(&Units(units, shared), planned, threads);
        assert_eq!([blocks(100, 1, 24, 1), blocks(0, 1, 1, 1), blocks(0, 1, 0, 1)], [1, 1, 0]);
        assert_eq!(
            [blocks(100, 1, 24, 2), blocks(24, 1, 24, 2), blocks(5, 1, 5, 2), blocks(100, 1, 24, 64)],
            [8, 8, 5, 24]
        );
        // Two strips of two units each are two blocks; one of four is cut, so that both have a part.
        assert_eq!([blocks(4, 2, 4, 2), blocks(4, 4, 4, 2), blocks(6, 6, 6, 3), blocks(7, 1, 7, 3)], [2, 2, 3, 7]);
        assert_eq!(blocks(11, 1, 24, 4), 8);
    }
}
