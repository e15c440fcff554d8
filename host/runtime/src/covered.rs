//! How a task that runs slice by slice accesses its outputs. It writes an output completely if its
//! slices cover the output; otherwise bytes between or after them stay as they were, as in the
//! memory of a state that grows in place.
use ge_plugin_api::kernel::Access;
use ge_plugin_api::slices::{Context, ContextGraph, SliceArg};

/// The access of `graph` to its argument `arg` of `bytes` bytes, which is an output.
pub(crate) fn access(graph: &ContextGraph, arg: usize, bytes: u64) -> Access {
    if covers(graph, arg, bytes) { Access::WRITE } else { Access::READ_WRITE }
}

/// The slices that a context writes to one argument.
struct Written {
    first: u64,
    step: u64,
    count: u64,
    bytes: u64,
    /// Bytes of the last slice.
    last: u64,
}

impl Written {
    /// The slices of argument `k` of a context.
    fn of(graph: &ContextGraph, c: &Context, k: usize) -> Option<Written> {
        let (s, bytes, tail) = (c.args.get(k)?, *c.bytes.get(k)?, *c.tail_bytes.get(k)?);
        let SliceArg { offset: first, step, lane, .. } = *s;
        // Slices of a lane lie in one place; the last slice is there alone if each has its own lane.
        let count = if lane { graph.window } else { graph.threads };
        let last = if lane && graph.threads > graph.window { bytes } else { tail };
        Some(Written { first, step, count: u64::from(count), bytes, last })
    }

    fn total(&self) -> u64 {
        self.bytes.saturating_mul(self.count.saturating_sub(1)).saturating_add(self.last)
    }

    /// The ranges of bytes, as (start, end): one if the slices follow each other without gaps.
    fn ranges(&self) -> Vec<(u64, u64)> {
        let last = self.first + self.step * (self.count - 1);
        if self.step <= self.bytes {
            return vec![(self.first, last + self.last)];
        }
        let all = (0..self.count - 1).map(|k| self.first + self.step * k);
        all.map(|at| (at, at + self.bytes)).chain([(last, last + self.last)]).collect()
    }
}

/// Whether the slices of all contexts together write every byte of an argument.
fn covers(graph: &ContextGraph, arg: usize, bytes: u64) -> bool {
    let mut written = Vec::new();
    for c in &graph.contexts {
        let Some((link, _)) = &c.kernel else { continue };
        let writes = |k: usize| link.kernel.access.get(k).is_some_and(|a| *a != Access::READ);
        let own = (0..c.args.len()).filter(|k| c.args[*k].arg == arg && writes(*k));
        written.extend(own.filter_map(|k| Written::of(graph, c, k)));
    }
    // Slices with gaps are listed one by one only where they can fill each other's gaps.
    if written.iter().map(Written::total).fold(0, u64::saturating_add) < bytes {
        return false;
    }
    let mut ranges: Vec<(u64, u64)> = written.iter().flat_map(Written::ranges).collect();
    ranges.sort_unstable();
    let reached = ranges.into_iter().fold(0, |to, (start, end)| if start <= to { end.max(to) } else { to });
    reached >= bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::chain::{Link, Shape};
    use ge_plugin_api::kernel::{BlockArgs, BlockKernel, block_kernel};

    struct Nothing;
    impl BlockKernel for Nothing {
        fn run(&self, _: &BlockArgs<'_>) -> ge_plugin_api::Result<()> {
            Ok(())
        }
    }

    /// A context that writes slices of `bytes` bytes, the last of `tail`, to argument 1.
    fn context(offset: u64, step: u64, (bytes, tail): (u64, u64)) -> Context {
        let access = vec![Access::READ, Access::WRITE];
        let kernel = block_kernel(Box::new(Nothing), vec![bytes, bytes], access, 0);
        let shape = Shape::Fixed { block_dim: 1, tiling_key: 0 };
        let link = Link { kernel, node: "n".into(), op: "Neg".into(), first: 0, shape, tiling: Vec::new() };
        let arg = |arg| SliceArg { arg, offset, step, lane: false };
        Context {
            kernel: Some((link, None)),
            args: vec![arg(0), arg(1)],
            bytes: vec![bytes; 2],
            tail_bytes: vec![tail; 2],
            successors: Vec::new(),
            pred_cnt: 0,
        }
    }

    fn of(contexts: Vec<Context>, bytes: u64) -> Access {
        access(&ContextGraph { threads: 3, window: 2, contexts }, 1, bytes)
    }

    #[test]
    fn an_output_is_written_completely_only_where_slices_cover_it() {
        assert_eq!(of(vec![context(0, 8, (8, 4))], 20), Access::WRITE);
        // Bytes are left after the slices, before them and between them.
        assert_eq!(of(vec![context(0, 8, (8, 4))], 32), Access::READ_WRITE);
        assert_eq!(of(vec![context(4, 8, (8, 8))], 28), Access::READ_WRITE);
        assert_eq!(of(vec![context(0, 16, (8, 8))], 40), Access::READ_WRITE);
        // Two contexts fill each other's gaps, or not.
        let two = |second| vec![context(0, 16, (8, 8)), context(second, 16, (8, 8))];
        assert_eq!(of(two(8), 48), Access::WRITE);
        assert_eq!(of(two(0), 48), Access::READ_WRITE);
        assert_eq!(of(Vec::new(), 8), Access::READ_WRITE);
        assert_eq!(of(Vec::new(), 0), Access::WRITE);
    }
}
