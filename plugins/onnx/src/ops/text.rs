//! `TfIdfVectorizer`.
use super::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::AttrValue;

fn tf_idf(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let mut d = b.node("TfIdfVectorizer").name(&n.name).input(n.input(0)?);
    d = d.attr("mode", n.str_or("mode", "TF"));
    for key in ["min_gram_length", "max_gram_length"] {
        d = d.attr(key, n.int_or(key, 1));
    }
    d = d.attr("max_skip_count", n.int_or("max_skip_count", 0));
    for key in ["ngram_counts", "ngram_indexes"] {
        d = d.attr(key, AttrValue::from(n.attrs.ints(key).unwrap_or_default()));
    }
    d = match n.attrs.get("pool_strings").filter(|_| n.attrs.strs("pool_strings").is_some_and(|v| !v.is_empty())) {
        Some(words) => d.attr("pool_strings", words.clone()),
        None => d.attr("pool_int64s", AttrValue::from(n.attrs.ints("pool_int64s").unwrap_or_default())),
    };
    if let Some(w) = n.attrs.get("weights").filter(|_| n.attrs.floats("weights").is_some_and(|v| !v.is_empty())) {
        d = d.attr("weights", w.clone());
    }
    Ok(vec![d.build()])
}
map_op!("onnx", "ai.onnx", "TfIdfVectorizer", 9..=u32::MAX, tf_idf);
