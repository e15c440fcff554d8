//! `check_races=full`: runs each block of a launch alone, on copies of the task's ranges between
//! guard pages. The whole launch is run twice, over two fill patterns; a block wrote those bytes
//! that differ from the pattern in at least one of the runs. This finds blocks that write the same
//! byte and outputs that are not written completely. An access beyond a range hits a guard page,
//! and the process reports the kernel.
use super::bound::Addresses;
use super::guarded::Range;
use super::kernel::{Call, Kernel};
use ge_plugin_api::kernel::Access;
use ge_plugin_api::{Error, ErrorKind, Result};

/// The two fill patterns; no byte equals both.
const PATTERNS: [u8; 2] = [0x5A, 0xA5];
/// Marks a byte that no block has written.
const NOBODY: u32 = u32::MAX;
/// Alignment in bytes that kernels expect of their arguments.
const ALIGN: usize = 64;

/// Memory with an inaccessible page on each side. It ends as close to the second page as its
/// alignment allows.
struct Paged {
    map: *mut u8,
    mapped: usize,
    data: *mut u8,
    bytes: usize,
}

fn page() -> usize {
    // SAFETY: `sysconf` only queries the system.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

impl Paged {
    fn new(bytes: usize) -> Result<Paged> {
        let page = page();
        let none = || Error::new(ErrorKind::DEVICE, format!("no memory for a guarded copy of {bytes} bytes"));
        let inner =
            bytes.checked_next_multiple_of(ALIGN).and_then(|n| n.checked_next_multiple_of(page)).ok_or_else(none)?;
        let mapped = inner.checked_add(2 * page).ok_or_else(none)?;
        // SAFETY: a new private mapping that nothing else refers to; its inner part is then made
        // accessible.
        let map = unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if map == libc::MAP_FAILED {
                return Err(none());
            }
            let map = map.cast::<u8>();
            if libc::mprotect(map.add(page).cast(), inner, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                libc::munmap(map.cast(), mapped);
                return Err(none());
            }
            map
        };
        // The last aligned line ends where the inner part ends.
        let data = map.wrapping_add(page + inner - bytes.next_multiple_of(ALIGN));
        Ok(Paged { map, mapped, data, bytes })
    }
    fn bytes(&self) -> &[u8] {
        // SAFETY: the slice is within the inner part, which is mapped and initialised by the
        // system.
        unsafe { std::slice::from_raw_parts(self.data, self.bytes) }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, borrowed mutably; no block runs meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) }
    }
}

impl Drop for Paged {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and nothing holds an address in it any more.
        unsafe { libc::munmap(self.map.cast(), self.mapped) };
    }
}

fn overlap(a: &Range, b: &Range) -> bool {
    a.bytes > 0 && b.bytes > 0 && a.address < b.address + b.bytes && b.address < a.address + a.bytes
}

