//! `ConstantClipPass`: clips a constant beyond the range of f16 to its greatest number before
//! precision casts it, so that it does not become infinity.
//!
//! Before: `%h = Cast(%c : f32) {_clips = 1} : f16` over `Const {-3.4e38}`   After: the cast reads
//! a `Const {-65504}`
//! When: a finite element of an f32 constant is beyond ±65504 (usually an attention mask), and the
//! cast has the mark `_clips` of precision.
//! Refuses: constants within range; other casts: one of the model itself gives infinity, as it does
//! in a run.
//! Keeps: the constant for its other readers; infinities and NaN as they are.
//! Source: facts 4.4 (1_2, 13). Cost: the bytes of each constant that is cast, once.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType};
use ge_plugin_api::types::Blob;

node_pass!(
    ConstantClipPass,
    O3,
    ["Cast"],
    "a precision pass's `Cast(Const f32) : f16` beyond ±65504 -> `Cast` of the clipped `Const`",
    needs "a cast with the mark `_clips` of precision; an f32 constant with a finite element beyond ±65504",
    keeps "the constant for other readers; infinities and NaN",
    visit,
);

/// Marks a cast that the model does not ask for: numbers beyond the range of its type are clipped.
pub const CLIPS: &str = "_clips";
/// Greatest finite f16.
const MOST: f32 = 65504.0;

fn clipped(t: &ConstTensor) -> Option<ConstTensor> {
    let bytes = t.bytes()?;
    let value = |c: &[u8]| f32::from_le_bytes(c.try_into().unwrap_or_default());
    if !bytes.chunks_exact(4).map(value).any(|v| v.is_finite() && v.abs() > MOST) {
        return None;
    }
    let cut = |v: f32| if v.is_finite() { v.clamp(-MOST, MOST) } else { v };
    let out: Vec<u8> = bytes.chunks_exact(4).flat_map(|c| cut(value(c)).to_le_bytes()).collect();
    ConstTensor::new(DType::F32, &t.dims, Blob::from_owner(out))
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let to_half = n.outputs().first().is_some_and(|d| d.dtype == DType::F16);
    let ours = to_half && n.attrs().int(CLIPS).is_some_and(|v| v != 0);
    let Some(t) = n.input(0).and_then(|v| at.g.constant(v)).filter(|t| ours && t.dtype == DType::F32) else {
        return Ok(());
    };
    match clipped(t) {
        Some(t) => {
            let c = r.patch.constant(&format!("{}_clipped", n.name()), t);
            r.patch.set_input(n.id(), 0, c);
            r.count();
        }
        None => cx.refuse(n.name(), "all elements are within f16"),
    }
    Ok(())
}
