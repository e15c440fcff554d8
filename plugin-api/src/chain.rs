//! Several kernels launched as one (SUPER_KERNEL). A chain is a kernel that runs other kernels one
//! after the other, each with all its blocks and its own part of the arguments. The host turns a
//! task with several launches into one chain.
use crate::abi::{ROption, RResult, guard};
use crate::diagnostic::{Error, Result};
use crate::kernel::{Access, DropFn, KernelCall, LastErrorFn, LoadedKernel, last_error};
use crate::task::TILING_SINK_BLOCK_DIM;
use core::ffi::c_void;

/// Maximum number of blocks of a launch; the width of the hardware field limits it.
const MAX_BLOCKS: u64 = 65_535;

/// Number of blocks and tiling key of one launch of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Known when the launch was compiled.
    Fixed {
        /// Number of blocks.
        block_dim: u32,
        /// Tiling key.
        tiling_key: u64,
    },
    /// Read from memory when the launch starts. The fields are indices of the launch's own
    /// arguments that hold the values, eight bytes each.
    Read {
        /// Argument that holds the number of blocks.
        block_dim: usize,
        /// Argument that holds the tiling key.
        tiling_key: usize,
    },
}

/// One launch of a chain.
pub struct Link {
    /// The kernel; the link owns it.
    pub kernel: LoadedKernel,
    /// Name of its node, for errors.
    pub node: String,
    /// Operator type, for errors.
    pub op: String,
    /// Index of its first argument among the chain's arguments. Their number is that of the
    /// kernel's `access` entries.
    pub first: usize,
    /// Number of blocks and tiling key.
    pub shape: Shape,
    /// Tiling data.
    pub tiling: Vec<u8>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let ROption::RSome(d) = self.kernel.drop {
            // SAFETY: the context came with this function; the link owns the kernel and frees it
            // once.
            unsafe { (d.0)(self.kernel.ctx) }
        }
    }
}

struct Chain {
    links: Vec<Link>,
}

/// Makes the kernel of a chain. `access` is the access of each argument of the whole launch. Block
/// 0 does all the work, in order: every block of a link has ended before the next link starts.
pub fn chain(links: Vec<Link>, access: Vec<Access>) -> LoadedKernel {
    let scratch_bytes = links.iter().map(|l| l.kernel.scratch_bytes).max().unwrap_or(0);
    let ctx = Box::into_raw(Box::new(Chain { links })) as *mut c_void;
    LoadedKernel {
        run,
        ctx,
        drop: ROption::RSome(DropFn(free)),
        access: access.into(),
        scratch_bytes,
        last_error: ROption::RSome(LastErrorFn(take_error)),
    }
}

unsafe extern "C" fn run(ctx: *const c_void, call: *const KernelCall) -> i32 {
    // SAFETY: `ctx` is the Chain of `chain`; the call is live (contract of KernelFn).
    let (chain, call) = unsafe { (&*(ctx as *const Chain), &*call) };
    if call.block_idx != 0 {
        return 0;
    }
    match guard("kernel chain", || chain.links.iter().try_for_each(|l| l.launch(call))) {
        RResult::ROk(()) => 0,
        RResult::RErr(e) => {
            last_error::set(e);
            1
        }
    }
}
unsafe extern "C" fn free(ctx: *mut c_void) {
    // SAFETY: `chain` made it, and it is dropped once.
    crate::abi::guard_drop(|| drop(unsafe { Box::from_raw(ctx as *mut Chain) }))
}
extern "C" fn take_error() -> ROption<Error> {
    last_error::take().into()
}

