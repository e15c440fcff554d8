//! String operators. Strings live on the host, and a graph that has any is scheduled there.
//!
//! * `StringConcat(x, y) -> z`: each string of `x` followed by the string of `y`, with
//!   broadcasting.
//! * `StringSplit(x) {delimiter = "", maxsplit} -> y [x..., n], z i64[x...]`: `y` has the parts of
//!   each string, padded with empty strings to the greatest number of parts, and `z` their number.
//!   Without a delimiter, strings are split at white space. There are at most `maxsplit` splits; a
//!   negative or missing value means no limit.
//! * `StringNormalizer(x [c] or [1,c]) {case_change_action = NONE|LOWER|UPPER, is_case_sensitive = false, stopwords} -> y`:
//!   the words that are not stop words (`is_case_sensitive` applies to their comparison), converted
//!   to a case; one empty string if no word is left.
//! * `Tokenizer(x [c] or [n,c]) {separators, tokenexp, mincharnum = 1, mark = false, pad_value} -> y [x..., d]`:
//!   the words of each string. They are what stands between matches of the separators (an empty
//!   separator gives single characters), or else what `tokenexp` matches. Words of fewer than
//!   `mincharnum` characters are left out. `mark` puts the words between the characters 2 and 3;
//!   rows are filled up with `pad_value`.
//! * `RegexFullMatch(x) {pattern} -> bool`: whether each whole string matches an expression in
//!   RE2's syntax.
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::DATA_DEPENDENT_SHAPE, infer};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

const TEXT: &[DType] = &[DType::STRING];

fn split(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    let parts =
        if x.is_unranked() { Shape::unranked() } else { Shape::new(x.dims().iter().copied().chain([Dim::UNKNOWN])) };
    Ok(vec![TensorDesc::new(DType::STRING, parts), TensorDesc::new(DType::I64, x.clone())])
}

fn tokenizer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "x", 1, 2)?;
    Ok(split(c)?.into_iter().take(1).collect())
}

fn normalizer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let shape = match read::rank_in(c, 0, "x", 1, 2)? {
        Some(1) => Shape::new([Dim::UNKNOWN]),
        Some(_) => Shape::new([Dim::known(1), Dim::UNKNOWN]),
        None => Shape::unranked(),
    };
    Ok(vec![TensorDesc::new(DType::STRING, shape)])
}

fn full_match(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::BOOL, c.input(0)?.shape.clone())])
}

fn defs() -> Vec<OpDef> {
    let of = |name: &str, f| OpDef::new(name, f).input("x", TEXT, "");
    vec![
        of("StringConcat", infer::broadcast).input("y", TEXT, "").output("z", TEXT, ""),
        of("StringSplit", split)
            .output("y", TEXT, "")
            .output("z", &[DType::I64], "")
            .attr("delimiter", AttrKind::STRING, "")
            .opt_attr("maxsplit", AttrKind::INT)
            .flags(DATA_DEPENDENT_SHAPE),
        of("StringNormalizer", normalizer)
            .output("y", TEXT, "")
            .attr("case_change_action", AttrKind::STRING, "NONE")
            .choices(&["NONE", "LOWER", "UPPER"])
            .attr("is_case_sensitive", AttrKind::BOOL, false)
            .opt_attr("stopwords", AttrKind::STRINGS)
            .flags(DATA_DEPENDENT_SHAPE),
        of("Tokenizer", tokenizer)
            .output("y", TEXT, "")
            .opt_attr("separators", AttrKind::STRINGS)
            .opt_attr("tokenexp", AttrKind::STRING)
            .attr("mincharnum", AttrKind::INT, 1i64)
            .range(1.0, f64::INFINITY)
            .attr("mark", AttrKind::BOOL, false)
            .attr("pad_value", AttrKind::STRING, "")
            .flags(DATA_DEPENDENT_SHAPE),
        of("RegexFullMatch", full_match).output("y", &[DType::BOOL], "").required_attr("pattern", AttrKind::STRING),
    ]
}
register_ops!(defs);
