//! Kernels that run slice by slice (FFTS_PLUS). A context graph is a kernel that runs other
//! kernels, each on one slice of its arguments as soon as its predecessor contexts have run on the
//! same slice. The host turns each FFTS+ task that it loads into one context graph.
//!
//! Slices are processed in lanes: lane `w` runs the slices `w`, `w + window`, … one after the
//! other, and intermediate results of the contexts are in memory of the lane. Each block of the
//! launch runs the lanes `block_idx`, `block_idx + block_dim`, …. The position of a context's
//! arguments follows from slice and lane alone, so results do not depend on the order of execution.
use crate::abi::{ROption, RResult, guard};
use crate::chain::Link;
use crate::diagnostic::{Error, Result};
use crate::kernel::{Access, DropFn, KernelCall, LastErrorFn, LoadedKernel, last_error};
use core::ffi::c_void;

/// Where an argument of a context is within the arguments of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceArg {
    /// Index of the task's argument.
    pub arg: usize,
    /// Offset from the start of that argument, in bytes.
    pub offset: u64,
    /// Distance between slices, or between lanes if `lane` is set, in bytes.
    pub step: u64,
    /// Whether the position depends on the lane instead of the slice.
    pub lane: bool,
}

/// Maximum number of slices of a task; the width of the hardware field limits it.
const MOST_SLICES: u32 = 65_535;

impl SliceArg {
    /// An argument of the kernel that is not used; its address is null.
    pub const NOTHING: SliceArg = SliceArg { arg: usize::MAX, offset: 0, step: 0, lane: false };

    fn at(&self, slice: u64, lane: u64) -> Option<u64> {
        let k = if self.lane { lane } else { slice };
        self.step.checked_mul(k)?.checked_add(self.offset)
    }
}

/// One context: a kernel, and the contexts that run after it.
pub struct Context {
    /// Kernel of all slices, and another one for the last slice if that is shorter. `None`: a cache
    /// hint, a start or an end.
    pub kernel: Option<(Link, Option<Link>)>,
    /// Where the arguments of the kernel are.
    pub args: Vec<SliceArg>,
    /// Bytes of each argument in one slice.
    pub bytes: Vec<u64>,
    /// Bytes of each argument in the last slice.
    pub tail_bytes: Vec<u64>,
    /// Indices of the contexts that wait for this one.
    pub successors: Vec<u32>,
    /// Number of contexts that it waits for.
    pub pred_cnt: u32,
}

/// A context graph.
pub struct ContextGraph {
    /// Number of slices.
    pub threads: u32,
    /// Number of lanes.
    pub window: u32,
    /// Contexts; successors name them by index.
    pub contexts: Vec<Context>,
}

/// Makes the kernel of a context graph. `access` and `bytes` are the access and length of each
/// argument of the task.
///
/// # Errors
/// Returns `damaged` if the graph is inconsistent, contexts wait for each other, or an argument
/// reaches beyond its memory.
pub fn sliced(graph: ContextGraph, access: Vec<Access>, bytes: &[u64]) -> Result<LoadedKernel> {
    graph.check(bytes)?;
    let links = graph.contexts.iter().filter_map(|c| c.kernel.as_ref());
    let scratch = |l: &Link| l.kernel.scratch_bytes;
    let scratch_bytes = links.map(|(a, b)| scratch(a).max(b.as_ref().map_or(0, scratch))).max().unwrap_or(0);
    let ctx = Box::into_raw(Box::new(graph)) as *mut c_void;
    Ok(LoadedKernel {
        run,
        ctx,
        drop: ROption::RSome(DropFn(free)),
        access: access.into(),
        scratch_bytes,
        last_error: ROption::RSome(LastErrorFn(take_error)),
    })
}

unsafe extern "C" fn run(ctx: *const c_void, call: *const KernelCall) -> i32 {
    // SAFETY: `ctx` is the ContextGraph of `sliced`; the call is live (contract of KernelFn).
    let (graph, call) = unsafe { (&*(ctx as *const ContextGraph), &*call) };
    match guard("context graph", || graph.block(call)) {
        RResult::ROk(()) => 0,
        RResult::RErr(e) => {
            last_error::set(e);
            1
        }
    }
}
unsafe extern "C" fn free(ctx: *mut c_void) {
    // SAFETY: `sliced` made it, and it is dropped once.
    crate::abi::guard_drop(|| drop(unsafe { Box::from_raw(ctx as *mut ContextGraph) }))
}
extern "C" fn take_error() -> ROption<Error> {
    last_error::take().into()
}

