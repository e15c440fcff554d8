//! Guarded copies: a task runs on copies of its ranges surrounded by poison bytes, so that accesses
//! beyond them and writes to inputs are detected (DESIGN 1, `check_races`).
use super::bound::Addresses;
use ge_plugin_api::kernel::Access;
use ge_plugin_api::{Error, ErrorKind, Result};

/// Number of poison bytes on each side of a copy; they read as a quiet NaN in every floating type.
const GUARD: usize = 256;
const POISON: u8 = 0xFF;

/// The memory range of an argument.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// How the task accesses it.
    pub access: Access,
}

/// A 64-byte line; it gives a copy the alignment that kernels expect.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

struct Copy {
    address: u64,
    bytes: u64,
    lines: Vec<Line>,
    /// Offset in `lines` where the copy begins; its address is equal to the original's modulo 64.
    begin: usize,
}

/// Copies of a task's ranges; overlapping ranges share a copy.
pub struct Guarded<'a> {
    ranges: &'a [Range],
    copies: Vec<Copy>,
}

impl<'a> Guarded<'a> {
    /// Copies the current contents of the ranges.
    pub fn new(ranges: &'a [Range]) -> Result<Guarded<'a>> {
        let mut spans: Vec<(u64, u64)> =
            ranges.iter().filter(|r| r.bytes > 0).map(|r| (r.address, r.address + r.bytes)).collect();
        spans.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in spans {
            match merged.last_mut() {
                Some(m) if start < m.1 => m.1 = m.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        let mut copies = Vec::with_capacity(merged.len());
        for (address, end) in merged {
            let bytes = end - address;
            let begin = GUARD + (address % 64) as usize;
            let total = usize::try_from(bytes).ok().and_then(|b| b.checked_add(begin + GUARD + 64));
            let mut lines: Vec<Line> = Vec::new();
            let n = total.map(|t| t.div_ceil(64)).filter(|n| lines.try_reserve_exact(*n).is_ok());
            let n = n.ok_or_else(|| {
                Error::new(ErrorKind::DEVICE, format!("no memory for a guarded copy of {bytes} bytes"))
            })?;
            lines.resize(n, Line([POISON; 64]));
            // SAFETY: the range was checked against its allocation when it was bound, and the copy
            // has enough room after `begin`.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    address as *const u8,
                    lines.as_mut_ptr().cast::<u8>().add(begin),
                    bytes as usize,
                )
            };
            copies.push(Copy { address, bytes, lines, begin });
        }
        Ok(Guarded { ranges, copies })
    }
    fn copy_of(&self, address: u64) -> Option<(&Copy, usize)> {
        let k = self.copies.partition_point(|c| c.address <= address).checked_sub(1)?;
        let c = &self.copies[k];
        Some((c, c.begin + (address - c.address) as usize))
    }
    /// Addresses of all arguments in the copies.
    pub fn addresses(&self) -> Addresses {
        let at = |r: &Range| match self.copy_of(r.address) {
            Some((c, at)) if r.bytes > 0 => c.lines.as_ptr().cast::<u8>().wrapping_add(at).cast_mut(),
            _ => r.address as *mut u8,
        };
        Addresses(self.ranges.iter().map(at).collect())
    }
    /// Address of argument `k` in the copies.
    pub fn address(&self, k: usize) -> u64 {
        let r = &self.ranges[k];
        self.copy_of(r.address).map_or(r.address, |(c, at)| c.lines.as_ptr() as u64 + at as u64)
    }
    /// After the task ran, checks the poison and the inputs and copies back what the task wrote.
    ///
    /// # Errors
    /// Fails if the task wrote outside its ranges or to an input; the error names the argument.
    pub fn finish(self) -> Result<()> {
        let argument = |address: u64| {
            let k = self
                .ranges
                .iter()
                .position(|r| r.bytes > 0 && address < r.address + r.bytes && address + GUARD as u64 >= r.address);
            k.map_or_else(|| "an argument".to_owned(), |k| format!("argument {k}"))
        };
        for c in &self.copies {
            // SAFETY: the lines belong to this copy and are plain bytes.
            let all = unsafe { core::slice::from_raw_parts(c.lines.as_ptr().cast::<u8>(), c.lines.len() * 64) };
            let end = c.begin + c.bytes as usize;
            let before = all[..c.begin].iter().rposition(|b| *b != POISON).map(|p| c.begin - p);
            let after = all[end..].iter().position(|b| *b != POISON).map(|p| p + 1);
            let wrote = |how: String, address| {
                Err(Error::new(
                    ErrorKind::DEVICE,
                    format!("the kernel wrote {how} the {} bytes of {}", c.bytes, argument(address)),
                ))
            };
            if let Some(n) = after {
                return wrote(format!("{n} bytes behind"), c.address + c.bytes - 1);
            }
            if let Some(n) = before {
                return wrote(format!("{n} bytes before"), c.address);
            }
            self.inputs_unchanged(c, &all[c.begin..end])?;
        }
        for r in self.ranges.iter().filter(|r| r.access != Access::READ && r.bytes > 0) {
            let (from, to) = (self.copy_of(r.address), r.address);
            if let Some((c, at)) = from {
                // SAFETY: as in `new`, in the opposite direction.
                unsafe {
                    core::ptr::copy_nonoverlapping(
                        c.lines.as_ptr().cast::<u8>().add(at),
                        to as *mut u8,
                        r.bytes as usize,
                    )
                };
            }
        }
        Ok(())
    }
    /// Checks that the bytes of a copy that no written range covers still equal the original.
    fn inputs_unchanged(&self, c: &Copy, now: &[u8]) -> Result<()> {
        let inside = |r: &&Range| r.bytes > 0 && r.address >= c.address && r.address < c.address + c.bytes;
        let mut written: Vec<(u64, u64)> = self
            .ranges
            .iter()
            .filter(inside)
            .filter(|r| r.access != Access::READ)
            .map(|r| (r.address, r.address + r.bytes))
            .collect();
        written.push((c.address + c.bytes, u64::MAX));
        written.sort_unstable();
        let mut at = c.address;
        for (start, end) in written {
            if start > at {
                let part = (at - c.address) as usize..(start - c.address) as usize;
                // SAFETY: within the original range, which nothing writes because this task runs
                // alone.
                let was = unsafe { core::slice::from_raw_parts(at as *const u8, part.len()) };
                if was != &now[part.clone()] {
                    let off = was.iter().zip(&now[part]).position(|(a, b)| a != b).unwrap_or(0) as u64;
                    let k = self.ranges.iter().position(|r| (r.address..r.address + r.bytes).contains(&(at + off)));
                    let m = format!("the kernel wrote to argument {}, which it only reads", k.unwrap_or(0));
                    return Err(Error::new(ErrorKind::DEVICE, m));
                }
            }
            at = at.max(end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(v: &[u8], parts: &[(usize, usize, Access)]) -> Vec<Range> {
        parts
            .iter()
            .map(|(o, n, a)| Range { address: v.as_ptr() as u64 + *o as u64, bytes: *n as u64, access: *a })
            .collect()
    }
    fn poke(addresses: &Addresses, k: usize, at: isize, value: u8) {
        // SAFETY: within the guarded copy or its poison.
        unsafe { *addresses.0[k].offset(at) = value }
    }

    #[test]
    fn writes_come_back_and_everything_else_is_seen() {
        let memory: Vec<u8> = (0..100).collect();
        let r = ranges(&memory, &[(0, 10, Access::READ), (50, 20, Access::WRITE)]);
        let g = Guarded::new(&r).expect("memory");
        poke(&g.addresses(), 1, 19, 200);
        g.finish().expect("good");
        assert_eq!(memory[69], 200);
        for (k, at, words) in [
            (1, 20isize, "1 bytes behind the 20 bytes of argument 1"),
            (1, -3, "3 bytes before the 20 bytes of argument 1"),
            (0, 4, "wrote to argument 0, which it only reads"),
        ] {
            let g = Guarded::new(&r).expect("memory");
            poke(&g.addresses(), k, at, 201);
            let e = g.finish().expect_err(words);
            assert!(e.message().contains(words), "{e}");
        }
        assert_eq!(memory[4], 4);
    }

    #[test]
    fn overlapping_ranges_share_a_copy() {
        let memory: Vec<u8> = (0..100).collect();
        // In place: written as argument 1 and read as argument 0, a part of which is only read.
        let r = ranges(&memory, &[(0, 30, Access::READ), (10, 10, Access::READ_WRITE)]);
        let g = Guarded::new(&r).expect("memory");
        poke(&g.addresses(), 0, 15, 99);
        g.finish().expect("within the written part");
        assert_eq!(memory[15], 99);
        let g = Guarded::new(&r).expect("memory");
        poke(&g.addresses(), 0, 25, 99);
        assert!(g.finish().is_err());
    }
}
