//! Windows over spatial axes: attributes of convolutions and pools, checked and extended to three
//! axes.
use crate::args::{bad, flag, ints_attr, text};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// One spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Input size.
    pub input: usize,
    /// Kernel size.
    pub kernel: usize,
    /// Distance between neighbouring windows.
    pub stride: usize,
    /// Distance between neighbouring kernel positions.
    pub dilation: usize,
    /// Padding before.
    pub begin: i64,
    /// Padding after.
    pub end: i64,
    /// Output size.
    pub output: usize,
}

/// An axis of size one, used to extend to three axes.
pub const UNIT: Axis = Axis { input: 1, kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0, output: 1 };

impl Axis {
    /// The range of outputs whose kernel position `k` is inside the input, and the input position
    /// for output 0 (may be negative).
    pub fn valid(&self, k: usize) -> (std::ops::Range<usize>, i64) {
        let first = k as i64 * self.dilation as i64 - self.begin;
        let s = self.stride as i64;
        let from = if first >= 0 { 0 } else { (-first + s - 1) / s };
        let last = self.input as i64 - 1 - first;
        let to = if last < 0 { 0 } else { last / s + 1 };
        let to = to.clamp(0, self.output as i64);
        ((from.min(to) as usize)..(to as usize), first)
    }
}

/// Whether the channels are last.
pub fn channels_last(ctx: &KernelCtx<'_>) -> bool {
    text(ctx, "data_format", "NCHW").ends_with('C')
}

/// The spatial part of a list attribute that covers all dimensions of `x` in the order of its
/// layout. If it is empty, every axis has the default.
pub fn spatial_list(ctx: &KernelCtx<'_>, key: &str, rank: usize, default: i64) -> Result<Vec<i64>> {
    match ints_attr(ctx, key) {
        None | Some([]) => Ok(vec![default; rank - 2]),
        Some(v) if v.len() == rank => Ok(if channels_last(ctx) { v[1..rank - 1].to_vec() } else { v[2..].to_vec() }),
        Some(v) => Err(bad(format!("attribute `{key}`"), format!("{} numbers", v.len()), format!("{rank} numbers"))),
    }
}

/// CANN's pads: begin and end of each spatial axis in turn; zeros if empty.
pub fn cann_pads(ctx: &KernelCtx<'_>, n: usize) -> Result<Vec<(i64, i64)>> {
    match ints_attr(ctx, "pads") {
        None | Some([]) => Ok(vec![(0, 0); n]),
        Some(v) if v.len() == 2 * n => Ok(v.chunks_exact(2).map(|p| (p[0], p[1])).collect()),
        Some(v) => Err(bad("attribute `pads`", format!("{} numbers", v.len()), format!("{} numbers", 2 * n))),
    }
}

/// Strides, dilations, and pads as pairs of begin and end.
pub type Lists = (Vec<i64>, Vec<i64>, Vec<(i64, i64)>);

/// ONNX's lists, with one number per spatial axis; pads list all begins, then all ends.
pub fn onnx_lists(ctx: &KernelCtx<'_>, n: usize) -> Result<Lists> {
    let list = |key: &str, len: usize, default: i64| match ints_attr(ctx, key) {
        None | Some([]) => Ok(vec![default; len]),
        Some(v) if v.len() == len => Ok(v.to_vec()),
        Some(v) => Err(bad(format!("attribute `{key}`"), format!("{} numbers", v.len()), format!("{len} numbers"))),
    };
    let (s, d, p) = (list("strides", n, 1)?, list("dilations", n, 1)?, list("pads", 2 * n, 0)?);
    Ok((s, d, (0..n).map(|i| (p[i], p[n + i])).collect()))
}

/// What SAME padding does if the stride is larger than the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// No padding: the first window begins at the first position, as in convolutions.
    FromTheFirst,
    /// Positions are left out at both ends, with the half rounded towards zero, as in onnxruntime's
    /// pools.
    LeavesOut,
}

/// The axes of a window, with output sizes computed. Fails if the window does not fit the padded
/// input.
pub fn axes(
    ctx: &KernelCtx<'_>,
    apart: Apart,
    input: &[usize],
    kernel: &[i64],
    s: &[i64],
    d: &[i64],
    p: &[(i64, i64)],
) -> Result<Vec<Axis>> {
    let mode = text(ctx, "auto_pad", "NOTSET");
    let ceil = flag(ctx, "ceil_mode", false);
    (0..input.len())
        .map(|i| {
            let (n, k, s, d) = (input[i] as i64, kernel[i], s[i], d[i]);
            let misfit = || {
                let found = format!("kernel {k} (stride {s}, dilation {d}, pads {} and {}) over {n}", p[i].0, p[i].1);
                bad("window", found, "a window that fits the padded input")
            };
            let limit = i64::from(i32::MAX);
            let sane = (1..=limit).contains(&k) && (1..=limit).contains(&s) && (1..=limit).contains(&d);
            if !sane || p[i].0.abs() > limit || p[i].1.abs() > limit || n > limit {
                return Err(misfit());
            }
            let span = (k - 1) * d + 1;
            let (out, begin, end) = match mode {
                "SAME_UPPER" | "SAME_LOWER" => {
                    let out = (n + s - 1) / s;
                    // Negative if the stride is larger than the window.
                    let least = if apart == Apart::LeavesOut { i64::MIN } else { 0 };
                    let total = ((out - 1) * s + span - n).max(least);
                    let begin = if mode == "SAME_UPPER" { total / 2 } else { (total + 1) / 2 };
                    (out, begin, total - begin)
                }
                _ => {
                    let (b, e) = if mode == "VALID" { (0, 0) } else { p[i] };
                    let room = n + b + e - span;
                    // When rounding up, a window that does not fit still counts as one that reaches
                    // beyond the input.
                    let reaches = ceil && room > -s && n + b > 0;
                    if room < 0 && !reaches {
                        return Err(misfit());
                    }
                    let mut out = if room < 0 { 1 } else { room / s + 1 };
                    if ceil && room > 0 && room % s != 0 && out * s < n + b {
                        out += 1;
                    }
                    (out, b, e)
                }
            };
            let [output, kernel, stride, dilation] = [out, k, s, d].map(|v| v.max(0) as usize);
            Ok(Axis { input: input[i], kernel, stride, dilation, begin, end, output })
        })
        .collect()
}

/// Extends the list to three axes by inserting unit axes at the front.
pub fn three(axes: &[Axis]) -> Result<[Axis; 3]> {
    match *axes {
        [w] => Ok([UNIT, UNIT, w]),
        [h, w] => Ok([UNIT, h, w]),
        [d, h, w] => Ok([d, h, w]),
        _ => Err(bad("number of spatial axes", axes.len(), "1 to 3")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_places_agree_with_a_scan() {
        for input in 1..7usize {
            for (stride, dilation, begin, kernel) in
                [(1, 1, 0, 1), (2, 1, 1, 3), (3, 2, 2, 2), (1, 3, -1, 2), (2, 2, 4, 3)]
            {
                let a = Axis { input, kernel, stride, dilation, begin, end: 0, output: 5 };
                for k in 0..kernel {
                    let (r, first) = a.valid(k);
                    let want: Vec<usize> = (0..5)
                        .filter(|&o| (0..input as i64).contains(&((o * stride + k * dilation) as i64 - begin)))
                        .collect();
                    assert_eq!(r.clone().collect::<Vec<_>>(), want, "{a:?} {k}");
                    assert!(r.is_empty() || first + (r.start * stride) as i64 >= 0);
                }
            }
        }
    }
}
