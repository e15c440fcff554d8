//! Digests: SHA-256 of the file without its weights, and XXH3-128 of each 4 MiB of the weights
//! (DESIGN 5).
//!
//! The digests protect against accidental damage. Against malicious files, every number is checked
//! where it is used.

use std::fmt::Write as _;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3;

use crate::header::{CHECKSUM_AT, CHECKSUM_LEN};

/// Number of bytes of the weights that one digest covers.
pub const CHUNK: usize = 4 << 20;
/// Size in bytes of one digest of the weights: XXH3-128, little endian.
pub const CHUNK_DIGEST: usize = 16;

/// Size in bytes of the digests for `weights` bytes of weights; `None` on overflow.
pub(crate) fn digests_len(weights: u64) -> Option<usize> {
    usize::try_from(weights.div_ceil(CHUNK as u64)).ok()?.checked_mul(CHUNK_DIGEST)
}

/// The parts of the file that the SHA-256 covers: everything except the weights, in file order.
pub(crate) fn covered(file_len: u64, weights: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<&Range<u64>> = weights.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut parts = Vec::new();
    let mut at = 0;
    for range in sorted {
        if at < range.start {
            parts.push(at..range.start);
        }
        at = at.max(range.end);
    }
    if at < file_len {
        parts.push(at..file_len);
    }
    parts
}

/// SHA-256 over pieces of the file in order; it replaces the checksum field by zeros.
struct FileDigest {
    sha: Sha256,
}

impl FileDigest {
    fn update(&mut self, at: u64, bytes: &[u8]) {
        let field = CHECKSUM_AT as u64..(CHECKSUM_AT + CHECKSUM_LEN) as u64;
        let end = at + bytes.len() as u64;
        let (first, last) = (field.start.clamp(at, end), field.end.clamp(at, end));
        let (first, last) = ((first - at) as usize, (last - at) as usize);
        self.sha.update(&bytes[..first]);
        self.sha.update(&[0; CHECKSUM_LEN][..last - first]);
        self.sha.update(&bytes[last..]);
    }

    fn finish(self) -> String {
        let mut hex = String::with_capacity(CHECKSUM_LEN);
        for byte in self.sha.finalize() {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}

/// The checksum of a file in memory or mapped; `weights` are the ranges of its weights.
pub(crate) fn of_bytes(file: &[u8], weights: &[Range<u64>]) -> String {
    let mut digest = FileDigest { sha: Sha256::new() };
    for part in covered(file.len() as u64, weights) {
        digest.update(part.start, &file[part.start as usize..part.end as usize]);
    }
    digest.finish()
}

/// The checksum of a file that was just written. Reads everything except the weights.
///
/// # Errors
/// Returns the system's error if reading fails.
pub(crate) fn of_file<F: Read + Seek>(file: &mut F, file_len: u64, weights: &[Range<u64>]) -> io::Result<String> {
    let mut digest = FileDigest { sha: Sha256::new() };
    let mut buffer = vec![0; 1 << 18];
    for part in covered(file_len, weights) {
        file.seek(SeekFrom::Start(part.start))?;
        let mut at = part.start;
        while at < part.end {
            let len = (part.end - at).min(buffer.len() as u64) as usize;
            file.read_exact(&mut buffer[..len])?;
            digest.update(at, &buffer[..len]);
            at += len as u64;
        }
    }
    Ok(digest.finish())
}

/// Computes digests of weights that arrive in order.
#[derive(Default)]
pub(crate) struct WeightHasher {
    hasher: Xxh3,
    filled: usize,
    digests: Vec<u8>,
}

impl WeightHasher {
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.filled));
            self.hasher.update(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == CHUNK {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.digests.extend_from_slice(&self.hasher.digest128().to_le_bytes());
        self.hasher.reset();
        self.filled = 0;
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.close();
        }
        self.digests
    }
}

/// Index of the first chunk of `weights` whose digest is wrong. The chunks are read in parallel,
/// each once. `digests` has [`digests_len`] bytes.
pub(crate) fn first_bad_chunk(weights: &[u8], digests: &[u8]) -> Option<usize> {
    weights
        .par_chunks(CHUNK)
        .zip(digests.par_chunks(CHUNK_DIGEST))
        .position_first(|(chunk, digest)| xxhash_rust::xxh3::xxh3_128(chunk).to_le_bytes() != *digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_bytes_have_the_same_checksum_and_the_field_does_not_count() {
        let mut bytes: Vec<u8> = (0..600_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        let weights = [300_000..400_000, 500..1_000];
        let expected = of_bytes(&bytes, &weights);
        let mut file = io::Cursor::new(bytes.clone());
        assert_eq!(of_file(&mut file, bytes.len() as u64, &weights).unwrap(), expected);
        bytes[CHECKSUM_AT] ^= 1;
        bytes[CHECKSUM_AT + CHECKSUM_LEN - 1] ^= 1;
        bytes[350_000] ^= 1;
        assert_eq!(of_bytes(&bytes, &weights), expected);
        for at in [0, CHECKSUM_AT - 1, CHECKSUM_AT + CHECKSUM_LEN, 499, 1_000, 299_999, 400_000, 599_999] {
            bytes[at] ^= 1;
            assert_ne!(of_bytes(&bytes, &weights), expected, "{at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn the_checksum_is_plain_sha256() {
        // printf '' | sha256sum
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of_bytes(&[], &[]), empty);
        assert_eq!(of_bytes(b"xx", &[0..1, 1..2]), empty);
    }

    #[test]
    fn streamed_digests_find_the_first_bad_chunk() {
        let mut weights = vec![5_u8; 2 * CHUNK + 17];
        let mut hasher = WeightHasher::default();
        for piece in weights.chunks(1_000_003) {
            hasher.update(piece);
        }
        let digests = hasher.finish();
        assert_eq!(Some(digests.len()), digests_len(weights.len() as u64));
        assert_eq!(first_bad_chunk(&weights, &digests), None);
        weights[2 * CHUNK + 16] ^= 1;
        assert_eq!(first_bad_chunk(&weights, &digests), Some(2));
        weights[CHUNK] ^= 1;
        assert_eq!(first_bad_chunk(&weights, &digests), Some(1));
    }
}
