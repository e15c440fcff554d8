//! `MlLabelEncoder(x, keys [n], values [n], default [1]) -> y`: the value of the key that a number
//! is, the first of equal keys; NaN is a key like others. Keys have the type of
//! `x`, values that of `default`.
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::{InferCtx, OpDef};
use ge_plugin_api::types::{ConstTensor, DType, TensorDesc};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};

const TYPES: &[DType] = &[DType::I64, DType::F32, DType::F64, DType::I32, DType::I16];

/// One side of the table: a tensor, or a list of one of three kinds.
fn side(n: &ForeignNode, what: &str) -> Result<ConstTensor> {
    if let Some(t) = n.attrs.tensor(format!("{what}_tensor").as_str()) {
        if t.dtype == DType::STRING {
            return Err(n.refuse(format!("`{what}_tensor` is text; encode it as numbers outside of the model")));
        }
        return Ok(t.clone());
    }
    let made = if let Some(v) = n.attrs.ints(format!("{what}_int64s").as_str()).filter(|v| !v.is_empty()) {
        ConstTensor::of(&[v.len() as u64], v)
    } else if let Some(v) = n.attrs.floats(format!("{what}_floats").as_str()).filter(|v| !v.is_empty()) {
        ConstTensor::of(&[v.len() as u64], &v.iter().map(|v| *v as f32).collect::<Vec<_>>())
    } else {
        None
    };
    made.ok_or_else(|| n.refuse(format!("its {what} are text; encode them as numbers outside of the model")))
}

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (keys, values) = (side(n, "keys")?, side(n, "values")?);
    if keys.count() != values.count() {
        return Err(n.refuse(format!("{:?} keys for {:?} values", keys.count(), values.count())));
    }
    let default = match n.attrs.tensor("default_tensor") {
        Some(t) if t.dtype == values.dtype => Some(t.clone()),
        _ => match values.dtype {
            DType::I64 => ConstTensor::of(&[1], &[n.int_or("default_int64", -1)]),
            DType::F64 => ConstTensor::of(&[1], &[n.float_or("default_float", -0.0)]),
            DType::F32 => ConstTensor::of(&[1], &[n.float_or("default_float", -0.0) as f32]),
            DType::I32 => ConstTensor::of(&[1], &[-1i32]),
            DType::I16 => ConstTensor::of(&[1], &[-1i16]),
            _ => None,
        },
    };
    let Some(default) = default.filter(|_| TYPES.contains(&keys.dtype)) else {
        return Err(n.refuse(format!("keys of {} and values of {} are not computed", keys.dtype, values.dtype)));
    };
    let keys = b.made_constant("keys", keys);
    let values = b.made_constant("values", values);
    let default = b.made_constant("default", default);
    let node = b.node("MlLabelEncoder").name(&n.name).input(n.input(0)?).input(keys).input(values);
    Ok(vec![node.input(default).build()])
}
map_op!("onnx", "ai.onnx.ml", "LabelEncoder", 2..=u32::MAX, map);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(c.input(2)?.dtype, c.input(0)?.shape.clone())])
}
register_op!(|| OpDef::new("MlLabelEncoder", infer)
    .input("x", TYPES, "K")
    .input("keys", TYPES, "K")
    .input("values", TYPES, "V")
    .input("default", TYPES, "V")
    .output("y", TYPES, "V"));

