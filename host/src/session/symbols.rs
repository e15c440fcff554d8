//! Letters and ranges of `--input-shape "x:N=1..32,3,?,?;y:N"`: which sizes a model of unknown
//! shapes accepts.
use crate::{Diagnostic, Result};
use ge_compiler::dynamic::RANGES;
use ge_ir::{AttrValue, Dim, Model, ValueRef};
use ge_plugin_api::types::DictEntry;
use std::collections::BTreeMap;

/// One size of `--input-shape`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A fixed size.
    Size(i64),
    /// An open size, optionally with a letter and a range.
    Open {
        /// The letter that ties equal sizes together.
        letter: Option<String>,
        /// Smallest and largest size.
        range: Option<(u64, u64)>,
    },
}

impl Asked {
    /// Parses a size; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Asked> {
        if matches!(text, "?" | "-1") {
            return Some(Asked::Open { letter: None, range: None });
        }
        if let Ok(n) = text.parse::<i64>() {
            return (n >= 0).then_some(Asked::Size(n));
        }
        let (letter, range) = match text.split_once('=') {
            Some((l, r)) => (Some(l.trim()), Some(r.trim())),
            None if text.contains("..") => (None, Some(text)),
            None => (Some(text), None),
        };
        let name = |l: &str| {
            let mut c = l.chars();
            c.next().is_some_and(|c| c.is_alphabetic() || c == '_') && c.all(|c| c.is_alphanumeric() || c == '_')
        };
        if !letter.is_none_or(name) {
            return None;
        }
        let range = match range {
            None => None,
            Some(r) => {
                let (low, high) = r.split_once("..")?;
                let low: u64 = low.trim().parse().ok()?;
                let high = if high.trim().is_empty() { i64::MAX as u64 } else { high.trim().parse().ok()? };
                (low <= high).then_some(Some((low, high)))?
            }
        };
        Some(Asked::Open { letter: letter.map(str::to_owned), range })
    }
}

/// Applies the letters and ranges of `--input-shape` to the inputs of a model.
///
/// # Errors
/// Fails if a letter has two different ranges.
pub fn apply(model: &mut Model, text: &str) -> Result<()> {
    let inputs: Vec<(String, ge_ir::NodeId)> =
        model.root().data_nodes().iter().map(|n| (n.name().to_owned(), n.id())).collect();
    let mut ranges: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let Some((name, dims)) = part.rsplit_once(':') else { continue };
        let Some((name, id)) = inputs.iter().find(|i| i.0 == name.trim()) else { continue };
        let Some(d) = model.root_mut().output_mut(ValueRef::new(*id, 0)) else { continue };
        for (k, (asked, dim)) in dims.split(',').zip(d.shape.dims_mut()).enumerate() {
            let Some(Asked::Open { letter, range }) = Asked::parse(asked.trim()) else { continue };
            if let Some(l) = &letter {
                *dim = Dim::symbol(l);
            }
            let Some(range) = range else { continue };
            let key = dim.symbol_name().map_or_else(|| format!("{name}:{k}"), str::to_owned);
            let known = *ranges.entry(key.clone()).or_insert(range);
            if known != range {
                return Err(Diagnostic::error(format!("`--input-shape` gives `{key}` two ranges"))
                    .found(format!("{}..{}", range.0, range.1), format!("{}..{}, as before", known.0, known.1))
                    .raise(ge_codes::INPUT_SHAPE));
            }
        }
    }
    if !ranges.is_empty() {
        let value = |(low, high): (u64, u64)| AttrValue::Ints(vec![low as i64, high as i64].into());
        let entries = ranges.into_iter().map(|(k, r)| DictEntry { key: k.as_str().into(), value: value(r) });
        model.root_mut().attrs_mut().set(RANGES, AttrValue::Dict(entries.collect()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_letters_and_ranges() {
        let open = |letter: Option<&str>, range| Some(Asked::Open { letter: letter.map(str::to_owned), range });
        assert_eq!(Asked::parse("3"), Some(Asked::Size(3)));
        assert_eq!(Asked::parse("?"), open(None, None));
        assert_eq!(Asked::parse("N"), open(Some("N"), None));
        assert_eq!(Asked::parse("1..32"), open(None, Some((1, 32))));
        assert_eq!(Asked::parse("N=1..32"), open(Some("N"), Some((1, 32))));
        assert_eq!(Asked::parse("N=4.."), open(Some("N"), Some((4, i64::MAX as u64))));
        for bad in ["", "-2", "3x", "N=", "5..3", "N=a..b", "1.5", "x y"] {
            assert_eq!(Asked::parse(bad), None, "{bad}");
        }
    }
}