/// Probes a launch. `outputs` tells for each argument whether it is an output of the node; every
/// byte of an output must be written. A launch with a written range that overlaps another range
/// (in-place, or a combination of launches) is not probed, because its blocks need each other's
/// bytes.
///
/// # Errors
/// Fails with kind `PLUGIN` if two blocks write the same byte or no block writes a byte of an
/// output, with kind `DEVICE` if there is no memory for the copies, and with the error of a block
/// that fails.
pub fn probe(kernel: &Kernel, call: &Call, ranges: &[Range], outputs: &[bool], dim: u32, key: u64) -> Result<()> {
    let written = |r: &Range| r.access != Access::READ && r.bytes > 0;
    let shared =
        |(k, r): (usize, &Range)| written(r) && ranges.iter().enumerate().any(|(o, x)| o != k && overlap(r, x));
    if ranges.iter().enumerate().any(shared) || !ranges.iter().any(written) {
        return Ok(());
    }
    let mut copies = ranges.iter().map(|r| Paged::new(r.bytes as usize)).collect::<Result<Vec<_>>>()?;
    let addresses = Addresses(
        ranges.iter().zip(&copies).map(|(r, c)| if r.bytes > 0 { c.data } else { r.address as *mut u8 }).collect(),
    );
    let call = Call { args: addresses.0.as_ptr(), n_args: addresses.0.len(), ..*call };
    let mut owner: Vec<Vec<u32>> =
        ranges.iter().map(|r| if written(r) { vec![NOBODY; r.bytes as usize] } else { Vec::new() }).collect();
    // In each pattern every block runs once, as in a launch: blocks may agree on who does what.
    for (pattern, block) in PATTERNS.into_iter().flat_map(|p| (0..dim).map(move |block| (p, block))) {
        for (r, c) in ranges.iter().zip(&mut copies) {
            if r.access == Access::WRITE {
                c.bytes_mut().fill(pattern);
            } else if r.bytes > 0 {
                // SAFETY: the range was checked against its allocation when it was bound, and this
                // task runs alone.
                let now = unsafe { std::slice::from_raw_parts(r.address as *const u8, r.bytes as usize) };
                c.bytes_mut().copy_from_slice(now);
            }
        }
        let before: Vec<Vec<u8>> = ranges
            .iter()
            .zip(&copies)
            .map(|(r, c)| if r.access == Access::READ_WRITE { c.bytes().to_vec() } else { Vec::new() })
            .collect();
        kernel.run(&call, block, dim, key)?;
        for (k, own) in owner.iter_mut().enumerate() {
            for (at, (o, now)) in own.iter_mut().zip(copies[k].bytes()).enumerate() {
                if *now == before[k].get(at).copied().unwrap_or(pattern) {
                    continue;
                }
                if *o != NOBODY && *o != block {
                    let what = format!("blocks {o} and {block} of the kernel both write byte {at} of argument {k}");
                    return Err(Error::new(ErrorKind::PLUGIN, what));
                }
                *o = block;
            }
        }
    }
    for (k, own) in owner.iter().enumerate() {
        if outputs.get(k) != Some(&true) || ranges[k].access != Access::WRITE {
            continue;
        }
        if let Some(at) = own.iter().position(|o| *o == NOBODY) {
            let n = own.iter().filter(|o| **o == NOBODY).count();
            let what = format!(
                "no block of the kernel writes byte {at} of argument {k}: {n} of {} are left as they were",
                own.len()
            );
            return Err(Error::new(ErrorKind::PLUGIN, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::kernel::{BlockArgs, BlockKernel, block_kernel};

    /// Copies its part; depending on the text, one byte more or less of it.
    struct Copies(&'static str);
    impl BlockKernel for Copies {
        fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
            let x = call.input::<u8>(0)?;
            let mut mine = call.part(x.len(), 1);
            match self.0 {
                "overlaps" => mine.end = (mine.end + 1).min(x.len()),
                "lacks" if call.block_idx() == 1 => mine.start += 1,
                _ => {}
            }
            call.output::<u8>(1, mine.clone())?.copy_from_slice(&x[mine]);
            Ok(())
        }
    }

    fn verdict(fault: &'static str, output: bool) -> std::result::Result<(), String> {
        let memory: Vec<u8> = (0..200).collect();
        let kernel = block_kernel(Box::new(Copies(fault)), vec![100, 100], vec![Access::READ, Access::WRITE], 0);
        let at = |offset: u64, access| Range { address: memory.as_ptr() as u64 + offset, bytes: 100, access };
        let ranges = [at(0, Access::READ), at(100, Access::WRITE)];
        let call = Call { args: std::ptr::null(), n_args: 0, tiling: std::ptr::null(), tiling_len: 0 };
        let r = probe(&Kernel::new(kernel), &call, &ranges, &[false, output], 4, 0);
        assert_eq!(memory[150], 150, "the probe leaves the memory as it was");
        r.map_err(|e| e.message().to_owned())
    }

    #[test]
    fn blocks_that_overlap_and_bytes_that_nobody_writes_are_found() {
        assert_eq!(verdict("", true), Ok(()));
        assert_eq!(
            verdict("overlaps", true),
            Err("blocks 0 and 1 of the kernel both write byte 25 of argument 1".into())
        );
        let lacks = "no block of the kernel writes byte 25 of argument 1: 1 of 100 are left as they were";
        assert_eq!(verdict("lacks", true), Err(lacks.into()));
        // A workspace may stay unwritten.
        assert_eq!(verdict("lacks", false), Ok(()));
    }

    #[test]
    fn copies_end_at_a_page_that_nobody_may_touch() {
        for bytes in [1, 63, 64, 65, 4096, 4097] {
            let mut p = Paged::new(bytes).expect("memory");
            p.bytes_mut().fill(7);
            assert!(p.bytes().iter().all(|b| *b == 7) && p.data.align_offset(ALIGN) == 0);
            let end = p.data as usize + bytes;
            let guard = p.map as usize + p.mapped - page();
            assert!(end <= guard && guard - end < ALIGN, "{bytes}");
        }
    }
}