impl ContextGraph {
    /// Checks that every context runs once for each slice, and only accesses memory within the
    /// arguments.
    fn check(&self, bytes: &[u64]) -> Result<()> {
        let bad = |what: String| Err(Error::damaged(format!("the context graph is broken: {what}")));
        if self.threads == 0 || self.threads > MOST_SLICES || !(1..=self.threads).contains(&self.window) {
            return bad(format!("{} slices in {} lanes", self.threads, self.window));
        }
        let mut waits: Vec<u32> = self.contexts.iter().map(|c| c.pred_cnt).collect();
        let mut ready: Vec<usize> = (0..waits.len()).filter(|k| waits[*k] == 0).collect();
        let mut seen = 0;
        while let Some(k) = ready.pop() {
            seen += 1;
            for s in &self.contexts[k].successors {
                let Some(w) = waits.get_mut(*s as usize).filter(|w| **w > 0) else {
                    return bad(format!("context {k} wakes {s}, which does not wait for it"));
                };
                *w -= 1;
                if *w == 0 {
                    ready.push(*s as usize);
                }
            }
        }
        if seen != self.contexts.len() {
            return bad(format!(
                "{} of {} contexts wait for each other",
                self.contexts.len() - seen,
                self.contexts.len()
            ));
        }
        for (k, c) in self.contexts.iter().enumerate() {
            let Some((link, tail)) = &c.kernel else { continue };
            let all = [Some(link), tail.as_ref()];
            if all.into_iter().flatten().any(|l| l.kernel.access.len() != c.args.len())
                || [&c.bytes, &c.tail_bytes].iter().any(|b| b.len() != c.args.len())
            {
                return bad(format!("context {k} has {} arguments, its kernel another number", c.args.len()));
            }
            for (a, (len, tail)) in c.args.iter().zip(c.bytes.iter().zip(&c.tail_bytes)) {
                if *a == SliceArg::NOTHING {
                    continue;
                }
                let has = bytes.get(a.arg).copied();
                let within = |slice: u32, lane: u32, len: u64| {
                    let end = a.at(u64::from(slice), u64::from(lane)).and_then(|at| at.checked_add(len));
                    end.zip(has).is_some_and(|(end, has)| end <= has)
                };
                let (last, lane) = (self.threads - 1, self.window - 1);
                if !(last == 0 || within(last - 1, lane, *len)) || !within(last, lane, *tail) {
                    return bad(format!("context {k} reaches beyond argument {}", a.arg));
                }
            }
        }
        Ok(())
    }

