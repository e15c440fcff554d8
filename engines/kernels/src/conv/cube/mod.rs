//! Convolutions of 16-bit floating-point types in the layouts of the cube unit: x and y are
//! NC1HWC0, with channels in groups of sixteen, innermost.
//!
//! Lanes of the last group beyond the channels must be zero in x, and are written as zero whatever
//! the epilogue computes for them. The filter of a dense convolution is FRACTAL_Z, `[C1 * kh * kw,
//! O1, 16, 16]`: blocks of output by input channels. The filter of a depthwise convolution is
//! plain. There are two spatial axes.
mod dense;
mod depthwise;

pub use dense::CubeConv;
pub use depthwise::CubeDepthwise;

use crate::gemm::{Bias, Epilogue};
use crate::simd::isa::PanelElem;
use crate::simd::lines::round_to;
use crate::view::Out;

/// Channels of a group: C0 of two-byte types.
pub const LANES: usize = 16;

/// A group of output channels: its first channel, and how many of its lanes are channels.
#[derive(Clone, Copy)]
struct Group {
    first: usize,
    used: usize,
}

impl Group {
    fn new(index: usize, channels: usize) -> Group {
        let first = index * LANES;
        Group { first, used: channels.saturating_sub(first).min(LANES) }
    }
}

/// The bias of each lane of a group.
fn bias_of<T: PanelElem>(group: Group, e: &Epilogue<'_, T>) -> [f32; LANES] {
    let mut bias = [0.0f32; LANES];
    if let Bias::PerRow(b) = e.bias {
        bias.iter_mut().zip(&b[group.first..group.first + group.used]).for_each(|(o, v)| *o = v.wide());
    }
    bias
}

/// Finishes a run of positions of one group whose bias is already added: applies residual,
/// activation, zeros beyond the channels, and rounding.
fn finish<T: PanelElem>(line: &mut [f32], group: Group, e: &Epilogue<'_, T>, out: &mut Out<'_, T>, at: usize) {
    if let Some((r, factor)) = e.residual {
        add_scaled(line, &r[at..at + line.len()], factor);
    }
    e.act.apply(line);
    if group.used < LANES {
        line.as_chunks_mut::<LANES>().0.iter_mut().for_each(|v| v[group.used..].fill(0.0));
    }
    let to = out.part(at, line.len());
    round_to(line, to);
}

crate::multiversion! {
    fn add_scaled<T: PanelElem>(line: &mut [f32], other: &[T], factor: f32) {
        for (v, r) in line.iter_mut().zip(other) {
            *v = r.wide().mul_add(factor, *v);
        }
    }
}

#[cfg(test)]
mod tests;
