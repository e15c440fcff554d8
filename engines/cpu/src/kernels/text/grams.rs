//! N-grams as a tree of their words, and words as small numbers.
use crate::args::{bad, ints_attr, size};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::NumberMap;
use std::collections::HashMap;

/// No word, and no node.
const NONE: u32 = u32::MAX;

/// How many numbers there may be between the words of a pool for each of its words, so that they
/// are looked up in a list.
const GAPS: u64 = 8;

/// A small number for each of the words of a pool, its first position there.
pub(super) enum Ids {
    /// Words that are close together: the least one, and a list of positions from it on.
    Near(i64, Vec<u32>),
    /// Words that are far apart.
    Far(HashMap<i64, u32>),
}

impl Ids {
    /// The words of a pool of less than 2^32 words.
    pub(super) fn of(pool: &[i64]) -> Ids {
        let (least, greatest) = (pool.iter().min().copied().unwrap_or(0), pool.iter().max().copied().unwrap_or(0));
        let span = greatest.abs_diff(least);
        if span / GAPS <= pool.len() as u64 {
            let mut list = vec![NONE; span as usize + 1];
            for (i, word) in pool.iter().enumerate().rev() {
                list[word.abs_diff(least) as usize] = i as u32;
            }
            return Ids::Near(least, list);
        }
        // The model chooses these words, so they are not keys of a `NumberMap`.
        let mut table = HashMap::with_capacity(pool.len());
        pool.iter().zip(0..).for_each(|(word, i)| {
            table.entry(*word).or_insert(i);
        });
        Ids::Far(table)
    }
    /// The number of a word; `u32::MAX` if the pool does not contain it.
    pub(super) fn get(&self, word: i64) -> u32 {
        let found = match self {
            Ids::Near(least, list) => {
                list.get((word as u64).wrapping_sub(*least as u64) as usize).filter(|_| word >= *least)
            }
            Ids::Far(table) => table.get(&word),
        };
        found.copied().unwrap_or(NONE)
    }
}

/// Which n-grams are looked for.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    /// Least and greatest number of words.
    pub(super) least: usize,
    pub(super) most: usize,
    /// Greatest number of words between two words of an n-gram.
    pub(super) skips: usize,
}

/// What follows a word of an n-gram, and what ends there.
#[derive(Clone, Copy)]
struct Node {
    /// Column and weight of the n-gram that ends here; no column is `usize::MAX`.
    column: usize,
    weight: f64,
    /// Whether there are longer n-grams.
    goes_on: bool,
}

/// The n-grams to count, as a tree of their words.
pub(super) struct Grams {
    /// The node of each first word.
    first: Vec<u32>,
    /// The node that follows a node and a word.
    next: NumberMap<(u32, u32), u32>,
    nodes: Vec<Node>,
}

impl Grams {
    /// Builds the tree from a pool that lists all n-grams of one word, then those of two words and
    /// so on, from the positions `ngram_counts` on. N-grams of unwanted lengths are left out.
    pub(super) fn of(ctx: &KernelCtx<'_>, pool: &[u32], lengths: Lengths) -> Result<Grams> {
        let list = |key: &str| ints_attr(ctx, key).unwrap_or_default();
        let (starts, columns) = (list("ngram_counts"), list("ngram_indexes"));
        let weights = ctx.attrs.floats("weights").unwrap_or_default();
        if !weights.is_empty() && weights.len() != columns.len() {
            return Err(bad("attribute `weights`", format!("{} numbers", weights.len()), columns.len()));
        }
        let mut grams = Grams { first: vec![NONE; pool.len()], next: NumberMap::default(), nodes: Vec::new() };
        let mut id = 0;
        for (i, from) in starts.iter().enumerate() {
            let n = i + 1;
            let to = starts.get(n).map_or(pool.len() as i64, |v| *v);
            let part = usize::try_from(*from).ok().zip(usize::try_from(to).ok()).and_then(|(a, b)| pool.get(a..b));
            let part = part.ok_or_else(|| {
                bad("attribute `ngram_counts`", format!("{starts:?}"), format!("rising places up to {}", pool.len()))
            })?;
            let wanted = (lengths.least..=lengths.most).contains(&n);
            if wanted && n > 1 {
                grams.next.reserve(part.len() / n);
            }
            for gram in part.chunks_exact(n) {
                if wanted {
                    let Some(to) = columns.get(id) else {
                        let found = format!("{} numbers", columns.len());
                        return Err(bad("attribute `ngram_indexes`", found, "one for each n-gram of the pool"));
                    };
                    let column = size("attribute `ngram_indexes`", *to)?;
                    let end = grams.node_of(gram);
                    (end.column, end.weight) = (column, weights.get(id).copied().unwrap_or(1.0));
                }
                id += 1;
            }
        }
        Ok(grams)
    }

