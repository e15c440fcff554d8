//! Runs one launch of a kernel, each block separately, between guard bytes and twice over different
//! bytes. It reports blocks that write the same byte, bytes that no block writes, writes beyond an
//! argument, and results that depend on bytes that do not belong to the kernel.
use crate::abi::ROption;
use crate::diagnostic::{Error, Result};
use crate::kernel::{
    Access, BlockArgs, BlockKernel, HostTensor, KernelCall, LoadedKernel, Plain, check_lengths, last_error,
};
use crate::types::DType;
use std::cell::RefCell;

/// Number of bytes on either side of an argument that no kernel may touch.
const GUARD: usize = 256;
/// The byte that fills memory before a block runs, in each of the two rounds.
const FILL: [u8; 2] = [0x5a, 0xa5];
/// Owner of a byte that no block has written.
const NOBODY: u32 = u32::MAX;

/// An argument of a launch: [`read`], [`write()`] or [`update`].
pub struct Arg<'a> {
    access: Access,
    bytes: Bytes<'a>,
}

enum Bytes<'a> {
    Read(&'a [u8]),
    Write(RefCell<&'a mut [u8]>),
}

/// An argument that the kernel reads.
pub fn read<T: Plain>(x: &[T]) -> Arg<'_> {
    // SAFETY: the bytes of plain numbers are always valid bytes.
    let bytes = unsafe { core::slice::from_raw_parts(x.as_ptr() as *const u8, size_of_val(x)) };
    Arg { access: Access::READ, bytes: Bytes::Read(bytes) }
}
/// An argument that the blocks write completely, each its own part; its previous content does not
/// matter.
pub fn write<T: Plain>(y: &mut [T]) -> Arg<'_> {
    Arg { access: Access::WRITE, bytes: Bytes::Write(RefCell::new(bytes_mut(y))) }
}
/// An argument that the kernel reads and writes, or writes only in part.
pub fn update<T: Plain>(y: &mut [T]) -> Arg<'_> {
    Arg { access: Access::READ_WRITE, bytes: Bytes::Write(RefCell::new(bytes_mut(y))) }
}
fn bytes_mut<T: Plain>(y: &mut [T]) -> &mut [u8] {
    // SAFETY: every byte pattern is valid for plain numbers.
    unsafe { core::slice::from_raw_parts_mut(y.as_mut_ptr() as *mut u8, size_of_val(y)) }
}

impl Arg<'_> {
    fn held(&self) -> Vec<u8> {
        match &self.bytes {
            Bytes::Read(b) => b.to_vec(),
            Bytes::Write(b) => b.borrow().to_vec(),
        }
    }
}

/// What a launch can run: a [`BlockKernel`], or a kernel that an executor has loaded.
pub trait TestKernel {
    /// Runs one block.
    /// # Errors
    /// Returns the error of the kernel.
    fn run_block(&self, call: &KernelCall, lens: &[u64], access: &[Access], scratch: u64) -> Result<()>;
    /// Bytes of scratch that the kernel declared; `None` if it declared none and the launch
    /// decides.
    fn scratch_bytes(&self) -> Option<u64> {
        None
    }
    /// Compares the argument lengths that the kernel was loaded for with those of the launch.
    /// # Errors
    /// Fails if they differ.
    fn check(&self, lens: &[u64]) -> Result<()> {
        let _ = lens;
        Ok(())
    }
}

impl<K: BlockKernel> TestKernel for K {
    fn run_block(&self, call: &KernelCall, lens: &[u64], access: &[Access], scratch: u64) -> Result<()> {
        let args = BlockArgs::new(call, lens, access, scratch);
        crate::abi::guard("kernel", || BlockKernel::run(self, &args)).into_result()
    }
}

impl TestKernel for LoadedKernel {
    fn run_block(&self, call: &KernelCall, _: &[u64], _: &[Access], _: u64) -> Result<()> {
        // SAFETY: the call has the addresses of all arguments, whose lengths `check` has verified.
        let code = unsafe { (self.run)(self.ctx, call) };
        if code == 0 {
            return Ok(());
        }
        let said = self.last_error.as_ref().into_option().and_then(|f| (f.0)().into_option()).or_else(last_error::take);
        Err(said.unwrap_or_else(|| Error::failed(format!("the kernel returned {code}"))))
    }
    fn scratch_bytes(&self) -> Option<u64> {
        Some(self.scratch_bytes)
    }
    fn check(&self, lens: &[u64]) -> Result<()> {
        if self.access.len() != lens.len() {
            let (has, given) = (self.access.len(), lens.len());
            return Err(Error::failed(format!("the kernel has {has} arguments, the launch gives {given}")));
        }
        check_lengths(self, lens)
    }
}

