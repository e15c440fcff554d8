//! Letters and ranges of `--input-shape "x:N=1..32,3,?,?;y:N"`: which sizes a model of unknown
//! shapes accepts.
use crate::{Diagnostic, Result};
use ge_compiler::dynamic::RANGES;
use ge_ir::{AttrValue, Dim, Model, ValueRef};
use ge_plugin_api::types::{DictEntry, Expr};
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

/// Applies the letters and ranges of `--input-shape` to the inputs of a model. A size that the
/// model knows stays known: a range must contain it, and a letter has it wherever it stands.
///
/// # Errors
/// Fails if a letter has two different ranges or sizes, or if a range does not contain a known
/// size.
pub fn apply(model: &mut Model, text: &str) -> Result<()> {
    let inputs: Vec<(String, ge_ir::NodeId)> =
        model.root().data_nodes().iter().map(|n| (n.name().to_owned(), n.id())).collect();
    let mut ranges: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let Some((name, dims)) = part.rsplit_once(':') else { continue };
        let Some((name, id)) = inputs.iter().find(|i| i.0 == name.trim()) else { continue };
        let Some(d) = model.root_mut().output_mut(ValueRef::new(*id, 0)) else { continue };
        for (k, (asked, dim)) in dims.split(',').zip(d.shape.dims_mut()).enumerate() {
            let Some(Asked::Open { letter, range }) = Asked::parse(asked.trim()) else { continue };
            let place = format!("{name}:{k}");
            match (&letter, dim.size()) {
                (Some(l), Some(n)) => bind(&mut sizes, l, n)?,
                (None, Some(n)) => range.into_iter().try_for_each(|r| contains(&place, r, n))?,
                (Some(l), None) => *dim = Dim::symbol(l),
                (None, None) => {}
            }
            let Some(range) = range.filter(|_| letter.is_some() || !dim.is_known()) else { continue };
            let key = letter.or_else(|| dim.symbol_name().map(str::to_owned)).unwrap_or(place);
            let known = *ranges.entry(key.clone()).or_insert(range);
            if known != range {
                return Err(Diagnostic::error(format!("`--input-shape` gives `{key}` two ranges"))
                    .found(format!("{}..{}", range.0, range.1), format!("{}..{}, as before", known.0, known.1))
                    .raise(ge_codes::INPUT_SHAPE));
            }
        }
    }
    for (letter, n) in &sizes {
        ranges.remove(letter).into_iter().try_for_each(|r| contains(letter, r, *n))?;
    }
    settle(model, &sizes);
    if !ranges.is_empty() {
        let value = |(low, high): (u64, u64)| AttrValue::Ints(vec![low as i64, high as i64].into());
        let entries = ranges.into_iter().map(|(k, r)| DictEntry { key: k.as_str().into(), value: value(r) });
        model.root_mut().attrs_mut().set(RANGES, AttrValue::Dict(entries.collect()));
    }
    Ok(())
}

/// Records the size of a name.
///
/// # Errors
/// Fails if the name has another size already.
pub fn bind(sizes: &mut BTreeMap<String, u64>, name: &str, size: u64) -> Result<()> {
    let known = *sizes.entry(name.to_owned()).or_insert(size);
    if known == size {
        return Ok(());
    }
    Err(Diagnostic::error(format!("`--input-shape` gives `{name}` two sizes"))
        .subject(name)
        .found(size.to_string(), format!("{known}, as before"))
        .raise(ge_codes::INPUT_SHAPE))
}

/// Gives each size of the inputs that has a name in `sizes` the size of that name, also within
/// expressions.
pub fn settle(model: &mut Model, sizes: &BTreeMap<String, u64>) {
    let inputs: Vec<ge_ir::NodeId> = model.root().data_nodes().iter().map(|n| n.id()).collect();
    for id in inputs.into_iter().filter(|_| !sizes.is_empty()) {
        let Some(d) = model.root_mut().output_mut(ValueRef::new(id, 0)) else { continue };
        for dim in d.shape.dims_mut() {
            *dim = Expr::replaced(*dim, &|s| sizes.get(s).copied().map(Dim::known));
        }
    }
}

fn contains(place: &str, (low, high): (u64, u64), size: u64) -> Result<()> {
    if (low..=high).contains(&size) {
        return Ok(());
    }
    let high = if high == i64::MAX as u64 { String::new() } else { high.to_string() };
    Err(Diagnostic::error(format!("`--input-shape` gives `{place}` a range without its size"))
        .subject(place)
        .found(format!("{low}..{high}"), format!("a range with {size}: the size is known"))
        .help("leave the range out, or export the model with this size open")
        .raise(ge_codes::INPUT_SHAPE))
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

    #[test]
    fn a_known_size_stays_known_and_contradictions_are_refused() {
        let given = |graph: &str, text: &str| {
            let mut m = ge_ir::text::parse(graph, "t.ge", &ge_ir::text::NoFiles).expect("a graph");
            let asked = crate::session::import::parse_input_shapes(text).expect("shapes");
            crate::session::import::give_shapes(&mut m, &asked).and_then(|()| apply(&mut m, text)).map(|()| {
                let shapes = m.root().data_nodes().into_iter().map(|n| n.outputs()[0].shape.to_string());
                shapes.collect::<Vec<_>>().join(" ")
            })
        };
        const TWO: &str = "graph @main(%x: f32[4,3], %y: f32[n,?]) { %z = Neg(%x) : f32[4,3] return %z }";
        for (text, shapes) in [
            ("x:?,3", "[4,3] [n,?]"),
            ("x:b,3;y:b,b", "[4,3] [4,4]"),
            ("x:2..8,3", "[4,3] [n,?]"),
            ("y:?,2", "[4,3] [n,2]"),
            ("y:7,n", "[4,3] [7,n]"),
        ] {
            assert_eq!(given(TWO, text).expect(text), shapes, "{text}");
        }
        for text in ["x:5..8,3", "x:b=5..8,3", "x:b,b", "x:b,3;y:b=1..2,?", "x:5,3", "nosuch:?"] {
            assert!(given(TWO, text).is_err(), "{text}");
        }
        let made = "graph @main(%x: f32[n,m], %y: f32[\"m+n\",\"2*n\"]) { %z = Neg(%x) : f32[n,m] return %z }";
        for (text, shapes) in [("x:2,3", "[2,3] [5,4]"), ("x:2,?", "[2,m] [m+2,4]"), ("y:?,?;x:?,3", "[n,3] [n+3,2*n]")]
        {
            assert_eq!(given(made, text).expect(text), shapes, "{text}");
        }
        let tied = "graph @main(%x: f32[n], %y: f32[n]) { %z = Neg(%x) : f32[n] return %z }";
        assert_eq!(given(tied, "x:4;y:?").expect("one size"), "[4] [4]");
        assert!(given(tied, "x:4;y:2..3").is_err() && given(tied, "x:4;y:5").is_err());
    }
}
