//! Conversions between typed slices and raw bytes, with checks of length and alignment.
use crate::view::elem::Elem;
use crate::view::layout::ViewError;

fn check<T: Elem>(ptr: *const u8, len: usize) -> Result<usize, ViewError> {
    let size = std::mem::size_of::<T>();
    if !(ptr as usize).is_multiple_of(std::mem::align_of::<T>()) {
        return Err(ViewError::Misaligned { kind: T::KIND, align: std::mem::align_of::<T>() });
    }
    if !len.is_multiple_of(size) {
        return Err(ViewError::OddLength { kind: T::KIND, bytes: len });
    }
    Ok(len / size)
}

/// Views bytes as elements.
///
/// # Errors
/// Returns `Misaligned` if the address is not aligned for the type, `OddLength` if the length is
/// not a multiple of its size.
pub fn cast_slice<T: Elem>(bytes: &[u8]) -> Result<&[T], ViewError> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    let len = check::<T>(bytes.as_ptr(), bytes.len())?;
    // SAFETY: alignment and length are checked above, and every bit pattern is a valid `Elem` (the
    // trait is sealed).
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), len) })
}

/// Views mutable bytes as mutable elements.
///
/// # Errors
/// Returns the errors of [`cast_slice`].
pub fn cast_slice_mut<T: Elem>(bytes: &mut [u8]) -> Result<&mut [T], ViewError> {
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    let len = check::<T>(bytes.as_ptr(), bytes.len())?;
    // SAFETY: as in `cast_slice`; the borrow is exclusive, and any `Elem` written leaves valid
    // bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
}

/// Views elements of one type as elements of another with the same bytes.
///
/// # Errors
/// Returns the errors of [`cast_slice`].
pub fn seen_as<U: Elem, T: Elem>(elems: &[T]) -> Result<&[U], ViewError> {
    cast_slice(as_bytes(elems))
}

/// Views mutable elements of one type as mutable elements of another with the same bytes.
///
/// # Errors
/// Returns the errors of [`cast_slice`].
pub fn seen_as_mut<U: Elem, T: Elem>(elems: &mut [T]) -> Result<&mut [U], ViewError> {
    cast_slice_mut(as_bytes_mut(elems))
}

/// Views elements as bytes.
pub fn as_bytes<T: Elem>(elems: &[T]) -> &[u8] {
    // SAFETY: an `Elem` has no padding, so all its bytes are initialised; `u8` needs no alignment.
    unsafe { std::slice::from_raw_parts(elems.as_ptr().cast(), std::mem::size_of_val(elems)) }
}

/// Views mutable elements as mutable bytes.
pub fn as_bytes_mut<T: Elem>(elems: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`; the borrow is exclusive, and any bytes written leave a valid `Elem`
    // (the trait is sealed).
    unsafe { std::slice::from_raw_parts_mut(elems.as_mut_ptr().cast(), std::mem::size_of_val(elems)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_there_and_back() {
        let v = [1.5f32, -2.0];
        assert_eq!(cast_slice::<f32>(as_bytes(&v)).unwrap(), &v);
        assert_eq!(seen_as::<u32, _>(&v).unwrap(), &v.map(f32::to_bits));
    }

    #[test]
    fn a_bad_address_or_length_is_an_error() {
        let v = [0u64; 2];
        let b = as_bytes(&v);
        assert!(matches!(cast_slice::<f32>(&b[1..5]), Err(ViewError::Misaligned { .. })));
        assert!(matches!(cast_slice::<f32>(&b[..6]), Err(ViewError::OddLength { bytes: 6, .. })));
        assert!(cast_slice::<f64>(&[]).unwrap().is_empty());
    }
}
