//! Window geometry shared by convolution and pooling: strides, dilations and pads of up to three
//! spatial axes, with channels second, from CANN's attributes (one number per axis of x; begin and
//! end pads of each spatial axis in turn).
use crate::sig::{Answer, Sig, Tensor};

/// Geometry of a window over `x`; with fewer than three spatial axes, the first ones are 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Spatial sizes of the input.
    pub input: [usize; 3],
    /// Spatial sizes of the output.
    pub output: [usize; 3],
    /// Window sizes.
    pub kernel: [usize; 3],
    /// Strides.
    pub stride: [usize; 3],
    /// Dilations.
    pub dilation: [usize; 3],
    /// Padding before and after each axis; the caller checks it against the output's size.
    pub pads: [[usize; 2]; 3],
}

/// Spatial sizes of a shape `[N, C, ...]`, with leading ones.
pub fn spatial(t: &Tensor) -> Answer<[usize; 3]> {
    let mut s = [1; 3];
    match t.shape.len() {
        n @ 3..=5 => {
            s[5 - n..].copy_from_slice(&t.shape[2..]);
            Ok(s)
        }
        n => Err(format!("x has rank {n}, it takes 3 to 5")),
    }
}

/// Refuses channels that are not second.
pub fn channels_second(sig: &Sig) -> Answer<()> {
    match sig.text("data_format", "NCHW") {
        f if f.ends_with('C') => Err(format!("data_format is {f}, it takes channels second")),
        _ => Ok(()),
    }
}

/// The spatial part of a list attribute with one number per axis of x.
pub fn list(sig: &Sig, key: &str, rank: usize, default: usize) -> Answer<[usize; 3]> {
    let mut out = [default; 3];
    match sig.attrs.ints(key) {
        None | Some([]) => {
            if rank < 5 {
                out[..5 - rank].fill(1.min(default));
            }
        }
        Some(v) if v.len() == rank => {
            out[..5 - rank].fill(1.min(default));
            for (o, &x) in out[5 - rank..].iter_mut().zip(&v[2..]) {
                *o = usize::try_from(x).map_err(|_| format!("attribute `{key}` has {x}"))?;
            }
        }
        Some(v) => return Err(format!("attribute `{key}` has {} numbers, x {rank} axes", v.len())),
    }
    Ok(out)
}

impl Window {
    /// Reads the attributes for a window of size `kernel` (spatial, with leading ones). The
    /// output's sizes are those of the graph.
    ///
    /// # Errors
    /// Fails with a reason if the attributes do not match.
    pub fn of(sig: &Sig, x: &Tensor, y: &Tensor, kernel: [usize; 3]) -> Answer<Window> {
        channels_second(sig)?;
        let rank = x.rank();
        let (input, output) = (spatial(x)?, spatial(y)?);
        let (stride, dilation) = (list(sig, "strides", rank, 1)?, list(sig, "dilations", rank, 1)?);
        if stride.contains(&0) || dilation.contains(&0) || kernel.contains(&0) {
            return Err("a window size, stride or dilation is zero".into());
        }
        let mut pads = [[0; 2]; 3];
        match sig.text("auto_pad", "NOTSET") {
            "VALID" => {}
            mode @ ("SAME_UPPER" | "SAME_LOWER") => {
                for d in 0..3 {
                    let reach = (output[d].max(1) - 1)
                        .saturating_mul(stride[d])
                        .saturating_add((kernel[d] - 1).saturating_mul(dilation[d]) + 1);
                    // If windows are further apart than they reach, those of a convolution begin at
                    // the first element.
                    let pool = sig.op.contains("Pool");
                    let total = match reach.checked_sub(input[d]) {
                        None if pool => {
                            return Err(format!(
                                "auto_pad {mode} leaves elements of axis {d} out: windows of {} are {} apart",
                                kernel[d], stride[d]
                            ));
                        }
                        total => total.unwrap_or(0),
                    };
                    let less = total / 2;
                    pads[d] = if mode == "SAME_UPPER" { [less, total - less] } else { [total - less, less] };
                }
            }
            _ => match sig.attrs.ints("pads") {
                None | Some([]) => {}
                Some(v) if v.len() == 2 * (rank - 2) => {
                    for (p, v) in pads[5 - rank..].iter_mut().zip(v.as_chunks::<2>().0) {
                        for (p, &v) in p.iter_mut().zip(v) {
                            *p = usize::try_from(v).map_err(|_| format!("attribute `pads` has {v}"))?;
                        }
                    }
                }
                Some(v) => {
                    return Err(format!("attribute `pads` has {} numbers, it takes {}", v.len(), 2 * (rank - 2)));
                }
            },
        }
        Ok(Window { input, output, kernel, stride, dilation, pads })
    }
}