    fn block(&self, call: &KernelCall) -> Result<()> {
        let blocks = call.block_dim.max(1);
        let mut waits: Vec<u32> = Vec::with_capacity(self.contexts.len());
        let mut ready: Vec<usize> = Vec::with_capacity(self.contexts.len());
        let mut addresses: Vec<*mut u8> = Vec::new();
        for lane in (call.block_idx..self.window).step_by(blocks as usize) {
            for slice in (lane..self.threads).step_by(self.window as usize) {
                waits.clear();
                waits.extend(self.contexts.iter().map(|c| c.pred_cnt));
                ready.clear();
                ready.extend((0..waits.len()).rev().filter(|k| waits[*k] == 0));
                while let Some(k) = ready.pop() {
                    self.contexts[k].launch(call, slice, lane, slice + 1 == self.threads, &mut addresses)?;
                    for s in self.contexts[k].successors.iter().rev() {
                        waits[*s as usize] -= 1;
                        if waits[*s as usize] == 0 {
                            ready.push(*s as usize);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Context {
    fn launch(&self, call: &KernelCall, slice: u32, lane: u32, last: bool, addresses: &mut Vec<*mut u8>) -> Result<()> {
        let Some((link, tail)) = &self.kernel else { return Ok(()) };
        let link = tail.as_ref().filter(|_| last).unwrap_or(link);
        addresses.clear();
        for a in &self.args {
            if *a == SliceArg::NOTHING {
                addresses.push(core::ptr::null_mut());
                continue;
            }
            let at = a.at(u64::from(slice), u64::from(lane)).and_then(|at| usize::try_from(at).ok());
            let Some(at) = at.filter(|_| a.arg < call.n_args) else {
                return Err(Error::internal(format!("`{}` has no argument {} in its task", link.node, a.arg)));
            };
            // SAFETY: the argument belongs to this launch, and `check` compared the slice with the
            // argument's bytes.
            addresses.push(unsafe { (*call.args.add(a.arg)).wrapping_add(at) });
        }
        let own = KernelCall {
            args: addresses.as_ptr(),
            n_args: addresses.len(),
            block_idx: call.block_idx,
            block_dim: call.block_dim,
            tiling_key: 0,
            tiling: core::ptr::null(),
            tiling_len: 0,
            scratch: call.scratch,
            host: call.host,
        };
        link.launch(&own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Shape;
    use crate::kernel::{BlockArgs, BlockKernel, block_kernel};

    /// Adds one to each element of a slice.
    struct AddOne;
    impl BlockKernel for AddOne {
        fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
            let n = call.len(0) / 8;
            let x = call.input::<u64>(0)?;
            for (y, x) in call.output::<u64>(1, 0..n)?.iter_mut().zip(x) {
                *y = x + 1;
            }
            Ok(())
        }
    }
    fn link(len: u64) -> Link {
        let kernel = block_kernel(Box::new(AddOne), vec![len * 8; 2], vec![Access::READ, Access::WRITE], 0);
        let shape = Shape::Fixed { block_dim: 1, tiling_key: 0 };
        Link { kernel, node: "n".into(), op: "AddOne".into(), first: 0, shape, tiling: Vec::new() }
    }
    fn slice(arg: usize) -> SliceArg {
        SliceArg { arg, offset: 0, step: 24, lane: false }
    }
    fn lane(offset: u64) -> SliceArg {
        SliceArg { arg: 2, offset, step: 48, lane: true }
    }
    fn context(args: [SliceArg; 2], successors: Vec<u32>, pred_cnt: u32) -> Context {
        Context {
            kernel: Some((link(3), Some(link(1)))),
            args: args.to_vec(),
            bytes: vec![24, 24],
            tail_bytes: vec![8, 8],
            successors,
            pred_cnt,
        }
    }
    fn graph() -> ContextGraph {
        let hint = |successors, pred_cnt| Context {
            kernel: None,
            args: Vec::new(),
            bytes: Vec::new(),
            tail_bytes: Vec::new(),
            successors,
            pred_cnt,
        };
        // Start, x -> ws, ws -> ws + 24, ws + 24 -> y, end.
        let contexts = vec![
            hint(vec![1], 0),
            context([slice(0), lane(0)], vec![2], 1),
            context([lane(0), lane(24)], vec![3], 1),
            context([lane(24), slice(1)], vec![4], 1),
            hint(vec![], 1),
        ];
        ContextGraph { threads: 4, window: 2, contexts }
    }
    fn launch(kernel: &LoadedKernel, args: &[*mut u8], block_idx: u32, block_dim: u32) -> i32 {
        let call = KernelCall {
            args: args.as_ptr(),
            n_args: args.len(),
            block_idx,
            block_dim,
            tiling_key: 0,
            tiling: core::ptr::null(),
            tiling_len: 0,
            scratch: core::ptr::null_mut(),
            host: ROption::RNone,
        };
        // SAFETY: the arguments of the tests are alive and have the lengths that the graph was
        // given.
        unsafe { (kernel.run)(kernel.ctx, &call) }
    }
    fn done(kernel: LoadedKernel) {
        let ROption::RSome(d) = kernel.drop else { panic!("a graph is freed by its maker") };
        // SAFETY: the context is freed only here.
        unsafe { (d.0)(kernel.ctx) }
    }

    #[test]
    fn slices_pass_through_lanes_whatever_the_blocks() {
        for blocks in [1, 2, 5] {
            let k = sliced(graph(), vec![Access::READ, Access::WRITE, Access::WRITE], &[80, 80, 96]).expect("a kernel");
            let (mut x, mut y, mut ws): ([u64; 10], _, _) =
                (core::array::from_fn(|i| i as u64), [0u64; 10], [0u64; 12]);
            let args = [x.as_mut_ptr() as *mut u8, y.as_mut_ptr() as *mut u8, ws.as_mut_ptr() as *mut u8];
            for b in 0..blocks {
                assert_eq!(launch(&k, &args, b, blocks), 0);
            }
            assert_eq!(y, core::array::from_fn(|i| i as u64 + 3));
            assert_eq!(launch(&k, &args[..1], 0, 1), 1);
            done(k);
        }
    }

    #[test]
    fn graphs_that_never_end_or_reach_too_far_are_refused() {
        type Change = fn(&mut ContextGraph);
        let cases: [(Change, &str); 7] = [
            (|g| g.contexts[1].pred_cnt = 2, "wait for each other"),
            (|g| g.contexts[4].successors = vec![0], "which does not wait"),
            (|g| g.contexts[3].successors = vec![9], "wakes 9"),
            (|g| g.window = 5, "5 lanes"),
            (|g| g.contexts[1].args[1].step = 73, "beyond argument 2"),
            (|g| g.contexts[1].args[0].offset = u64::MAX, "beyond argument 0"),
            (|g| g.contexts[1].args.truncate(1), "another number"),
        ];
        for (change, word) in cases {
            let mut g = graph();
            change(&mut g);
            let e = sliced(g, vec![Access::READ; 3], &[80, 80, 96]).err().expect("refused");
            assert!(e.to_string().contains(word), "{e}");
        }
    }
}
