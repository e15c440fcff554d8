//! Constant integers of at most eight bits as the weights of a product: panels, scales and offsets of
//! `FusedWeightMatMul` (`families/weights.rs`).
use ge_kernels::gemm::weights::{Bits, PANEL, WeightProduct, pack_bytes, pack_halves};
use ge_plugin_api::fusion::Verdict;
use ge_plugin_api::types::{ConstTensor, DType};

/// Attribute of the number of rows that share scales.
pub const GROUP: &str = "group_size";

/// A matrix `[k, n]` of weights: (q - offset)·scale.
pub struct Weights {
    k: usize,
    n: usize,
    bits: Bits,
    /// The integers in row-major order.
    q: Vec<i8>,
    /// Rows that share scales; 0 if all do.
    pub group: usize,
    /// One number for each group and column.
    scale: Vec<f32>,
    /// The same; empty if all are zero.
    offset: Vec<f32>,
}

/// Integers of some type, without the distance that makes them signed.
struct Signed {
    bits: Bits,
    values: Vec<i8>,
    less: u8,
}

impl Signed {
    /// The integers of a constant, if they have at most eight bits.
    fn of(c: &ConstTensor) -> Verdict<Signed> {
        let (bits, less) = match c.dtype {
            DType::I8 => (8, 0),
            DType::U8 => (8, 128),
            DType::I4 => (4, 0),
            DType::U4 => (4, 8),
            other => return Err(format!("the weights are {other}")),
        };
        let bytes = c.bytes().ok_or("the weights cannot be read")?;
        let count = c.count().and_then(|n| usize::try_from(n).ok()).ok_or("the weights have no known size")?;
        let values = if bits == 8 {
            bytes.iter().map(|b| b.wrapping_sub(less) as i8).collect()
        } else {
            // The first number of a byte lies in its lower half; a signed one is extended.
            let half = |v: u8| if less == 0 { (v << 4) as i8 >> 4 } else { v.wrapping_sub(less) as i8 };
            bytes.iter().flat_map(|b| [half(b & 15), half(b >> 4)]).take(count).collect()
        };
        let signed = Signed { bits: if bits == 8 { Bits::Eight } else { Bits::Four }, values, less };
        if signed.values.len() == count { Ok(signed) } else { Err("the weights are not whole".into()) }
    }
}

/// How the scales of `DequantizeLinear` lie: a number of rows that share them, 0 for all.
fn rows_together(dims: [usize; 2], of_rows: usize, scales: &[u64], blocks: Option<(i64, i64)>) -> Verdict<usize> {
    let other = || format!("scales have the shape {scales:?}, weights {dims:?}");
    if scales.iter().product::<u64>() == 1 {
        return Ok(0);
    }
    let columns = 1 - of_rows;
    let Some((axis, block)) = blocks else {
        // A factor that broadcasts.
        let fits = scales.len() <= 2 && scales.last() == Some(&(dims[1] as u64));
        let fits = fits && scales.iter().product::<u64>() == dims[1] as u64 && columns == 1;
        return if fits { Ok(0) } else { Err(other()) };
    };
    let axis = usize::try_from(if axis < 0 { axis + 2 } else { axis }).map_err(|_| other())?;
    if block == 0 {
        return if axis == columns && scales == [dims[columns] as u64] { Ok(0) } else { Err(other()) };
    }
    let block = usize::try_from(block).map_err(|_| format!("blocks of {block}"))?;
    let mut wanted = dims;
    wanted[of_rows] = dims[of_rows].div_ceil(block.max(1));
    if block == 0 || axis != of_rows || scales != wanted.map(|d| d as u64) {
        return Err(other());
    }
    Ok(if wanted[of_rows] == 1 { 0 } else { block })
}

/// The transpose of a row-major matrix of `rows` rows.
fn transposed<T: Copy>(v: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns).flat_map(|j| (0..rows).map(move |i| v[i * columns + j])).collect()
}

impl Weights {
    /// The weights of a product that reads `integers` (`turned`: transposed) with these scales and
    /// zero points; `blocks` are axis and block size of `DequantizeLinear`.
    ///
    /// # Errors
    /// Says what the kernel of `FusedWeightMatMul` does not support.
    pub fn of(
        integers: &ConstTensor,
        scale: &ConstTensor,
        zero: Option<&ConstTensor>,
        blocks: Option<(i64, i64)>,
        turned: bool,
    ) -> Verdict<Weights> {
        let &[r, c] = integers.dims.as_slice() else {
            return Err(format!("the weights have the shape {:?}", integers.dims));
        };
        let size = |d: u64| usize::try_from(d).map_err(|_| format!("a size of {d}"));
        let dims = [size(r)?, size(c)?];
        let (k, n) = if turned { (dims[1], dims[0]) } else { (dims[0], dims[1]) };
        if k == 0 || n == 0 {
            return Err("there are no weights".into());
        }
        let group = rows_together(dims, usize::from(turned), scale.dims.as_slice(), blocks)?;
        let Signed { bits, values, less } = Signed::of(integers)?;
        WeightProduct::new([1, n, k], group, bits).ok_or_else(|| format!("groups of {group} rows of four bits"))?;
        let groups = if group == 0 { 1 } else { k.div_ceil(group) };
        let whole = |given: Vec<f32>| match given.len() {
            1 => vec![given[0]; groups * n],
            _ if turned && groups > 1 => transposed(&given, n, groups),
            _ => given,
        };
        let scale = scale.to_f64(usize::MAX).ok_or("the scale cannot be read")?;
        let scale = whole(scale.into_iter().map(|v| v as f32).collect());
        let zeros = match zero {
            Some(z) if z.dtype == integers.dtype => {
                let z = Signed::of(z)?;
                whole(z.values.into_iter().map(f32::from).collect())
            }
            Some(z) => return Err(format!("zero points are {}, weights {}", z.dtype, integers.dtype)),
            None => vec![-f32::from(less); groups * n],
        };
        if scale.len() != groups * n || zeros.len() != groups * n {
            return Err("there are not as many zero points as scales".into());
        }
        let offset = if zeros.iter().all(|z| *z == 0.0) { vec![] } else { zeros };
        let q = if turned { transposed(&values, n, k) } else { values };
        Ok(Weights { k, n, bits, q, group, scale, offset })
    }

    /// The panels.
    pub fn panels(&self) -> Option<ConstTensor> {
        let dims = [self.n.div_ceil(PANEL), self.bits.lines(self.k), PANEL].map(|d| d as u64);
        match self.bits {
            Bits::Eight => ConstTensor::of(&dims, &pack_bytes(&self.q, self.k, self.n)),
            Bits::Four => ConstTensor::of(&dims, &pack_halves(&self.q, self.k, self.n)),
        }
    }

    fn grouped(&self, v: &[f32]) -> Option<ConstTensor> {
        let n = self.n as u64;
        if self.group == 0 { ConstTensor::of(&[n], v) } else { ConstTensor::of(&[v.len() as u64 / n, n], v) }
    }

    /// The scales.
    pub fn scale(&self) -> Option<ConstTensor> {
        self.grouped(&self.scale)
    }

    /// The offsets; `None` if all are zero.
    pub fn offset(&self) -> Option<ConstTensor> {
        if self.offset.is_empty() { None } else { self.grouped(&self.offset) }
    }
}