impl Link {
    pub(crate) fn launch(&self, call: &KernelCall) -> Result<()> {
        let n_args = self.kernel.access.len();
        if self.first.checked_add(n_args).is_none_or(|end| end > call.n_args) {
            return Err(Error::internal(format!("`{}` has no arguments in its chain", self.node)));
        }
        // SAFETY: `first` and `n_args` are within the addresses that the device passes.
        let args = unsafe { call.args.add(self.first) };
        let (block_dim, tiling_key) = match self.shape {
            Shape::Fixed { block_dim, tiling_key } => (block_dim, tiling_key),
            Shape::Read { block_dim, tiling_key } => {
                let blocks = self.number(args, n_args, block_dim)?;
                if !(1..=MAX_BLOCKS).contains(&blocks) {
                    let m = format!("the tiling gives {blocks} blocks, a launch has 1 to {MAX_BLOCKS}");
                    return Err(Error::failed(m).at_node(&self.node, &self.op));
                }
                (blocks as u32, self.number(args, n_args, tiling_key)?)
            }
        };
        if block_dim == TILING_SINK_BLOCK_DIM {
            let m = "the kernel starts with the placeholder of block_dim, 0xFFFFFFFF";
            return Err(Error::failed(m).at_node(&self.node, &self.op));
        }
        for block_idx in 0..block_dim {
            let c = KernelCall {
                args,
                n_args,
                block_idx,
                block_dim,
                tiling_key,
                tiling: self.tiling.as_ptr(),
                tiling_len: self.tiling.len(),
                scratch: call.scratch,
                host: call.host,
            };
            // SAFETY: contract of KernelFn: the context is the kernel's own, and the addresses were
            // checked when they were bound. Only this block uses the scratch, because the blocks
            // run one after the other.
            let rc = unsafe { (self.kernel.run)(self.kernel.ctx, &c) };
            if rc != 0 {
                let told = if let ROption::RSome(f) = self.kernel.last_error { (f.0)().into_option() } else { None };
                let e = told.unwrap_or_else(|| Error::failed(format!("the kernel returned {rc}")));
                return Err(e.at_node(&self.node, &self.op));
            }
        }
        Ok(())
    }
    fn number(&self, args: *const *mut u8, n_args: usize, argument: usize) -> Result<u64> {
        if argument >= n_args {
            return Err(Error::internal(format!("`{}` has no argument {argument}", self.node)));
        }
        // SAFETY: the argument belongs to this launch; the loader, which made this link, checked
        // its bytes.
        let p = unsafe { *args.add(argument) };
        if p.is_null() || p.align_offset(8) != 0 {
            return Err(Error::internal(format!("argument {argument} of `{}` is null or not aligned", self.node)));
        }
        // SAFETY: not null, aligned, and eight bytes long by the contract of `Shape::Read`.
        Ok(unsafe { *(p as *const u64) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{BlockArgs, BlockKernel, block_kernel};

    /// Adds the tiling key and the first byte of the tiling to each element.
    struct Add;
    impl BlockKernel for Add {
        fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
            let part = call.part(call.len(0) / 8, 1);
            let x = &call.input::<u64>(0)?[part.clone()];
            let more = call.tiling_key() + u64::from(*call.tiling().first().unwrap_or(&0));
            if more == 99 {
                return Err(Error::failed("ninety-nine"));
            }
            for (y, x) in call.output::<u64>(1, part)?.iter_mut().zip(x) {
                *y = x + more;
            }
            Ok(())
        }
    }
    fn link(first: usize, args: usize, shape: Shape, tiling: u8) -> Link {
        let mut access = vec![Access::READ; args];
        access[1] = Access::WRITE;
        let lens = [32, 32, 8, 8][..args].to_vec();
        let kernel = block_kernel(Box::new(Add), lens, access, 0);
        Link { kernel, node: format!("n{first}"), op: "Add".into(), first, shape, tiling: vec![tiling] }
    }
    fn launch(kernel: &LoadedKernel, args: &[*mut u8], block_idx: u32) -> Result<()> {
        let call = KernelCall {
            args: args.as_ptr(),
            n_args: args.len(),
            block_idx,
            block_dim: 2,
            tiling_key: 0,
            tiling: core::ptr::null(),
            tiling_len: 0,
            scratch: core::ptr::null_mut(),
            host: ROption::RNone,
        };
        // SAFETY: the arguments of the tests are alive and have the lengths that the links were
        // given.
        let rc = unsafe { (kernel.run)(kernel.ctx, &call) };
        if rc == 0 { Ok(()) } else { Err(take_error().into_option().expect("an error")) }
    }
    fn done(kernel: LoadedKernel) {
        let ROption::RSome(d) = kernel.drop else { panic!("a chain is freed by its maker") };
        // SAFETY: the context is freed only here.
        unsafe { (d.0)(kernel.ctx) }
    }

    #[test]
    fn each_link_sees_what_the_one_before_it_wrote() {
        let (mut x, mut t, mut y) = ([1u64, 2, 3, 4], [0u64; 4], [0u64; 4]);
        let (mut key, mut dim) = ([7u64], [3u64]);
        let [px, pt, py, pk, pd] =
            [x.as_mut_ptr(), t.as_mut_ptr(), y.as_mut_ptr(), key.as_mut_ptr(), dim.as_mut_ptr()].map(|p| p as *mut u8);
        let args = [px, pt, pt, py, pk, pd];
        let links = vec![
            link(0, 2, Shape::Fixed { block_dim: 2, tiling_key: 10 }, 5),
            link(2, 4, Shape::Read { block_dim: 3, tiling_key: 2 }, 0),
        ];
        let k = chain(links, vec![Access::READ; 6]);
        launch(&k, &args, 1).expect("the other blocks do nothing");
        assert_eq!(y, [0; 4]);
        launch(&k, &args, 0).expect("a launch");
        assert_eq!(y, [23, 24, 25, 26]);
        for (blocks, word) in [(0, "gives 0 blocks"), (65_536, "gives 65536 blocks")] {
            dim[0] = blocks;
            let e = launch(&k, &args, 0).expect_err("no blocks");
            assert!(e.to_string().contains(word), "{e}");
            assert_eq!(e.diagnostics[0].node.as_str(), "n2");
        }
        done(k);
    }

    #[test]
    fn an_error_names_the_node_and_ends_the_chain() {
        let (mut x, mut t, mut y) = ([1u64; 4], [0u64; 4], [0u64; 4]);
        let [px, pt, py] = [x.as_mut_ptr(), t.as_mut_ptr(), y.as_mut_ptr()].map(|p| p as *mut u8);
        let shape = |tiling_key| Shape::Fixed { block_dim: 1, tiling_key };
        let k = chain(vec![link(0, 2, shape(99), 0), link(2, 2, shape(1), 0)], vec![Access::READ; 4]);
        let e = launch(&k, &[px, pt, pt, py], 0).expect_err("ninety-nine");
        assert_eq!((e.diagnostics[0].node.as_str(), y), ("n0", [0; 4]));
        done(k);
        let k = chain(vec![link(0, 2, shape(1), 0)], vec![Access::READ; 2]);
        assert!(launch(&k, &[px], 0).is_err());
        done(k);
    }
}
