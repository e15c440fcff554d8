//! Converts `.npy` arrays that are not in the device's order: first axis fastest (Fortran order, as
//! transposed arrays are saved) or most significant byte first.
use std::borrow::Cow;

/// Element order and byte order of a file.
pub(crate) struct Order {
    /// Bytes per element.
    pub(crate) unit: usize,
    /// Bytes per number if the most significant byte comes first; 0 if no bytes need swapping.
    pub(crate) swapped: usize,
    /// Whether the first axis is the fastest (Fortran order).
    pub(crate) fortran: bool,
}

impl Order {
    /// The same elements with the last axis fastest and the least significant byte first. `data`
    /// must hold as many elements as `dims` say.
    pub(crate) fn straight<'d>(&self, dims: &[u64], data: &'d [u8]) -> Cow<'d, [u8]> {
        let mut out = Cow::Borrowed(data);
        if self.fortran && dims.iter().filter(|d| **d > 1).count() > 1 && !data.is_empty() {
            out = Cow::Owned(self.turned(dims, data));
        }
        if self.swapped > 1 {
            out.to_mut().chunks_exact_mut(self.swapped).for_each(<[u8]>::reverse);
        }
        out
    }

    fn turned(&self, dims: &[u64], data: &[u8]) -> Vec<u8> {
        let mut step = 1;
        let axes: Vec<(usize, usize)> = dims
            .iter()
            .map(|d| {
                let axis = (*d as usize, step);
                step *= axis.0;
                axis
            })
            .collect();
        let mut out = Vec::with_capacity(data.len());
        let (mut index, mut from) = (vec![0; axes.len()], 0);
        for _ in 0..step {
            out.extend_from_slice(&data[from * self.unit..][..self.unit]);
            for (i, (size, step)) in index.iter_mut().zip(&axes).rev() {
                *i += 1;
                from += step;
                if *i < *size {
                    break;
                }
                from -= step * size;
                *i = 0;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_becomes_the_fastest_and_the_least_byte_the_first() {
        let dims = [2, 3, 2];
        // The value of the element at (i, j, k) is i + 2 j + 6 k.
        let data: Vec<u8> = (0..12u16).flat_map(u16::to_be_bytes).collect();
        let order = Order { unit: 2, swapped: 2, fortran: true };
        let right = [0u16, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11];
        let right: Vec<u8> = right.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(*order.straight(&dims, &data), right);
    }

    #[test]
    fn what_lies_straight_is_not_copied() {
        let order = Order { unit: 4, swapped: 0, fortran: true };
        for dims in [&[][..], &[1], &[3], &[1, 3, 1]] {
            let data = vec![7u8; 4 * dims.iter().product::<u64>() as usize];
            assert!(matches!(order.straight(dims, &data), Cow::Borrowed(_)), "{dims:?}");
        }
        assert!(order.straight(&[2, 0, 3], &[]).is_empty());
    }
}
