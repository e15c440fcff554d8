//! Weights as one contiguous block of bytes, as a device takes them.
use crate::Result;
use bytes::Bytes;
use ge_model::CompiledModel;

/// Alignment of the weight block in bytes.
const ALIGN: usize = 4096;

/// Copies parts of the weights to their offsets in one block of `size` bytes.
///
/// # Errors
/// Fails if memory cannot be allocated.
pub fn join(size: u64, parts: impl Iterator<Item = (u64, Bytes)>) -> Result<Bytes> {
    let none = || crate::Error::failed(format!("there is no memory for {size} bytes of weights"));
    let size = usize::try_from(size).map_err(|_| none())?;
    let mut all: Vec<u8> = Vec::new();
    all.try_reserve_exact(size.checked_add(ALIGN).ok_or_else(none)?).map_err(|_| none())?;
    all.resize(size + ALIGN, 0);
    let start = all.as_ptr().align_offset(ALIGN).min(ALIGN);
    for (offset, bytes) in parts {
        let place = usize::try_from(offset).ok().and_then(|o| o.checked_add(start));
        let end = place.and_then(|p| p.checked_add(bytes.len())).filter(|e| *e <= start + size);
        match (place, end) {
            (Some(at), Some(end)) => all[at..end].copy_from_slice(&bytes),
            _ => return Err(crate::Error::internal("a weight lies beyond the others")),
        }
    }
    Ok(Bytes::from(all).slice(start..start + size))
}

/// Joins the weights of a model into one block. A model compiled in this process has its weights in
/// its separate constants. A model read from a file already has them in one mapped block and is
/// left unchanged.
///
/// # Errors
/// Fails if memory cannot be allocated.
pub fn in_one(m: &mut CompiledModel) -> Result<()> {
    let whole = matches!(m.weights.as_slice(), [(0, b)] if b.len() as u64 >= m.memory.weights);
    if !whole && m.external.is_empty() && m.memory.weights > 0 {
        let parts = std::mem::take(&mut m.weights);
        m.weights = vec![(0, join(m.memory.weights, parts.into_iter())?)];
    }
    Ok(())
}
