//! `TfIdfVectorizer` (`plugins/ops/src/text.rs`), and one file for each string operator.
pub mod concat;
pub mod full_match;
pub mod normalizer;
pub mod numbers;
pub mod regex;
pub mod split;
pub mod strings;
pub mod tokenize;

use crate::args::{Arg, bad, count, filled, int_attr, ints_attr, put_f64, size, text};
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX_TEXT};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;
use std::collections::HashMap;

/// The n-grams to count, as a tree of their words.
struct Grams {
    /// The node that follows a node and a word; node 0 is the root.
    next: HashMap<(usize, i64), usize>,
    /// Column and weight of the n-gram that ends in a node.
    ends: Vec<Option<(usize, f64)>>,
}

impl Grams {
    /// Builds the tree from a pool that lists all n-grams of one word, then those of two words and
    /// so on, from the positions `ngram_counts` on. N-grams of unwanted lengths are left out.
    fn of(ctx: &KernelCtx<'_>, pool: &[i64], lengths: std::ops::RangeInclusive<usize>) -> Result<Grams> {
        let list = |key: &str| ints_attr(ctx, key).unwrap_or_default();
        let (starts, columns) = (list("ngram_counts"), list("ngram_indexes"));
        let weights = ctx.attrs.floats("weights").unwrap_or_default();
        if !weights.is_empty() && weights.len() != columns.len() {
            return Err(bad("attribute `weights`", format!("{} numbers", weights.len()), columns.len()));
        }
        let mut g = Grams { next: HashMap::new(), ends: vec![None] };
        let mut id = 0;
        for (i, from) in starts.iter().enumerate() {
            let n = i + 1;
            let to = starts.get(n).map_or(pool.len() as i64, |v| *v);
            let part = usize::try_from(*from).ok().zip(usize::try_from(to).ok()).and_then(|(a, b)| pool.get(a..b));
            let part = part.ok_or_else(|| {
                bad("attribute `ngram_counts`", format!("{starts:?}"), format!("rising places up to {}", pool.len()))
            })?;
            for gram in part.chunks_exact(n) {
                if lengths.contains(&n) {
                    let Some(to) = columns.get(id) else {
                        let found = format!("{} numbers", columns.len());
                        return Err(bad("attribute `ngram_indexes`", found, "one for each n-gram of the pool"));
                    };
                    let end = gram.iter().fold(0, |at, word| {
                        let free = g.ends.len();
                        let node = *g.next.entry((at, *word)).or_insert(free);
                        if node == free {
                            g.ends.push(None);
                        }
                        node
                    });
                    let weight = weights.get(id).copied().unwrap_or(1.0);
                    g.ends[end] = Some((size("attribute `ngram_indexes`", *to)?, weight));
                }
                id += 1;
            }
        }
        Ok(g)
    }

    /// Finds the n-grams of a row and calls `each` with their columns and weights.
    fn find(&self, row: &[i64], (least, most, skips): (usize, usize, usize), mut each: impl FnMut(usize, f64)) {
        let mut least = least;
        // At a distance longer than the row there is no second word.
        for step in 1..=skips.min(row.len()).saturating_add(1) {
            for start in 0..row.len() {
                if step.saturating_mul(least - 1).saturating_add(start) >= row.len() {
                    break;
                }
                let mut at = 0;
                for (n, word) in (1..=most).zip(row[start..].iter().step_by(step)) {
                    let Some(node) = self.next.get(&(at, *word)) else { break };
                    at = *node;
                    if let Some((column, weight)) = self.ends[at].filter(|_| n >= least) {
                        each(column, weight);
                    }
                }
            }
            // Single words are the same at every distance, so they are counted only once.
            if least == 1 {
                least = 2;
                if least > most {
                    break;
                }
            }
        }
    }
}

/// The shape of the input, and the words of the pool and of the input as numbers. A text word
/// becomes its first position in the pool, or a negative number if the pool does not contain it.
fn words(ctx: &KernelCtx<'_>) -> Result<(Vec<usize>, Vec<i64>, Vec<i64>)> {
    if ctx.input(0)?.dtype != DType::STRING {
        let x = Arg::of(ctx, 0)?;
        x.need_rank(0, 2)?;
        let words = x.i64s()?;
        return Ok((x.shape, ints_attr(ctx, "pool_int64s").unwrap_or_default().to_vec(), words));
    }
    let (dims, x) = strings::read(ctx, 0)?;
    let shape = dims.iter().map(|d| size("input 0", *d as i64)).collect::<Result<Vec<_>>>()?;
    if shape.len() > 2 {
        return Err(bad("input 0", format!("shape {shape:?}"), "rank 0 to 2"));
    }
    let pool = ctx.attrs.strs("pool_strings").unwrap_or_default();
    let mut places: HashMap<&str, i64> = HashMap::with_capacity(pool.len());
    let pool = pool.iter().enumerate().map(|(i, w)| *places.entry(w).or_insert(i as i64)).collect();
    Ok((shape, pool, x.iter().map(|w| places.get(w).copied().unwrap_or(-1)).collect()))
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (shape, pool, words) = words(ctx)?;
    let number = |key: &str, least: i64| -> Result<usize> {
        let v = int_attr(ctx, key, least);
        let fits = v >= least;
        if fits { size(key, v) } else { Err(bad(format!("attribute `{key}`"), v, format!("{least} or more"))) }
    };
    let (least, most) = (number("min_gram_length", 1)?, number("max_gram_length", 1)?);
    let skips = number("max_skip_count", 0)?;
    let grams = Grams::of(ctx, &pool, least..=most)?;
    let greatest = ints_attr(ctx, "ngram_indexes").unwrap_or_default().iter().copied().max();
    let width = size("attribute `ngram_indexes`", greatest.map_or(0, |v| v.saturating_add(1)))?;
    let (rows, length) = if let [rows, length] = *shape { (rows, length) } else { (1, words.len()) };
    let mut y = filled(count(&[rows, width])?, 0f64)?;
    let mode = text(ctx, "mode", "TF");
    for r in 0..rows {
        let found = &mut y[r * width..][..width];
        grams.find(&words[r * length..][..length], (least, most, skips), |column, weight| match mode {
            "TF" => found[column] += 1.0,
            "IDF" => found[column] = weight,
            _ => found[column] += weight,
        });
    }
    let shape = if shape.len() == 2 { vec![rows, width] } else { vec![width] };
    put_f64(ctx, 0, &shape, &y)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("TfIdfVectorizer", run, &[INDEX_TEXT]).gives(&[FLOAT])];
