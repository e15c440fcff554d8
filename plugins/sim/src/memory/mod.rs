//! Device memory: aligned allocations of this process, and host memory registered in place.
//!
//! Nothing is reserved by logical address: an allocation gets the requested memory or fails with an
//! error.
pub mod copy;
pub mod reduce;

use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::{Error, ErrorKind, Result};
use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Alignment of every allocation in bytes; it is the unit of the memory plan.
pub const ALIGN: usize = 512;

/// Allocations of this size in bytes and above are pages of their own, in large pages where the
/// system has them: kernels then wait less for the translation of addresses, and the pages that the
/// system gives are zero already.
const PAGES: usize = 4 << 20;

/// Whose memory a region is.
enum Owner {
    /// Registered host memory, which must not be freed here.
    Host,
    /// The allocator's.
    Heap(Layout),
    /// The system's; unmapped when it is dropped.
    Pages(#[expect(dead_code, reason = "only dropped")] MmapMut),
}

struct Region {
    bytes: u64,
    owner: Owner,
    kind: MemoryKind,
    read_only: bool,
    /// How many times host memory is registered; 0 for an allocation.
    registered: u32,
}

/// The memory of an open device.
pub struct Memory {
    regions: Mutex<State>,
    capacity: u64,
}

#[derive(Default)]
struct State {
    by_address: BTreeMap<u64, Region>,
    used: u64,
    /// Disjoint ranges that the host wrote, from start to end; `check_races` uses them.
    written: BTreeMap<u64, u64>,
}

fn device_error(message: String) -> Error {
    Error::new(ErrorKind::DEVICE, message)
}

impl Memory {
    /// Makes a memory with a capacity of `capacity` bytes.
    pub fn new(capacity: u64) -> Memory {
        Memory { regions: Mutex::default(), capacity }
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.regions.lock().unwrap_or_else(|p| p.into_inner())
    }
    /// Allocates zeroed memory and returns its address. An allocation of zero bytes also has an
    /// address.
    ///
    /// # Errors
    /// Fails if the memory kind is unknown or there is not enough memory.
    pub fn alloc(&self, kind: MemoryKind, bytes: u64) -> Result<u64> {
        if kind.known_name().is_none() {
            return Err(device_error(format!("there is no memory kind {}", kind.code())));
        }
        let mut state = self.state();
        let left = self.capacity - state.used;
        // HOST memory belongs to the host and does not count against the device's capacity.
        if kind != MemoryKind::HOST && bytes > left {
            return Err(device_error(format!("out of device memory: {bytes} bytes of {kind} asked for, {left} left")));
        }
        let size = usize::try_from(bytes.max(1)).ok();
        let layout = size.and_then(|s| Layout::from_size_align(s, ALIGN).ok());
        let layout =
            layout.ok_or_else(|| device_error(format!("{bytes} bytes of {kind} are more than can be addressed")))?;
        let (address, owner) = zeroed(layout)
            .ok_or_else(|| device_error(format!("the process has no {bytes} bytes for device memory {kind}")))?;
        if kind != MemoryKind::HOST {
            state.used += bytes;
        }
        state.by_address.insert(address, Region { bytes, owner, kind, read_only: false, registered: 0 });
        Ok(address)
    }
    /// Frees an allocation.
    ///
    /// # Errors
    /// Fails if `address` is not an allocation of this device.
    pub fn free(&self, address: u64) -> Result<()> {
        let mut state = self.state();
        match state.by_address.get(&address) {
            Some(Region { owner: Owner::Heap(_) | Owner::Pages(_), bytes, kind, .. }) => {
                let (bytes, kind) = (*bytes, *kind);
                if kind != MemoryKind::HOST {
                    state.used -= bytes;
                }
                let region = state.by_address.remove(&address);
                forget_written(&mut state.written, address, bytes);
                if let Some(Region { owner: Owner::Heap(layout), .. }) = region {
                    // SAFETY: allocated by `alloc` with this layout; it was removed above, so it is
                    // freed only once.
                    unsafe { dealloc(address as *mut u8, layout) };
                }
                Ok(())
            }
            _ => Err(device_error("free of an address that is no allocation of this device".into())),
        }
    }
    /// Registers host memory in place; on this device an address is an address of the process.
    /// Models that share weights register the same memory: it stays registered until each of them
    /// has ended its registration.
    ///
    /// # Errors
    /// Fails if the range does not exist, if it is memory of the device, or if the address is
    /// registered with another size or another right to write.
    pub fn register(&self, address: u64, bytes: u64, read_only: bool) -> Result<u64> {
        if address == 0 || address.checked_add(bytes).is_none() {
            return Err(device_error(format!("host memory of {bytes} bytes cannot be registered: no such range")));
        }
        let mut state = self.state();
        let new = Region { bytes, owner: Owner::Host, kind: MemoryKind::HOST, read_only, registered: 0 };
        let region = state.by_address.entry(address).or_insert(new);
        if !matches!(region.owner, Owner::Host) {
            return Err(device_error("this is memory of the device, not of the host".into()));
        }
        if (region.bytes, region.read_only) != (bytes, read_only) {
            let right = |read_only: bool| if read_only { "to be read" } else { "to be written" };
            return Err(device_error(format!(
                "host memory of {bytes} bytes {} is registered already, as {} bytes {}: end that registration first",
                right(read_only),
                region.bytes,
                right(region.read_only)
            )));
        }
        region.registered += 1;
        Ok(address)
    }
    /// Ends one registration of host memory.
    ///
    /// # Errors
    /// Fails if nothing is registered at this address.
    pub fn unregister(&self, address: u64) -> Result<()> {
        let mut state = self.state();
        let Some(region) = state.by_address.get_mut(&address).filter(|r| matches!(r.owner, Owner::Host)) else {
            return Err(device_error("this address was not registered".into()));
        };
        region.registered -= 1;
        if region.registered == 0 {
            state.by_address.remove(&address);
        }
        Ok(())
    }
    /// Checks that a range lies in one region, which must be writable if `write` is set.
    fn check(state: &State, address: u64, bytes: u64, write: bool) -> Result<()> {
        let end = address.checked_add(bytes);
        let found = state.by_address.range(..=address).next_back();
        match (found, end) {
            (Some((start, r)), Some(end)) if end <= start + r.bytes && !(write && r.read_only) => Ok(()),
            (Some((_, r)), _) if r.read_only && write => {
                Err(device_error("copy into memory registered as read-only".into()))
            }
            _ => Err(device_error(format!("copy of {bytes} bytes beyond the memory of the device"))),
        }
    }
    /// Copies from the host to the device.
    pub fn copy_in(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state();
        Memory::check(&state, address, bytes.len() as u64, true)?;
        if !bytes.is_empty() {
            note_written(&mut state.written, address, address + bytes.len() as u64);
        }
        // SAFETY: the range lies in a live region (checked under the lock that freeing takes), and
        // `bytes` is host memory that the caller borrows; `copy` allows overlap.
        unsafe { core::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }
    /// Copies from the device to the host.
    pub fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        let state = self.state();
        Memory::check(&state, address, bytes.len() as u64, false)?;
        // SAFETY: as in `copy_in`.
        unsafe { core::ptr::copy(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
    /// The parts of `start..end` that the host wrote by `copy_in`.
    pub fn written_in(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let state = self.state();
        let first = state.written.range(..=start).next_back().map_or(start, |(s, _)| *s);
        let parts = state.written.range(first..end).filter(|(_, e)| **e > start);
        parts.map(|(s, e)| ((*s).max(start), (*e).min(end))).collect()
    }
    /// Number of allocated bytes that count against the capacity.
    pub fn used(&self) -> u64 {
        self.state().used
    }
}

/// Zeroed memory and its address; `None` if there is none. The layout has a size above zero.
fn zeroed(layout: Layout) -> Option<(u64, Owner)> {
    if layout.size() >= PAGES {
        let memory = MmapMut::map_anon(layout.size()).ok()?;
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        return Some((memory.as_ptr() as u64, Owner::Pages(memory)));
    }
    // SAFETY: the layout has a size above zero.
    let p = unsafe { alloc_zeroed(layout) };
    (!p.is_null()).then_some((p as u64, Owner::Heap(layout)))
}

fn note_written(written: &mut BTreeMap<u64, u64>, mut start: u64, mut end: u64) {
    while let Some((&s, &e)) = written.range(..=end).next_back().filter(|(_, e)| **e >= start) {
        written.remove(&s);
        (start, end) = (start.min(s), end.max(e));
    }
    written.insert(start, end);
}

fn forget_written(written: &mut BTreeMap<u64, u64>, start: u64, bytes: u64) {
    let gone: Vec<u64> = written.range(start..start.saturating_add(bytes.max(1))).map(|(s, _)| *s).collect();
    for s in gone {
        written.remove(&s);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let state = self.regions.get_mut().unwrap_or_else(|p| p.into_inner());
        for (address, region) in &state.by_address {
            if let Owner::Heap(layout) = region.owner {
                // SAFETY: allocated by `alloc` with this layout; it is still in the table, so it
                // has not been freed yet.
                unsafe { dealloc(*address as *mut u8, layout) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_within_their_region() {
        let m = Memory::new(1 << 20);
        let a = m.alloc(MemoryKind::HBM, 100).expect("room");
        assert_eq!(a % ALIGN as u64, 0);
        m.copy_in(a + 90, &[7; 10]).expect("fits");
        let mut back = [0; 10];
        m.copy_out(a + 90, &mut back).expect("fits");
        assert_eq!(back, [7; 10]);
        assert!(m.copy_in(a + 91, &[7; 10]).is_err());
        assert!(m.copy_out(u64::MAX - 2, &mut back).is_err());
        m.free(a).expect("mine");
        assert!(m.free(a).is_err());
        assert!(m.copy_out(a, &mut back).is_err());
    }

    #[test]
    fn capacity_is_the_devices_and_huge_sizes_are_errors() {
        let m = Memory::new(1000);
        let a = m.alloc(MemoryKind::HBM, 600).expect("room");
        let e = m.alloc(MemoryKind::P2P, 600).expect_err("full");
        assert_eq!(e.kind, ErrorKind::DEVICE);
        assert!(e.message().contains("400 left"), "{e}");
        m.alloc(MemoryKind::HOST, 600).expect("the host's own");
        m.free(a).expect("mine");
        assert_eq!(m.used(), 0);
        let m = Memory::new(u64::MAX);
        assert!(m.alloc(MemoryKind::HBM, u64::MAX).is_err());
        assert!(m.alloc(MemoryKind::HBM, 1 << 46).is_err());
    }

    #[test]
    fn host_memory_is_taken_in_place() {
        let m = Memory::new(1000);
        let host = [1u8, 2, 3, 4];
        let at = m.register(host.as_ptr() as u64, 4, true).expect("taken");
        assert_eq!(at, host.as_ptr() as u64);
        let mut two = [0; 2];
        m.copy_out(at + 2, &mut two).expect("in range");
        assert_eq!(two, [3, 4]);
        assert!(m.copy_in(at, &[9]).is_err());
        assert!(m.free(at).is_err());
        // Registered twice, it is there until both have ended; another size or right is refused.
        m.register(at, 4, true).expect("taken again");
        for (bytes, read_only) in [(3, true), (4, false)] {
            let e = m.register(at, bytes, read_only).expect_err("another range");
            assert!(e.message().contains("registered already, as 4 bytes to be read"), "{e}");
        }
        m.unregister(at).expect("registered");
        m.copy_out(at, &mut two).expect("still registered");
        m.unregister(at).expect("registered");
        assert!(m.copy_out(at, &mut two).is_err() && m.unregister(at).is_err());
    }

    #[test]
    fn written_ranges_merge_and_are_cut_to_what_is_asked() {
        let mut w = BTreeMap::new();
        for (s, e) in [(10, 20), (30, 40), (20, 25), (24, 31), (50, 60)] {
            note_written(&mut w, s, e);
        }
        assert_eq!(w.into_iter().collect::<Vec<_>>(), vec![(10, 40), (50, 60)]);
        let m = Memory::new(1000);
        let a = m.alloc(MemoryKind::HBM, 100).expect("room");
        m.copy_in(a + 10, &[1; 20]).expect("fits");
        assert_eq!(m.written_in(a, a + 15), vec![(a + 10, a + 15)]);
        assert_eq!(m.written_in(a + 15, a + 100), vec![(a + 15, a + 30)]);
        assert!(m.written_in(a + 30, a + 100).is_empty());
    }
}
