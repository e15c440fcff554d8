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
    let mut all = ge_om::zeroed(size).map_err(|_| none())?;
    for (offset, bytes) in parts {
        let place = usize::try_from(offset).ok().and_then(|o| Some(o..o.checked_add(bytes.len())?));
        match place.and_then(|p| all[..size].get_mut(p)) {
            Some(to) => to.copy_from_slice(&bytes),
            None => return Err(crate::Error::internal("a weight lies beyond the others")),
        }
    }
    Ok(Bytes::from_owner(all).slice(..size))
}

/// Joins the weights of a model into one aligned block. A model compiled in this process has its
/// weights in its separate constants, which may lie at any address: even a single one may be a
/// range of the source file. A model read from an OM file already has them in one mapped block,
/// which starts at a page, and is left unchanged.
///
/// # Errors
/// Fails if memory cannot be allocated.
pub fn in_one(m: &mut CompiledModel) -> Result<()> {
    let is_aligned = |b: &Bytes| b.as_ptr().addr().is_multiple_of(ALIGN);
    let whole = matches!(m.weights.as_slice(), [(0, b)] if b.len() as u64 >= m.memory.weights && is_aligned(b));
    if !whole && m.external.is_empty() && m.memory.weights > 0 {
        let parts = std::mem::take(&mut m.weights);
        m.weights = vec![(0, join(m.memory.weights, parts.into_iter())?)];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_block_is_taken_as_it_is_only_at_an_aligned_address() {
        let page = join(16, std::iter::once((0, Bytes::from(vec![7; 16])))).expect("small");
        for shift in [0, 1, 4, 8] {
            let block = page.slice(shift..);
            let mut m = CompiledModel { weights: vec![(0, block.clone())], ..CompiledModel::default() };
            m.memory.weights = block.len() as u64;
            in_one(&mut m).expect("small");
            let [(0, now)] = m.weights.as_slice() else { panic!("one block") };
            assert_eq!(now, &block);
            assert!(now.as_ptr().addr().is_multiple_of(ALIGN), "shifted by {shift}");
            assert_eq!(now.as_ptr() == block.as_ptr(), shift == 0, "an aligned block is not copied");
        }
    }
}