/// Numbers as bits by which equal keys are equal: one for both zeros and one for all that are no
/// number.
fn bits(x: &TensorView<'_>) -> Result<Vec<u64>> {
    let real = |v: f64| if v.is_nan() { u64::MAX } else { (v + 0.0).to_bits() };
    Ok(match x.dtype {
        DType::F64 => x.values::<f64>()?.iter().map(|v| real(*v)).collect(),
        DType::F32 => x.values::<f32>()?.iter().map(|v| real(f64::from(*v))).collect(),
        DType::I32 => x.values::<i32>()?.iter().map(|v| i64::from(*v) as u64).collect(),
        DType::I16 => x.values::<i16>()?.iter().map(|v| i64::from(*v) as u64).collect(),
        _ => x.values::<i64>()?.iter().map(|v| *v as u64).collect(),
    })
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, values, default) = (ctx.input(0)?, ctx.input(2)?, ctx.input(3)?);
    let keys = bits(&ctx.input(1)?)?;
    let (width, dims) = (values.dtype.bytes_of(1).unwrap_or(0) as usize, x.dims.to_vec());
    if keys.len() != values.count() || default.count() != 1 || width == 0 {
        return Err(Error::failed(format!(
            "{} keys, {} values, {} defaults",
            keys.len(),
            values.count(),
            default.count()
        )));
    }
    let places = Places::of(&keys);
    let found = bits(&x)?;
    // The default stands behind the values.
    let mut table = values.bytes[..keys.len() * width].to_vec();
    table.extend_from_slice(&default.bytes[..width]);
    let y = ctx.alloc_output(0, &dims)?;
    match width {
        8 => put::<8>(y.bytes, &found, &places, &table),
        4 => put::<4>(y.bytes, &found, &places, &table),
        _ => put::<2>(y.bytes, &found, &places, &table),
    }
    Ok(())
}

fn put<const N: usize>(y: &mut [u8], x: &[u64], places: &Places, table: &[u8]) {
    let table = table.as_chunks::<N>().0;
    y.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(to, k)| *to = table[places.get(*k)]);
}

/// Where keys stand in their list, the first of equal ones; the list's length for those that do
/// not.
pub struct Places {
    /// Of whole numbers that lie close together: the least, and the place of each from there on.
    least: u64,
    close: Vec<u32>,
    /// Of others: slots of keys and places, a key in the first free slot behind its own.
    slots: Vec<(u64, u32)>,
    missing: u32,
}

impl Places {
    /// Of keys in their order.
    pub fn of(keys: &[u64]) -> Places {
        let missing = keys.len() as u32;
        let least = keys.iter().map(|k| *k as i64).min().unwrap_or(0) as u64;
        let span = keys.iter().map(|k| k.wrapping_sub(least)).max().unwrap_or(0);
        let mut p = Places { least, close: Vec::new(), slots: Vec::new(), missing };
        let room = 4 * keys.len() as u64 + 64;
        if span < room {
            p.close = vec![missing; span as usize + 1];
            for (i, k) in keys.iter().enumerate().rev() {
                p.close[k.wrapping_sub(least) as usize] = i as u32;
            }
            return p;
        }
        p.slots = vec![(0, missing); (2 * keys.len()).next_power_of_two()];
        for (i, k) in keys.iter().enumerate() {
            let slot = p.slot(*k);
            if p.slots[slot].1 == missing {
                p.slots[slot] = (*k, i as u32);
            }
        }
        p
    }
    /// The slot that a key has, or would have.
    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        // Half of the slots are free.
        while self.slots[at].1 != self.missing && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }
    /// The place of a key.
    pub fn get(&self, key: u64) -> usize {
        let place = match self.slots.is_empty() {
            true => usize::try_from(key.wrapping_sub(self.least)).ok().and_then(|at| self.close.get(at).copied()),
            false => Some(self.slots[self.slot(key)].1),
        };
        place.unwrap_or(self.missing) as usize
    }
}

register_kernel!("OnnxMlEngine", "MlLabelEncoder", [DType::I64, DType::F32, DType::F64, DType::I32, DType::I16], run);

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn keys_are_found_where_they_come_first() {
        let close: Vec<u64> = [5i64, -3, 7, 5, 100].iter().map(|k| *k as u64).collect();
        let wide: Vec<u64> = (0..300u64).map(|i| (i % 200).wrapping_mul(0x1234_5678_9abc_def1)).collect();
        for keys in [&close, &wide, &vec![]] {
            let places = Places::of(keys);
            for k in keys.iter().copied().chain([1, 2, u64::MAX, 1 << 63]) {
                let want = keys.iter().position(|x| *x == k).unwrap_or(keys.len());
                assert_eq!(places.get(k), want, "{k}");
            }
        }
    }
}