    /// The node in which an n-gram ends; nodes that are missing are made.
    fn node_of(&mut self, gram: &[u32]) -> &mut Node {
        let mut at = NONE;
        for word in gram {
            let free = self.nodes.len() as u32;
            let next = match self.nodes.get_mut(at as usize) {
                None => &mut self.first[*word as usize],
                Some(node) => {
                    node.goes_on = true;
                    self.next.entry((at, *word)).or_insert(NONE)
                }
            };
            if *next == NONE {
                *next = free;
                self.nodes.push(Node { column: usize::MAX, weight: 0.0, goes_on: false });
            }
            at = *next;
        }
        &mut self.nodes[at as usize]
    }

    /// Finds the n-grams of a row and calls `each` with their columns and weights.
    pub(super) fn find(&self, row: &[u32], lengths: Lengths, mut each: impl FnMut(usize, f64)) {
        let Lengths { mut least, most, skips } = lengths;
        // At a distance longer than the row there is no second word.
        for step in 1..=skips.min(row.len()).saturating_add(1) {
            let starts = row.len().saturating_sub(step.saturating_mul(least - 1));
            for start in 0..starts {
                let mut at = self.first.get(row[start] as usize).copied().unwrap_or(NONE);
                let mut place = start;
                for n in 1..=most {
                    let Some(node) = self.nodes.get(at as usize) else { break };
                    if n >= least && node.column != usize::MAX {
                        each(node.column, node.weight);
                    }
                    place = place.saturating_add(step);
                    match row.get(place) {
                        Some(word) if node.goes_on && *word != NONE => {
                            at = self.next.get(&(at, *word)).copied().unwrap_or(NONE);
                        }
                        _ => break,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{attrs, call, t};
    use ge_plugin_api::types::DType;

    #[test]
    fn words_have_their_first_position_however_far_apart_they_are() {
        let pools: [&[i64]; 5] =
            [&[], &[7], &[5, -3, 5, 0], &[i64::MIN, i64::MAX, 0, -1, i64::MAX], &[i64::MAX, i64::MAX - 1]];
        for pool in pools {
            let ids = Ids::of(pool);
            for word in pool.iter().copied().chain([0, -1, 1, 4, 6, i64::MIN, i64::MAX]) {
                let want = pool.iter().position(|w| *w == word).map_or(NONE, |i| i as u32);
                assert_eq!(ids.get(word), want, "{word} of {pool:?}");
            }
        }
    }

    /// What occurs in a row of words, by a plain loop over all n-grams of the pool.
    fn plain(row: &[i64], grams: &[Vec<i64>], (least, most, skips): (usize, usize, usize)) -> Vec<f32> {
        let occurs = |gram: &[i64], step: usize| {
            (0..row.len()).filter(|s| (0..gram.len()).all(|k| row.get(s + k * step) == Some(&gram[k]))).count()
        };
        let count = |gram: &Vec<i64>| match gram.len() {
            n if !(least..=most).contains(&n) => 0,
            1 => occurs(gram, 1),
            _ => (1..=skips + 1).map(|step| occurs(gram, step)).sum(),
        };
        grams.iter().map(|g| count(g) as f32).collect()
    }

    #[test]
    fn every_n_gram_is_counted_as_a_plain_loop_counts_it() {
        for far in [1i64, 1_000_003, i64::MAX / 8] {
            let mut grams: Vec<Vec<i64>> = (0..5).map(|w| vec![w]).collect();
            grams.extend([vec![1, 2], vec![2, 2], vec![0, 4], vec![4, 1]]);
            grams.extend([vec![1, 2, 1], vec![2, 2, 2], vec![4, 1, 0]]);
            grams.iter_mut().flatten().for_each(|w| *w = (*w - 2) * far);
            let pool: Vec<i64> = grams.iter().flatten().copied().collect();
            let columns: Vec<i64> = (0..grams.len() as i64).collect();
            for length in [0usize, 1, 2, 3, 40] {
                // The words -4 and 3 are not in the pool.
                let x: Vec<i64> = (0..3 * length as i64).map(|i| (i * i * 7 % 23 % 8 - 4) * far).collect();
                for lengths @ (least, most, skips) in
                    [(1, 1, 0), (1, 2, 0), (2, 2, 3), (1, 3, 1), (3, 3, 60), (2, 9, 0)]
                {
                    let given = attrs(&[
                        ("mode", "TF".into()),
                        ("min_gram_length", (least as i64).into()),
                        ("max_gram_length", (most as i64).into()),
                        ("max_skip_count", (skips as i64).into()),
                        ("ngram_counts", vec![0i64, 5, 13].into()),
                        ("ngram_indexes", columns.clone().into()),
                        ("pool_int64s", pool.clone().into()),
                    ]);
                    let input = t(&[3, length as u64], &x);
                    let made = call("TfIdfVectorizer", &[Some(&input)], &given, &[DType::F32]).unwrap();
                    let rows = (0..3).map(|r| &x[r * length..][..length]);
                    let want: Vec<f32> = rows.flat_map(|row| plain(row, &grams, lengths)).collect();
                    assert_eq!(made[0].view().values::<f32>().unwrap(), want, "{length} words, {lengths:?}");
                }
            }
        }
    }
}
