//! Large pages for weights. Where weights do not fit in a cache, each run reads all of them, and
//! with pages of 4 KiB a processor reads at five sixths of its speed: its prefetchers stop at the
//! end of a page.
//!
//! A mapped file has small pages on most file systems. The bytes of such a mapping are therefore
//! copied to anonymous memory in large pages, which then takes the place of the mapping, at the
//! same addresses.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use memmap2::{Mmap, MmapMut};

/// Size in bytes of a large page.
pub const LARGE: usize = 2 << 20;

/// Mappings below this size in bytes stay as they are.
const LEAST: usize = 2 * LARGE;

/// Number of bytes that are copied at a time, which bounds the memory that is used twice.
const STEP: usize = 4 * LARGE;

/// A mapping replaces memory only if this many times its size is available.
const SHARE: u64 = 4;

/// The live mappings of files.
static LIVE: Mutex<BTreeMap<usize, Live>> = Mutex::new(BTreeMap::new());

struct Live {
    bytes: usize,
    /// Whether it was moved to large pages, or is being moved.
    moved: bool,
}

fn live() -> MutexGuard<'static, BTreeMap<usize, Live>> {
    LIVE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A mapped file that can move to large pages.
pub(crate) struct Mapped(Mmap);

impl Mapped {
    pub(crate) fn new(map: Mmap) -> Self {
        live().insert(map.as_ptr().addr(), Live { bytes: map.len(), moved: false });
        Self(map)
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        live().remove(&self.0.as_ptr().addr());
    }
}

/// Zeroed memory that begins at a page; in large pages, if there are any and it is large.
///
/// # Errors
/// Returns the system's error if there is no memory.
pub fn zeroed(bytes: usize) -> std::io::Result<MmapMut> {
    let memory = MmapMut::map_anon(bytes.max(1))?;
    #[cfg(target_os = "linux")]
    if bytes >= LEAST {
        // Without large pages the memory is right all the same.
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    Ok(memory)
}

/// Moves the mapped file that holds `bytes` to large pages, unless it is small, has been moved, or
/// needs more than a quarter of the available memory. The addresses and the bytes stay the same,
/// also for threads that read them meanwhile; but other processes that map the same file no longer
/// share this memory. Bytes that [`map_file`](crate::map_file) did not map stay as they are.
pub fn to_large_pages(bytes: &Bytes) {
    let at = bytes.as_ptr().addr();
    let (start, end) = {
        let mut live = live();
        let Some((start, found)) = live.range_mut(..=at).next_back() else { return };
        let end = start + found.bytes;
        if at >= end || found.moved || found.bytes < LEAST {
            return;
        }
        found.moved = true;
        (*start, end)
    };
    if available().is_none_or(|a| ((end - start) as u64).saturating_mul(SHARE) > a) {
        return;
    }
    // `bytes` keeps the mapping alive beyond this call.
    let (first, last) = (start.next_multiple_of(LARGE), end & !(LARGE - 1));
    let Ok(mut room) = MmapMut::map_anon(STEP + LARGE) else { return };
    let skip = room.as_ptr().align_offset(LARGE);
    for from in (first..last).step_by(STEP) {
        if !replace(from, &mut room[skip..][..STEP.min(last - from)]) {
            return;
        }
    }
}

/// Number of bytes of memory that are available without swapping; `None` if the system does not
/// say.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Replaces the part of a read-only mapping that starts at `from` by a copy in large pages. `room`
/// is memory for the copy and has its size; both start at a large page. `false` if the system
/// refuses; the mapping is then as before.
#[cfg(target_os = "linux")]
fn replace(from: usize, room: &mut [u8]) -> bool {
    let (bytes, own) = (room.len(), room.as_mut_ptr());
    let there = std::ptr::with_exposed_provenance_mut::<u8>(from);
    // SAFETY: `there` is in a live mapping of a file, which no one writes to (`map_file`), and
    // `room` is anonymous memory that only this function uses. `mremap` puts the pages of `room` in
    // the place of the mapping's within one system call, with the same bytes and the same right to
    // read, so that no reader sees a difference. `MREMAP_DONTUNMAP` leaves `room` mapped, with
    // fresh pages.
    unsafe {
        libc::madvise(own.cast(), bytes, libc::MADV_HUGEPAGE);
        std::ptr::copy_nonoverlapping(there, own, bytes);
        if libc::mprotect(own.cast(), bytes, libc::PROT_READ) != 0 {
            return false;
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let moved = libc::mremap(own.cast(), bytes, bytes, flags, there.cast::<libc::c_void>());
        libc::mprotect(own.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) == 0 && moved != libc::MAP_FAILED
    }
}

#[cfg(not(target_os = "linux"))]
fn replace(_: usize, _: &mut [u8]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this many bytes, none of whose pages is like another, and its mapping.
    fn mapped(bytes: usize) -> (Vec<u8>, Bytes) {
        let all: Vec<u8> = (0..bytes as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        std::io::Write::write_all(&mut file, &all).expect("room on the disk");
        (all, crate::map_file(file.path()).expect("mapped"))
    }

    fn is_moved(bytes: &Bytes) -> bool {
        live().range(..=bytes.as_ptr().addr()).next_back().is_some_and(|(_, l)| l.moved)
    }

    #[test]
    fn bytes_and_addresses_stay_while_others_read() {
        let (all, bytes) = mapped(3 * STEP + 12345);
        let at = bytes.as_ptr();
        std::thread::scope(|s| {
            let readers: Vec<_> = (0..2).map(|_| s.spawn(|| (0..4).all(|_| bytes == all))).collect();
            to_large_pages(&bytes.slice(5000..6000));
            assert!(readers.into_iter().all(|r| r.join().expect("no panic")));
        });
        assert!(is_moved(&bytes) && bytes == all && bytes.as_ptr() == at);
        // A second time nothing happens; another mapping of the file is one of its own.
        to_large_pages(&bytes);
        assert_eq!(bytes, all);
    }

    #[test]
    fn small_files_and_other_memory_stay_as_they_are() {
        let (all, bytes) = mapped(LEAST - 1);
        to_large_pages(&bytes);
        assert!(!is_moved(&bytes) && bytes == all);
        let own = Bytes::from(vec![7; 2 * LEAST]);
        to_large_pages(&own);
        assert!(own.iter().all(|b| *b == 7));
        to_large_pages(&Bytes::new());
    }

    #[test]
    fn a_mapping_is_forgotten_when_its_last_slice_ends() {
        let (_, bytes) = mapped(LEAST);
        let at = bytes.as_ptr().addr();
        let slice = bytes.slice(LEAST - 10..);
        drop(bytes);
        assert!(live().contains_key(&at));
        drop(slice);
        assert!(!live().contains_key(&at));
    }
}
