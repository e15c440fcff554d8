//! What kernels share: real numbers of several types, packed integers, checks of sizes.
use ge_plugin_api::kernel::{TensorMut, TensorView};
use ge_plugin_api::types::DType;
use ge_plugin_api::{Error, Result};
use half::{bf16, f16};

/// The elements of a real tensor, as f32.
pub(crate) fn reals(x: &TensorView<'_>) -> Result<Vec<f32>> {
    Ok(match x.dtype {
        DType::F16 => x.values::<f16>()?.iter().map(|v| v.to_f32()).collect(),
        DType::BF16 => x.values::<bf16>()?.iter().map(|v| v.to_f32()).collect(),
        _ => x.values::<f32>()?.to_vec(),
    })
}

/// Element `i` of numbers packed with `bits` bits.
pub(crate) fn unpack(bytes: &[u8], i: usize, bits: usize) -> u8 {
    let each = 8 / bits;
    let byte = bytes.get(i / each).copied().unwrap_or(0);
    if bits == 8 { byte } else { (byte >> (i % each * bits)) & ((1 << bits) - 1) }
}

/// Checks a number of elements or bytes.
///
/// # Errors
/// Fails with `what` if they differ.
pub(crate) fn expect(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::failed(format!("{what}: found {found}, expected {expected}"))) }
}

/// Writes real numbers to a tensor, from element `at` on.
pub(crate) fn put(y: &mut TensorMut<'_>, at: usize, v: &[f32]) -> Result<()> {
    match y.dtype {
        DType::F16 => {
            let y = &mut y.values::<f16>()?[at..at + v.len()];
            y.iter_mut().zip(v).for_each(|(y, v)| *y = f16::from_f32(*v));
        }
        _ => y.values::<f32>()?[at..at + v.len()].copy_from_slice(v),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bits_of_a_byte_come_first() {
        assert_eq!([0, 1, 2].map(|i| unpack(&[0x21, 0x43], i, 4)), [1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(|i| unpack(&[0b11_10_01_00], i, 2)), [0, 1, 2, 3]);
        assert_eq!(unpack(&[7, 200], 1, 8), 200);
    }
}
