//! `StringSplit(x) {delimiter, maxsplit} -> y, z` (ai.onnx 20 on): `y` holds the parts of each
//! string along a new last axis, padded with empty strings to the largest number of parts; `z`
//! holds the number of parts of each string. Without a delimiter, or with an empty one, a string is
//! split at white space, and white space at its ends is ignored. At most `maxsplit` splits are
//! made; the remainder is the last part.
//!
//! Source: ONNX's reference, which is Python's `str.split`.
use super::strings;
use crate::args::{int_attr, text};
use crate::op::Op;
use crate::store::types::TEXT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::{HostTensor, KernelCtx};
use ge_plugin_api::types::DType;

/// White space as Python defines it.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// The parts between white space, with at most `most` splits.
fn words(s: &str, most: usize) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = s.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = if out.len() < most { rest.find(is_space) } else { None };
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        out.push(word);
        rest = behind.trim_start_matches(is_space);
    }
    out
}

fn parts<'s>(s: &'s str, delimiter: &str, most: usize) -> Vec<&'s str> {
    if delimiter.is_empty() { words(s, most) } else { s.splitn(most.saturating_add(1), delimiter).collect() }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (mut dims, x) = strings::read(ctx, 0)?;
    let delimiter = text(ctx, "delimiter", "").to_owned();
    let most = usize::try_from(int_attr(ctx, "maxsplit", -1)).unwrap_or(usize::MAX);
    let all: Vec<Vec<&str>> = x.iter().map(|s| parts(s, &delimiter, most)).collect();
    let width = all.iter().map(Vec::len).max().unwrap_or(0);
    let mut counts = HostTensor::zeroed(DType::I64, &dims)?;
    for (to, list) in counts.bytes_mut().as_chunks_mut::<8>().0.iter_mut().zip(&all) {
        *to = (list.len() as i64).to_le_bytes();
    }
    let mut filled: Vec<&str> = Vec::new();
    for (k, list) in all.iter().enumerate() {
        filled.extend(list);
        filled.resize((k + 1) * width, "");
    }
    dims.push(width as u64);
    strings::write(ctx, 0, &dims, &filled)?;
    ctx.set_output(1, counts)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("StringSplit", run, &[TEXT]).gives(&[TEXT, &[DType::I64]])];

#[cfg(test)]
mod tests {
    use super::parts;

    /// Results of Python 3's `str.split`.
    #[test]
    fn strings_are_split_as_python_does() {
        let none: [&str; 0] = [];
        assert_eq!(parts("  a  b\tc ", "", usize::MAX), ["a", "b", "c"]);
        assert_eq!(parts("  a  b c ", "", 1), ["a", "b c "]);
        assert_eq!(parts(" a ", "", 0), ["a "]);
        assert_eq!(parts(" ", "", usize::MAX), none);
        assert_eq!(parts("a..b.", ".", usize::MAX), ["a", "", "b", ""]);
        assert_eq!(parts("a..b.", ".", 1), ["a", ".b."]);
        assert_eq!(parts("", "-", usize::MAX), [""]);
    }
}
