//! Digests of files and bytes, in hex.
use sha2::{Digest, Sha256};
use std::path::Path;

/// SHA-256 of a file, as lower-case hex digits.
pub fn digest(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut std::fs::File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}
/// Bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
