//! `TfIdfVectorizer` of numbers.
use super::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::AttrValue;

fn tf_idf(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.attrs.strs("pool_strings").is_some_and(|v| !v.is_empty()) {
        return Err(n.refuse("its pool is text; number the words outside of the model and give `pool_int64s`"));
    }
    let mut d = b.node("TfIdfVectorizer").name(&n.name).input(n.input(0)?);
    d = d.attr("mode", n.str_or("mode", "TF"));
    for key in ["min_gram_length", "max_gram_length"] {
        d = d.attr(key, n.int_or(key, 1));
    }
    d = d.attr("max_skip_count", n.int_or("max_skip_count", 0));
    for key in ["ngram_counts", "ngram_indexes", "pool_int64s"] {
        d = d.attr(key, AttrValue::from(n.attrs.ints(key).unwrap_or_default()));
    }
    if let Some(w) = n.attrs.get("weights").filter(|_| n.attrs.floats("weights").is_some_and(|v| !v.is_empty())) {
        d = d.attr("weights", w.clone());
    }
    Ok(vec![d.build()])
}
map_op!("onnx", "ai.onnx", "TfIdfVectorizer", 9..=u32::MAX, tf_idf);
