//! The attributes of the operators of `ai.onnx`. An unknown attribute, or one of another type,
//! would be ignored by the mapping, and the model would silently be computed without it.
mod table;

use crate::proto::AttributeProto;
use ge_plugin_api::diagnostic::Diagnostic;

/// Attributes of old opsets that mappings of newer ones also accept, or that have no meaning.
const TAKEN_LATER: [&str; 16] = [
    "axes",
    "broadcast",
    "consumed_inputs",
    "is_test",
    "k",
    "max",
    "min",
    "output_sequence",
    "pads",
    "ratio",
    "scales",
    "shape",
    "spatial",
    "split",
    "value",
    "paddings",
];

/// The name of an attribute type, by its number in the file.
fn kind(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "float",
        2 => "int",
        3 => "str",
        4 => "tensor",
        5 => "graph",
        6 => "floats",
        7 => "ints",
        8 => "strs",
        9 => "tensors",
        10 => "graphs",
        11 => "sparse",
        13 => "type",
        _ => return None,
    })
}

fn words(kind: &str) -> &str {
    match kind {
        "float" => "a real number",
        "int" => "a whole number",
        "str" => "a text",
        "tensor" | "sparse" => "a tensor",
        "graph" => "a graph",
        "floats" => "a list of real numbers",
        "ints" => "a list of whole numbers",
        "strs" => "a list of texts",
        "tensors" => "a list of tensors",
        "graphs" => "a list of graphs",
        _ => "a type",
    }
}

/// The attributes of an operator: name, types, and the last opset that has it.
fn of(op: &str) -> Option<impl Iterator<Item = (&'static str, &'static str, Option<u32>)>> {
    let at = table::OPERATORS.binary_search_by(|o| o.0.cmp(op)).ok()?;
    let one = |text: &'static str| {
        let (name, kinds) = text.split_once(':').unwrap_or((text, ""));
        let (kinds, last) = kinds.split_once("..").unwrap_or((kinds, ""));
        (name, kinds, last.parse().ok())
    };
    Some(table::OPERATORS[at].1.split_whitespace().map(one))
}

/// What is wrong with the attributes of a node of `ai.onnx` in an opset; `None` for operators that
/// are not in the standard.
pub fn fault(op: &str, version: u32, attrs: &[(&str, &AttributeProto)]) -> Option<Diagnostic> {
    if attrs.is_empty() {
        return None;
    }
    let known: Vec<_> = of(op)?.collect();
    attrs.iter().find_map(|(name, a)| {
        let says = |what: String| Diagnostic::error(format!("{op} {what}")).subject(*name);
        let Some((_, kinds, last)) = known.iter().find(|k| k.0 == *name) else {
            let near = known.iter().map(|k| k.0).min_by_key(|k| strsim::damerau_levenshtein(k, name));
            let all: Vec<&str> = known.iter().filter(|k| k.2.is_none()).map(|k| k.0).collect();
            let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            let d = says(format!("has no attribute `{name}`")).found(*name, has);
            return Some(match near.filter(|n| strsim::damerau_levenshtein(n, name) < 3) {
                Some(n) => d.help(format!("did you mean `{n}`?")),
                None => d.help("`onnx.checker.check_model` finds such mistakes"),
            });
        };
        if let Some(last) = last.filter(|l| *l < version && (!TAKEN_LATER.contains(name) || op == "Slice")) {
            return Some(
                says(format!("has the attribute `{name}` up to opset {last} alone"))
                    .found(format!("opset {version}"), format!("opset {last} or older, or an input in its place"))
                    .help("`onnx.checker.check_model` finds such mistakes"),
            );
        }
        let given = kind(a.r#type)?;
        // An empty list matches any list type, and an integer may stand for a real number.
        let empty = a.ints.is_empty() && a.floats.is_empty() && a.strings.is_empty() && given.ends_with('s');
        let fits =
            |want: &str| want == given || given == "int" && want == "float" || given == "sparse" && want == "tensor";
        (!empty && !kinds.split('|').any(fits)).then(|| {
            let want: Vec<&str> = kinds.split('|').map(words).collect();
            says(format!("takes another type as `{name}`")).found(words(given), want.join(" or "))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(kind: i32) -> AttributeProto {
        AttributeProto { r#type: kind, ints: vec![1], ..Default::default() }
    }

    #[test]
    fn operators_stand_in_order() {
        assert!(table::OPERATORS.is_sorted_by(|a, b| a.0 < b.0) && table::OPERATORS.len() > 190);
    }

    #[test]
    fn attributes_that_an_operator_has_not_or_has_otherwise_are_told() {
        let told = |op, version, name, kind| fault(op, version, &[(name, &attr(kind))]);
        let d = told("Transpose", 13, "perms", 7).expect("a fault");
        assert_eq!(
            (d.message.as_str(), d.help.as_str()),
            ("Transpose has no attribute `perms`", "did you mean `perm`?")
        );
        assert_eq!(told("Softmax", 13, "axes", 7).expect("a fault").expected, "axis");
        assert_eq!(told("Relu", 13, "alpha", 1).expect("a fault").expected, "none");
        let d = told("Softmax", 13, "axis", 3).expect("a fault");
        assert_eq!((d.found.as_str(), d.expected.as_str()), ("a text", "a whole number"));
        assert!(told("Conv", 13, "strides", 2).is_some());
        let d = told("Add", 7, "axis", 2).expect("a fault");
        assert_eq!(d.message, "Add has the attribute `axis` up to opset 6 alone");
    }

    #[test]
    fn what_the_standard_allows_and_mappings_take_is_no_fault() {
        let none = |op, version, name, kind| fault(op, version, &[(name, &attr(kind))]).is_none();
        assert!(none("Add", 6, "axis", 2) && none("ReduceSum", 18, "axes", 7) && none("Clip", 13, "max", 1));
        assert!(none("LeakyRelu", 13, "alpha", 2) && none("Cast", 5, "to", 3) && none("Cast", 13, "to", 2));
        assert!(none("Softmax", 13, "axis", 0) && none("Affine", 1, "alpha", 1) && none("If", 13, "then_branch", 5));
    }
}
