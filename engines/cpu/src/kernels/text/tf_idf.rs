//! `TfIdfVectorizer` (`plugins/ops/src/text.rs`): counts the n-grams of a pool in rows of words.
use super::grams::{Grams, Ids, Lengths};
use super::strings;
use crate::args::{Arg, bad, count, filled, int_attr, ints_attr, kind_of, out, size, text};
use crate::op::Op;
use crate::par::{self, GRAIN};
use crate::store::types::{FLOAT, INDEX_TEXT};
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;
use std::collections::HashMap;

/// The shape of the input, and the words of the pool and of the input as small numbers. A word of
/// the input that the pool does not contain has a number beyond those of the pool.
fn words(ctx: &KernelCtx<'_>) -> Result<(Vec<usize>, Vec<u32>, Vec<u32>)> {
    let fits = |n: usize| match u32::try_from(n) {
        Ok(_) => Ok(()),
        Err(_) => Err(bad("the pool", format!("{n} words"), format!("at most {}", u32::MAX))),
    };
    if ctx.input(0)?.dtype != DType::STRING {
        let x = Arg::of(ctx, 0)?;
        x.need_rank(0, 2)?;
        let pool = ints_attr(ctx, "pool_int64s").unwrap_or_default();
        fits(pool.len())?;
        let ids = Ids::of(pool);
        let words = x.i64s()?.into_iter().map(|w| ids.get(w)).collect();
        return Ok((x.shape, pool.iter().map(|w| ids.get(*w)).collect(), words));
    }
    let (dims, x) = strings::read(ctx, 0)?;
    let shape = dims.iter().map(|d| size("input 0", *d as i64)).collect::<Result<Vec<_>>>()?;
    if shape.len() > 2 {
        return Err(bad("input 0", format!("shape {shape:?}"), "rank 0 to 2"));
    }
    let pool = ctx.attrs.strs("pool_strings").unwrap_or_default();
    fits(pool.len())?;
    let mut places: HashMap<&str, u32> = HashMap::with_capacity(pool.len());
    let pool = pool.iter().zip(0..).map(|(w, i)| *places.entry(w).or_insert(i)).collect();
    Ok((shape, pool, x.iter().map(|w| places.get(w).copied().unwrap_or(u32::MAX)).collect()))
}

/// What the occurrences of an n-gram add up to.
#[derive(Clone, Copy)]
enum Mode {
    Count,
    Weight,
    WeightedCount,
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (shape, pool, words) = words(ctx)?;
    let number = |key: &str, least: i64| -> Result<usize> {
        let v = int_attr(ctx, key, least);
        let fits = v >= least;
        if fits { size(key, v) } else { Err(bad(format!("attribute `{key}`"), v, format!("{least} or more"))) }
    };
    let (least, most) = (number("min_gram_length", 1)?, number("max_gram_length", 1)?);
    let lengths = Lengths { least, most, skips: number("max_skip_count", 0)? };
    let grams = Grams::of(ctx, &pool, lengths)?;
    let greatest = ints_attr(ctx, "ngram_indexes").unwrap_or_default().iter().copied().max();
    let width = size("attribute `ngram_indexes`", greatest.map_or(0, |v| v.saturating_add(1)))?;
    let (rows, length) = if let [rows, length] = *shape { (rows, length) } else { (1, words.len()) };
    count(&[rows, width])?;
    let shape = if shape.len() == 2 { vec![rows, width] } else { vec![width] };
    let mode = match text(ctx, "mode", "TF") {
        "TF" => Mode::Count,
        "IDF" => Mode::Weight,
        _ => Mode::WeightedCount,
    };
    let kind = ctx.output_dtype(0).and_then(kind_of);
    let kind = kind.ok_or_else(|| bad("type of output 0", "another type", "a floating-point type"))?;
    let together = (GRAIN / width.saturating_add(length.saturating_mul(most.min(length))).max(1)).max(1);
    with_kind!(kind, [F32, F64, F16, Bf16], T => {
        par::chunks(out::<T>(ctx, 0, &shape)?, width.saturating_mul(together), |start, o| {
            let mut found = filled(width, 0f64)?;
            for (r, o) in o.chunks_exact_mut(width.max(1)).enumerate() {
                found.fill(0.0);
                let row = &words[(start / width + r) * length..][..length];
                match mode {
                    Mode::Count => grams.find(row, lengths, |column, _| found[column] += 1.0),
                    Mode::Weight => grams.find(row, lengths, |column, weight| found[column] = weight),
                    Mode::WeightedCount => grams.find(row, lengths, |column, weight| found[column] += weight),
                }
                lines::map(o, &found, T::from_f64);
            }
            Ok(())
        })
    }, else Err(bad("type of output 0", kind.name(), "a floating-point type")))
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("TfIdfVectorizer", run, &[INDEX_TEXT]).gives(&[FLOAT])];
