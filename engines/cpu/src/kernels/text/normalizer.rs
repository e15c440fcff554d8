//! `StringNormalizer(x [c] or [1,c]) {case_change_action, is_case_sensitive, stopwords} -> y`
//! (ai.onnx 10 on): removes stop words and converts the other words to upper case, to lower case or
//! not at all. If no word is left, the result is one empty word.
use super::strings;
use crate::args::{bad, text};
use crate::op::Op;
use crate::store::types::TEXT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use std::collections::HashSet;

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (dims, x) = strings::read(ctx, 0)?;
    if !matches!(dims.as_slice(), [_] | [1, _]) {
        return Err(bad("input 0", format!("{dims:?}"), "[c] or [1,c]"));
    }
    let exact = ctx.attrs.flag("is_case_sensitive");
    let key = |s: &str| if exact { s.to_owned() } else { s.to_lowercase() };
    let stops = ctx.attrs.strs("stopwords").unwrap_or_default();
    let stops: HashSet<String> = stops.iter().map(|s| key(s)).collect();
    let changed = match text(ctx, "case_change_action", "NONE") {
        "LOWER" => str::to_lowercase,
        "UPPER" => str::to_uppercase,
        _ => str::to_owned,
    };
    let mut all: Vec<String> = x.iter().filter(|s| !stops.contains(&key(s))).map(|s| changed(s)).collect();
    if all.is_empty() {
        all.push(String::new());
    }
    let length = all.len() as u64;
    let dims = if dims.len() == 1 { vec![length] } else { vec![1, length] };
    strings::write(ctx, 0, &dims, &all)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("StringNormalizer", run, &[TEXT]).gives(&[TEXT])];