/// A launch with its optional parts: scratch, tiling data, a tiling key.
pub struct Launch<'k, K> {
    kernel: &'k K,
    blocks: u32,
    scratch: u64,
    tiling: Vec<u8>,
    tiling_key: u64,
    partly: bool,
}

/// Runs a kernel in `blocks` blocks over these arguments, each block separately.
///
/// # Errors
/// Fails if a block returns an error, if two blocks write the same byte, if no block writes a byte
/// of a [`write()`] argument, if a block writes beside an argument or into one that it only reads,
/// or if a result depends on the bytes around the arguments or on the previous content of an
/// output.
pub fn run_blocks<K: TestKernel>(kernel: &K, blocks: u32, args: &[Arg<'_>]) -> Result<()> {
    Launch::new(kernel).blocks(blocks).run(args)
}

impl<'k, K: TestKernel> Launch<'k, K> {
    /// A launch of one block without scratch and tiling data.
    pub fn new(kernel: &'k K) -> Self {
        Launch { kernel, blocks: 1, scratch: 0, tiling: Vec::new(), tiling_key: 0, partly: false }
    }
    /// Sets the number of blocks.
    pub fn blocks(mut self, blocks: u32) -> Self {
        self.blocks = blocks;
        self
    }
    /// Sets the bytes of scratch for each block; a [`LoadedKernel`] declares its own.
    pub fn scratch(mut self, bytes: u64) -> Self {
        self.scratch = bytes;
        self
    }
    /// Sets the tiling data.
    pub fn tiling(mut self, data: &[u8]) -> Self {
        self.tiling = data.to_vec();
        self
    }
    /// Sets the tiling key.
    pub fn tiling_key(mut self, key: u64) -> Self {
        self.tiling_key = key;
        self
    }
    /// Allows outputs to be written only in part, because another launch writes the rest.
    pub fn partly(mut self) -> Self {
        self.partly = true;
        self
    }
    /// Runs the launch.
    ///
    /// # Errors
    /// Fails under the same conditions as [`run_blocks`].
    pub fn run(&self, args: &[Arg<'_>]) -> Result<()> {
        let before: Vec<Vec<u8>> = args.iter().map(Arg::held).collect();
        let lens: Vec<u64> = before.iter().map(|b| b.len() as u64).collect();
        self.kernel.check(&lens)?;
        let access: Vec<Access> = args.iter().map(|a| a.access).collect();
        let mut after = before.clone();
        let mut owner: Vec<Vec<u32>> = args
            .iter()
            .zip(&before)
            .map(|(a, b)| if a.access == Access::READ { 0 } else { b.len() })
            .map(|n| vec![NOBODY; n])
            .collect();
        for block in 0..self.blocks {
            let round = |fill| self.round(block, fill, &before, &access, &lens);
            let (first, second) = (round(FILL[0])?, round(FILL[1])?);
            for (k, a) in access.iter().enumerate().filter(|(_, a)| **a != Access::READ) {
                for i in 0..before[k].len() {
                    let (x, y) = (first[k][i], second[k][i]);
                    let written = if *a == Access::WRITE {
                        (x, y) != (FILL[0], FILL[1])
                    } else {
                        (x, y) != (before[k][i], before[k][i])
                    };
                    if !written {
                        continue;
                    }
                    if x != y {
                        return Err(Error::failed(format!(
                            "block {block} writes byte {i} of argument {k} from bytes that are not its to read: beyond an argument, of the output before, or of fresh scratch"
                        )));
                    }
                    let other = std::mem::replace(&mut owner[k][i], block);
                    if other != NOBODY {
                        return Err(Error::failed(format!(
                            "blocks {other} and {block} both write byte {i} of argument {k}"
                        )));
                    }
                    after[k][i] = x;
                }
            }
        }
        for (k, owner) in owner.iter().enumerate().filter(|(k, _)| access[*k] == Access::WRITE && !self.partly) {
            if let Some(start) = owner.iter().position(|o| *o == NOBODY) {
                let end = owner[start..].iter().position(|o| *o != NOBODY).map_or(owner.len(), |n| start + n);
                return Err(Error::failed(format!("no block writes bytes {start} to {end} of argument {k}")));
            }
        }
        for (a, bytes) in args.iter().zip(after) {
            if let Bytes::Write(to) = &a.bytes {
                to.borrow_mut().copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// Runs one block over fresh memory and returns what its arguments hold afterwards.
    fn round(&self, block: u32, fill: u8, before: &[Vec<u8>], access: &[Access], lens: &[u64]) -> Result<Vec<Vec<u8>>> {
        let mut memory = Vec::with_capacity(before.len());
        for (b, a) in before.iter().zip(access) {
            memory.push(Fenced::new(b, if *a == Access::WRITE { Some(fill) } else { None }, fill)?);
        }
        let scratch_bytes = self.kernel.scratch_bytes().unwrap_or(self.scratch);
        let mut scratch = Fenced::new(&vec![fill; scratch_bytes as usize], None, fill)?;
        let mut addresses: Vec<*mut u8> = memory.iter_mut().map(Fenced::address).collect();
        let call = KernelCall {
            args: addresses.as_mut_ptr(),
            n_args: addresses.len(),
            block_idx: block,
            block_dim: self.blocks,
            tiling_key: self.tiling_key,
            tiling: self.tiling.as_ptr(),
            tiling_len: self.tiling.len(),
            scratch: if scratch_bytes == 0 { core::ptr::null_mut() } else { scratch.address() },
            host: ROption::from(crate::services::host_or_none().map(|h| h.table())),
        };
        let said = self.kernel.run_block(&call, lens, access, scratch_bytes);
        for (k, m) in memory.iter().enumerate() {
            m.check(fill).map_err(|at| {
                Error::failed(format!("block {block} writes {at} argument {k}, which has {} bytes", lens[k]))
            })?;
        }
        scratch.check(fill).map_err(|at| Error::failed(format!("block {block} writes {at} its scratch")))?;
        said.map_err(|e| {
            e.with(|mut d| {
                d.message = format!("block {block} of {}: {}", self.blocks, d.message).into();
                d
            })
        })?;
        for (k, a) in access.iter().enumerate() {
            if *a == Access::READ && memory[k].inner() != before[k] {
                return Err(Error::failed(format!("block {block} writes into argument {k}, which it only reads")));
            }
        }
        Ok(memory.iter().map(|m| m.inner().to_vec()).collect())
    }
}

/// Bytes aligned to 64, between guard bytes.
struct Fenced {
    store: HostTensor,
    len: usize,
}

impl Fenced {
    fn new(bytes: &[u8], fill: Option<u8>, guard: u8) -> Result<Fenced> {
        let total = bytes.len() + 2 * GUARD;
        let mut store = HostTensor::with_len(DType::U8, &[total as u64], total as u64)?;
        let all = store.bytes_mut();
        all.fill(guard);
        match fill {
            Some(f) => all[GUARD..GUARD + bytes.len()].fill(f),
            None => all[GUARD..GUARD + bytes.len()].copy_from_slice(bytes),
        }
        Ok(Fenced { store, len: bytes.len() })
    }
    fn address(&mut self) -> *mut u8 {
        self.store.bytes_mut()[GUARD..].as_mut_ptr()
    }
    fn inner(&self) -> &[u8] {
        &self.store.bytes()[GUARD..GUARD + self.len]
    }
    /// Returns the side on which guard bytes were overwritten, if any.
    fn check(&self, guard: u8) -> core::result::Result<(), &'static str> {
        let all = self.store.bytes();
        let whole = |part: &[u8]| part.iter().all(|b| *b == guard);
        match (whole(&all[..GUARD]), whole(&all[GUARD + self.len..])) {
            (true, true) => Ok(()),
            (false, _) => Err("before"),
            _ => Err("behind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::block_kernel;

    /// A kernel made of a function.
    struct By<F>(F);
    impl<F: Fn(&BlockArgs<'_>) -> Result<()> + Send + Sync + 'static> BlockKernel for By<F> {
        fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
            (self.0)(call)
        }
    }
    /// Doubles its share of the elements and `more` elements of the next block's share.
    fn double(more: usize) -> By<impl Fn(&BlockArgs<'_>) -> Result<()> + Send + Sync + 'static> {
        By(move |call: &BlockArgs<'_>| {
            let x = call.input::<f32>(0)?;
            let mut mine = call.part(x.len(), 4);
            mine.end = (mine.end + more).min(x.len());
            for (y, x) in call.output::<f32>(1, mine.clone())?.iter_mut().zip(&x[mine]) {
                *y = 2.0 * x;
            }
            Ok(())
        })
    }
    fn said(kernel: &impl TestKernel, blocks: u32) -> String {
        let (x, mut y) = ([1.5f32; 23], [0.0f32; 23]);
        run_blocks(kernel, blocks, &[read(&x), write(&mut y)]).expect_err("a fault").to_string()
    }

    #[test]
    fn a_right_kernel_gives_its_numbers_in_any_number_of_blocks() {
        for blocks in [1, 2, 5, 40] {
            let x: Vec<f32> = (0..23).map(|v| v as f32).collect();
            let mut y = vec![-1.0f32; 23];
            run_blocks(&double(0), blocks, &[read(&x), write(&mut y)]).expect("right");
            assert!(x.iter().zip(&y).all(|(x, y)| 2.0 * x == *y), "{blocks}: {y:?}");
            let loaded = block_kernel(Box::new(double(0)), vec![92, 92], vec![Access::READ, Access::WRITE], 0);
            y.fill(0.0);
            run_blocks(&loaded, blocks, &[read(&x), write(&mut y)]).expect("right");
            run_blocks(&loaded, blocks, &[read(&x), write(&mut y)]).expect("a second time");
            assert_eq!(y[22], 44.0);
        }
    }

    #[test]
    fn each_fault_of_a_kernel_is_told() {
        assert!(
            said(&double(1), 2).contains("blocks 0 and 1 both write byte 48 of argument 1"),
            "{}",
            said(&double(1), 2)
        );
        let half = By(|c: &BlockArgs<'_>| c.output::<f32>(1, 0..4).map(|y| y.fill(1.0)));
        assert!(said(&half, 1).contains("no block writes bytes 16 to 92 of argument 1"), "{}", said(&half, 1));
        let fails = By(|c: &BlockArgs<'_>| if c.block_idx() == 1 { Err(Error::failed("no luck")) } else { Ok(()) });
        assert!(said(&fails, 3).contains("block 1 of 3: no luck"), "{}", said(&fails, 3));
        let beyond = By(|c: &BlockArgs<'_>| c.output::<f32>(1, 0..24).map(|_| ()));
        assert!(said(&beyond, 1).contains("0..24 of 23"), "{}", said(&beyond, 1));
        let panics = By(|_: &BlockArgs<'_>| panic!("ouch"));
        assert!(said(&panics, 1).contains("ouch"), "{}", said(&panics, 1));
        let adds = By(|c: &BlockArgs<'_>| {
            c.output::<f32>(1, 0..23)?.iter_mut().for_each(|y| *y += 1.0);
            Ok(())
        });
        assert!(said(&adds, 1).contains("not its to read"), "{}", said(&adds, 1));
    }

    #[test]
    fn writes_beside_an_argument_and_into_inputs_are_told() {
        unsafe extern "C" fn behind(_: *const core::ffi::c_void, call: *const KernelCall) -> i32 {
            // SAFETY: the write is inside the guard bytes of argument 1.
            unsafe { *(*(*call).args.add(1)).add(92) = 7 };
            0
        }
        unsafe extern "C" fn into(_: *const core::ffi::c_void, call: *const KernelCall) -> i32 {
            // SAFETY: the write is inside argument 0.
            unsafe { *(*(*call).args) = 7 };
            0
        }
        for (run, words) in [
            (behind as crate::kernel::KernelFn, "behind argument 1, which has 92 bytes"),
            (into, "into argument 0, which it only reads"),
        ] {
            let k = LoadedKernel {
                run,
                ctx: core::ptr::null_mut(),
                drop: ROption::RNone,
                access: vec![Access::READ, Access::WRITE].into(),
                scratch_bytes: 0,
                last_error: ROption::RNone,
            };
            assert!(said(&k, 1).contains(words), "{}", said(&k, 1));
        }
        let other = block_kernel(Box::new(double(0)), vec![92, 96], vec![Access::READ, Access::WRITE], 0);
        assert!(said(&other, 1).contains("argument 1"), "{}", said(&other, 1));
    }

    #[test]
    fn scratch_tiling_and_parts_of_outputs() {
        let k = By(|c: &BlockArgs<'_>| {
            let s = c.scratch::<u8>(100);
            s.fill(c.tiling()[0]);
            c.output::<u8>(0, 0..1)?[0] = s[99] + c.tiling_key() as u8;
            Ok(())
        });
        let mut y = [9u8, 9];
        let launch = Launch::new(&k).scratch(100).tiling(&[3]).tiling_key(4);
        assert!(launch.run(&[write(&mut y)]).is_err());
        launch.partly().run(&[write(&mut y)]).expect("a part is enough");
        assert_eq!(y, [7, 9]);
        let mut y = [9u8, 9];
        Launch::new(&k).scratch(100).tiling(&[3]).run(&[update(&mut y)]).expect("a part is enough");
        assert_eq!(y, [3, 9]);
    }
}
