//! `OrtRotaryEmbedding(x, position_ids, cos [M, R/2], sin) {interleaved, num_heads,
//! rotary_embedding_dim, scale} -> y`: rotates each pair of numbers of a head by the angle of its
//! position. `x` is `[B, S, N·H]` or `[B, N, S, H]`; `position_ids` is either one number, the
//! position of the first step, or `[B, S]`. The first R numbers of a head are rotated, or all if
//! R is 0.
use crate::declare::ort_op;
use crate::numbers::{put, reals};
use crate::shared::{Outs, only};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::flags::MAY_FAIL;
use ge_plugin_api::ops::{AttrKind, OpDef, infer};
use ge_plugin_api::types::DType;
use ge_plugin_api::types::dtype::INDEX;
use ge_plugin_api::{Error, Result, register_kernel, register_op};

const REAL: &[DType] = &[DType::F32, DType::F16];

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    only(n, "is_packed_batching", 0)?;
    let scale = n.float_or("scale", 1.0);
    if scale != 1.0 {
        return Err(n.refuse(format!("attribute `scale` is {scale}; 1 alone is computed")));
    }
    let mut d = b.node("OrtRotaryEmbedding").name(&n.name);
    for i in 0..4 {
        d = d.input(n.input(i)?);
    }
    for key in ["interleaved", "num_heads", "rotary_embedding_dim"] {
        d = d.attr(key, n.int_or(key, 0));
    }
    Ok(vec![d.build()])
}
ort_op!("RotaryEmbedding", 4, ["interleaved", "is_packed_batching", "num_heads", "rotary_embedding_dim", "scale"], map);
register_op!(|| OpDef::new("OrtRotaryEmbedding", infer::same)
    .input("x", REAL, "T")
    .input("position_ids", INDEX, "")
    .input("cos", REAL, "T")
    .input("sin", REAL, "T")
    .output("y", REAL, "T")
    .attr("interleaved", AttrKind::INT, 0i64)
    .attr("num_heads", AttrKind::INT, 0i64)
    .attr("rotary_embedding_dim", AttrKind::INT, 0i64)
    .flags(MAY_FAIL));

/// The integers of an index tensor.
pub(crate) fn indices(x: &TensorView<'_>) -> Result<Vec<i64>> {
    Ok(match x.dtype {
        DType::I32 => x.values::<i32>()?.iter().map(|v| i64::from(*v)).collect(),
        _ => x.values::<i64>()?.to_vec(),
    })
}

/// Cosines and sines of each position.
pub(crate) struct Turn {
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
    interleaved: bool,
}

impl Turn {
    /// Reads two tables `[positions, half]`.
    pub fn of(cos: &TensorView<'_>, sin: &TensorView<'_>, interleaved: bool) -> Result<Turn> {
        let half = match *cos.dims {
            [_, half] if cos.dims == sin.dims => half as usize,
            _ => {
                return Err(Error::failed(format!(
                    "tables of cosines and sines: found {:?} and {:?}, expected the same [positions, half]",
                    cos.dims, sin.dims
                )));
            }
        };
        Ok(Turn { cos: reals(cos)?, sin: reals(sin)?, half, interleaved })
    }
    /// Number of elements of a head that are rotated.
    pub fn width(&self) -> usize {
        2 * self.half
    }
    /// Rotates the first elements of a head by the angles of a position.
    pub fn apply(&self, head: &mut [f32], position: i64) -> Result<()> {
        let row = usize::try_from(position).ok().filter(|p| self.half == 0 || *p < self.cos.len() / self.half);
        let Some(row) = row else {
            let count = self.cos.len().checked_div(self.half).unwrap_or(0);
            return Err(Error::failed(format!("position {position} is out of range: the tables have {count}")));
        };
        let at = row * self.half..(row + 1) * self.half;
        let angles = self.cos[at.clone()].iter().zip(&self.sin[at]);
        let turned = |a: f32, b: f32, c: f32, s: f32| (a * c - b * s, a * s + b * c);
        if self.interleaved {
            for ([a, b], (c, s)) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
                (*a, *b) = turned(*a, *b, *c, *s);
            }
        } else {
            let (first, second) = head.split_at_mut(self.half);
            for ((a, b), (c, s)) in first.iter_mut().zip(second).zip(angles) {
                (*a, *b) = turned(*a, *b, *c, *s);
            }
        }
        Ok(())
    }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, ids) = (ctx.input(0)?, ctx.input(1)?);
    let attr = |key: &str| ctx.attrs.int(key).and_then(|v| usize::try_from(v).ok()).unwrap_or(0);
    let turn = Turn::of(&ctx.input(2)?, &ctx.input(3)?, attr("interleaved") != 0)?;
    let rotary = attr("rotary_embedding_dim");
    // Batch, heads, steps, numbers per head, and whether heads come before steps.
    let (b, n, s, h, first) = match *x.dims {
        [b, n, s, h] => (b as usize, n as usize, s as usize, h as usize, true),
        [b, s, width] => {
            let (width, heads) = (width as usize, attr("num_heads"));
            let h = if heads > 0 { width / heads.max(1) } else { turn.width() };
            if h == 0 || !width.is_multiple_of(h) || (heads > 0 && h * heads != width) {
                return Err(Error::failed(format!("input 0: a width of {width} is not {heads} heads")));
            }
            (b as usize, width / h, s as usize, h, false)
        }
        _ => return Err(Error::failed(format!("input 0: found shape {:?}, expected three or four axes", x.dims))),
    };
    if turn.width() > h || (rotary > 0 && rotary != turn.width()) {
        return Err(Error::failed(format!("tables turn {} numbers of heads of {h}", turn.width())));
    }
    let ids = indices(&ids)?;
    let position = |row: usize, step: usize| match ids.len() {
        1 => Ok(ids[0] + step as i64),
        len if len == b * s => Ok(ids[row * s + step]),
        len => Err(Error::failed(format!("input 1: found {len} positions, expected 1 or {}", b * s))),
    };
    let mut y = reals(&x)?;
    for row in 0..b {
        for step in 0..s {
            let p = position(row, step)?;
            for head in 0..n {
                let at = if first { ((row * n + head) * s + step) * h } else { ((row * s + step) * n + head) * h };
                turn.apply(&mut y[at..at + h], p)?;
            }
        }
    }
    put(&mut ctx.alloc_output(0, x.dims)?, 0, &y)
}
register_kernel!("OrtContribEngine", "OrtRotaryEmbedding", [], run);

#[cfg(test)]
mod tests {
    use super::Turn;

    #[test]
    fn pairs_stand_side_by_side_or_half_a_head_apart() {
        let turn =
            |interleaved| Turn { cos: vec![1.0, 0.0, 0.0, 0.0], sin: vec![0.0, 1.0, 1.0, 1.0], half: 2, interleaved };
        let mut x = [1.0, 2.0, 3.0, 4.0];
        turn(true).apply(&mut x, 0).unwrap();
        assert_eq!(x, [1.0, 2.0, -4.0, 3.0]);
        let mut x = [1.0, 2.0, 3.0, 4.0];
        turn(false).apply(&mut x, 1).unwrap();
        assert_eq!(x, [-3.0, -4.0, 1.0, 2.0]);
        assert!(turn(false).apply(&mut x, 2).unwrap_err().to_string().contains("the tables have 2"));
    }
}
