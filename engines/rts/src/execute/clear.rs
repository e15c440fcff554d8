//! The kernel of `AtomicAddrClean` and `MemSet`: fills each argument with a value. The bytes are
//! divided among blocks.
use ge_plugin_api::engine::LoadRequest;
use ge_plugin_api::kernel::{Access, BlockArgs, BlockKernel, LoadedKernel, block_kernel};
use ge_plugin_api::types::DType;
use ge_plugin_api::{Error, Result};

/// The bytes of one element with this value; `None` if the type cannot hold it.
pub fn pattern(dtype: DType, value: f64) -> Option<Vec<u8>> {
    macro_rules! whole {
        ($t:ty) => {{
            let v = value as $t;
            (v as f64 == value).then(|| v.to_le_bytes().to_vec())
        }};
    }
    match dtype {
        DType::F32 => Some((value as f32).to_le_bytes().to_vec()),
        DType::F64 => Some(value.to_le_bytes().to_vec()),
        DType::F16 => Some(half::f16::from_f64(value).to_le_bytes().to_vec()),
        DType::BF16 => Some(half::bf16::from_f64(value).to_le_bytes().to_vec()),
        DType::I8 => whole!(i8),
        DType::U8 | DType::BOOL => whole!(u8),
        DType::I16 => whole!(i16),
        DType::U16 => whole!(u16),
        DType::I32 => whole!(i32),
        DType::U32 => whole!(u32),
        DType::I64 => whole!(i64),
        DType::U64 => whole!(u64),
        _ => (value == 0.0).then(|| vec![0]),
    }
}

struct Clear {
    patterns: Vec<Vec<u8>>,
}

impl BlockKernel for Clear {
    fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
        for (k, p) in self.patterns.iter().enumerate() {
            // Parts start at multiples of 64 bytes, so at whole elements.
            let part = call.part(call.len(k), 64);
            let out = call.output::<u8>(k, part)?;
            if p.iter().all(|b| *b == p[0]) {
                out.fill(p[0]);
            } else {
                out.chunks_mut(p.len()).for_each(|c| c.copy_from_slice(&p[..c.len()]));
            }
        }
        Ok(())
    }
}

/// Loads the kernel of a task, with one fill value per argument.
pub fn load(request: &LoadRequest) -> Result<LoadedKernel> {
    let bad = |m: String| Error::damaged(format!("kernel of `{}`: {m}", request.node));
    let text = std::str::from_utf8(&request.binary).map_err(|_| bad("its parameters are no text".into()))?;
    let mut patterns = Vec::new();
    for line in text.lines() {
        let fill = line.split_once(' ').and_then(|(t, v)| Some((DType::from_name(t)?, v.parse::<f64>().ok()?)));
        let (dtype, value) = fill.ok_or_else(|| bad(format!("`{line}` is no type and value")))?;
        patterns.push(pattern(dtype, value).ok_or_else(|| bad(format!("{dtype} cannot be {value}")))?);
    }
    if patterns.len() != request.args.len() {
        return Err(bad(format!("it fills {} arguments, the task has {}", patterns.len(), request.args.len())));
    }
    let lens: Vec<u64> = request.args.iter().map(|a| a.bytes).collect();
    let access = vec![Access::WRITE; lens.len()];
    Ok(block_kernel(Box::new(Clear { patterns }), lens, access, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_the_elements_of_the_type() {
        assert_eq!(pattern(DType::F32, 1.5), Some(1.5f32.to_le_bytes().to_vec()));
        assert_eq!(pattern(DType::F16, -2.0), Some(half::f16::from_f32(-2.0).to_le_bytes().to_vec()));
        assert_eq!(pattern(DType::I32, -3.0), Some((-3i32).to_le_bytes().to_vec()));
        assert_eq!(pattern(DType::U8, 256.0), None);
        assert_eq!(pattern(DType::I4, 0.0), Some(vec![0]));
        assert_eq!(pattern(DType::I4, 1.0), None);
    }
}
