//! Features of words, which are given as numbers or as strings.
//!
//! * `TfIdfVectorizer(x [c] or [n,c]) {mode = TF|IDF|TFIDF, min_gram_length, max_gram_length, max_skip_count, ngram_counts, ngram_indexes, pool_int64s or pool_strings, weights} -> f32[columns] or f32[n,columns]`:
//!   as in ONNX. For each n-gram of the pool, TF counts its occurrences in a row, where its words
//!   are adjacent or up to `max_skip_count` words apart; IDF gives its weight if it occurs at all;
//!   TFIDF gives its weight times the count. The number of columns is the greatest of
//!   `ngram_indexes` plus one.
use crate::dims;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::{DType, Shape, TensorDesc};

const WORDS: &[DType] = &[DType::I32, DType::I64, DType::STRING];

fn tf_idf(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let pool = if c.input(0)?.dtype == DType::STRING { "pool_strings" } else { "pool_int64s" };
    if c.node.attr(pool).is_none() {
        return Err(read::bad("attributes", format!("no `{pool}`"), format!("the n-grams of {}", c.input(0)?.dtype)));
    }
    let rank = read::rank_in(c, 0, "x", 0, 2)?;
    let greatest = read::need_ints(c, "ngram_indexes")?.iter().copied().max();
    let columns = dims::from_i64(greatest.map_or(0, |v| v.saturating_add(1)));
    let shape = match rank {
        Some(2) => Shape::new([c.input(0)?.shape.dims()[0], columns]),
        Some(_) => Shape::new([columns]),
        None => Shape::unranked(),
    };
    Ok(vec![TensorDesc::new(DType::F32, shape)])
}

fn defs() -> Vec<OpDef> {
    let (i, list) = (AttrKind::INT, AttrKind::INTS);
    vec![
        OpDef::new("TfIdfVectorizer", tf_idf)
            .input("x", WORDS, "")
            .output("y", &[DType::F32], "")
            .required_attr("mode", AttrKind::STRING)
            .choices(&["TF", "IDF", "TFIDF"])
            .required_attr("min_gram_length", i)
            .range(1.0, f64::INFINITY)
            .required_attr("max_gram_length", i)
            .range(1.0, f64::INFINITY)
            .required_attr("max_skip_count", i)
            .range(0.0, f64::INFINITY)
            .required_attr("ngram_counts", list)
            .required_attr("ngram_indexes", list)
            .opt_attr("pool_int64s", list)
            .opt_attr("pool_strings", AttrKind::STRINGS)
            .opt_attr("weights", AttrKind::FLOATS),
    ]
}
register_ops!(defs);
