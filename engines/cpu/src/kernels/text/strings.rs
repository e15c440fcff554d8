//! Reading and writing of string tensors for kernels.
use crate::args::{bad, dims, size, view_error};
use ge_kernels::view::broadcast_shapes;
use ge_plugin_api::kernel::{HostTensor, KernelCtx};
use ge_plugin_api::types::{DType, bytes_of_strings, strings_in};
use ge_plugin_api::{Error, Result};

/// The sizes and the strings of input `i`.
///
/// # Errors
/// Fails if the input is not a tensor of strings or contains a string that is not valid UTF-8.
pub fn read<'a>(ctx: &KernelCtx<'a>, i: usize) -> Result<(Vec<u64>, Vec<&'a str>)> {
    let x = ctx.input(i)?;
    let wrong = || bad(format!("input {i}"), format!("{}{:?} of other bytes", x.dtype, x.dims), "strings in UTF-8");
    let all = strings_in(x.bytes, x.count() as u64).filter(|_| x.dtype == DType::STRING).ok_or_else(wrong)?;
    let all: Option<Vec<&str>> = all.into_iter().map(|b| std::str::from_utf8(b).ok()).collect();
    Ok((x.dims.to_vec(), all.ok_or_else(wrong)?))
}

/// The broadcast sizes of two inputs, and the pairs of corresponding strings.
pub type Pairs<'a> = (Vec<u64>, Vec<(&'a str, &'a str)>);

/// The pairs of corresponding strings of inputs 0 and 1 after broadcasting, and the sizes.
///
/// # Errors
/// Returns the errors of [`read`]; also fails if the sizes do not broadcast.
pub fn pairs<'a>(ctx: &KernelCtx<'a>) -> Result<Pairs<'a>> {
    let ((dx, x), (dy, y)) = (read(ctx, 0)?, read(ctx, 1)?);
    let sizes = |d: &[u64]| d.iter().map(|n| size("a size", *n as i64)).collect::<Result<Vec<usize>>>();
    let (dx, dy) = (sizes(&dx)?, sizes(&dy)?);
    let shape = broadcast_shapes(&dx, &dy).map_err(view_error)?;
    let met = places(&shape, &dx).into_iter().zip(places(&shape, &dy));
    Ok((dims(&shape), met.map(|(i, j)| (x[i], y[j])).collect()))
}

/// The position of each element of a shape in a tensor of shape `of` that is broadcast to it.
fn places(shape: &[usize], of: &[usize]) -> Vec<usize> {
    let missing = shape.len() - of.len();
    let mut steps = vec![0; shape.len()];
    let mut step = 1;
    for k in (0..of.len()).rev() {
        steps[missing + k] = if of[k] == 1 { 0 } else { step };
        step *= of[k];
    }
    let mut all = vec![0];
    for (n, step) in shape.iter().zip(&steps) {
        all = all.iter().flat_map(|at| (0..*n).map(move |i| at + i * step)).collect();
    }
    all
}

/// Writes a tensor of strings as output `i`.
///
/// # Errors
/// Fails if there is not enough memory, or the number of strings does not match the sizes.
pub fn write<S: AsRef<str>>(ctx: &mut KernelCtx<'_>, i: usize, sizes: &[u64], all: &[S]) -> Result<()> {
    if sizes.iter().product::<u64>() != all.len() as u64 {
        return Err(Error::internal(format!("{} strings for sizes {sizes:?}", all.len())));
    }
    let all: Vec<&[u8]> = all.iter().map(|s| s.as_ref().as_bytes()).collect();
    ctx.set_output(i, HostTensor::from_bytes(DType::STRING, sizes, &bytes_of_strings(&all))?)
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn an_axis_of_one_stays_where_it_is() {
        assert_eq!(places(&[2, 3], &[3]), [0, 1, 2, 0, 1, 2]);
        assert_eq!(places(&[2, 3], &[2, 1]), [0, 0, 0, 1, 1, 1]);
        assert_eq!(places(&[2, 0], &[]), [0usize; 0]);
    }
}
