//! Graph inputs: their declared types and shapes, and the changes by `--input-shape`.
use crate::proto::{TypeProto, ValueInfoProto, tensor_shape_proto::dimension, type_proto};
use crate::tensor::{dtype, no_dtype};
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use ge_plugin_api::frontend::ImportOptions;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DType, Dim, Expr, Shape, TensorDesc};
use std::collections::{BTreeMap, BTreeSet};

/// The declared type and shape of a value; the elements of a sequence or an optional may have any
/// shape. Fails if the value is neither a tensor nor one of these.
pub fn declared(v: &ValueInfoProto) -> Result<TensorDesc> {
    let refuse = |what: &str| {
        Diagnostic::error(format!("`{}` is {what}: tensors, and sequences and optionals of them, are taken", v.name))
            .subject(v.name.as_str())
            .found(what, "a tensor, a sequence or an optional")
            .raise(ge_plugin_api::diagnostic::NOT_MAPPED)
    };
    use type_proto::Value::{MapType, OptionalType, SequenceType, SparseTensorType, TensorType};
    let inner = |e: &Option<Box<TypeProto>>| e.as_ref().and_then(|e| e.value.clone());
    let (container, value) = match v.r#type.as_ref().and_then(|t| t.value.clone()) {
        Some(OptionalType(o)) => match inner(&o.elem_type) {
            Some(SequenceType(s)) => (Container::OPT_SEQ, inner(&s.elem_type)),
            other => (Container::OPT, other),
        },
        Some(SequenceType(s)) => (Container::SEQ, inner(&s.elem_type)),
        other => (Container::TENSOR, other),
    };
    let t = match value {
        None => return Ok(TensorDesc { container, ..TensorDesc::unknown() }),
        Some(TensorType(t)) => t,
        Some(SequenceType(_)) => return Err(refuse("a sequence of sequences")),
        Some(MapType(_)) => return Err(refuse("a map")),
        Some(OptionalType(_)) => return Err(refuse("a sequence or an optional of optionals")),
        Some(SparseTensorType(_)) => return Err(refuse("a sparse tensor")),
    };
    let dt = match dtype(t.elem_type) {
        Some(d) => d,
        None if t.elem_type == 0 => DType::UNKNOWN,
        None => {
            return Err(no_dtype(&format!("`{}`", v.name), t.elem_type));
        }
    };
    let shape = match &t.shape {
        _ if container != Container::TENSOR => Shape::unranked(),
        None => Shape::unranked(),
        Some(s) => Shape::new(s.dim.iter().map(|d| match &d.value {
            Some(dimension::Value::DimValue(n)) => u64::try_from(*n).map_or(Dim::UNKNOWN, Dim::known),
            Some(dimension::Value::DimParam(p)) if names_a_size(p) => Dim::symbol(p),
            _ => Dim::UNKNOWN,
        })),
    };
    Ok(TensorDesc { container, ..TensorDesc::new(dt, shape) })
}

/// Whether a value is declared as a sequence of maps.
pub fn is_list_of_maps(v: &ValueInfoProto) -> bool {
    use type_proto::Value::{MapType, SequenceType};
    let value = v.r#type.as_ref().and_then(|t| t.value.as_ref());
    let Some(SequenceType(s)) = value else { return false };
    matches!(s.elem_type.as_ref().and_then(|e| e.value.as_ref()), Some(MapType(_)))
}

/// Whether the text names a single size. It does not if it is `?`, which exporters write for any
/// unnamed size, so that two of them may differ. Nor if it is a number that was traced for an open
/// size: a name guarantees no value.
fn names_a_size(text: &str) -> bool {
    !matches!(text, "" | "?") && Expr::parse(text).is_none_or(|e| e.constant().is_none())
}

/// Applies the user's shapes to the inputs (names and descriptors in graph order), whose names are
/// settled. If a symbol gets a size, that size holds wherever the symbol occurs, also within
/// expressions.
pub fn apply(inputs: &mut [(String, TensorDesc)], options: &ImportOptions) -> Result<()> {
    let mut sizes = Sizes::new();
    let mut problems: Vec<Diagnostic> = Vec::new();
    for wish in options.input_shapes.iter() {
        let Some((name, desc)) = inputs.iter_mut().find(|(n, _)| n == wish.name.as_str()) else {
            problems.push(unknown_input(&wish.name, inputs));
            continue;
        };
        if wish.unranked {
            continue;
        }
        let wanted = Shape::from_i64(&wish.dims);
        let fits = desc.shape.is_unranked()
            || desc.shape.dims().len() == wanted.dims().len()
                && desc.shape.dims().iter().zip(wanted.dims()).all(|(d, w)| match (d.size(), w.size()) {
                    (Some(d), Some(w)) => d == w,
                    _ => true,
                });
        if !fits {
            problems.push(
                Diagnostic::error(format!("--input-shape: the model declares `{name}` with another shape"))
                    .subject(name.as_str())
                    .found(wanted.to_string(), desc.shape.to_string())
                    .help("give sizes for the open dimensions only"),
            );
            continue;
        }
        let old = desc.shape.clone();
        desc.shape = wanted;
        for (i, d) in old.dims().iter().enumerate() {
            let new = &mut desc.shape.dims_mut()[i];
            match (d.symbol_name(), new.size()) {
                (Some(s), Some(n)) => {
                    if *sizes.entry(s).or_insert(n) != n {
                        problems.push(
                            Diagnostic::error(format!("--input-shape gives the dimension `{s}` two sizes"))
                                .subject(name.as_str())
                                .found(n.to_string(), sizes.get(s).copied().unwrap_or(n).to_string()),
                        );
                    }
                }
                (_, None) => *new = *d,
                _ => {}
            }
        }
    }
    problems.extend(sizes.iter().filter_map(|(name, n)| other_size(name, *n, &sizes)));
    if !problems.is_empty() {
        return Err(Error::all(ErrorKind::USAGE, problems));
    }
    for d in inputs.iter_mut().flat_map(|(_, d)| d.shape.dims_mut()).filter(|_| !sizes.is_empty()) {
        *d = Expr::replaced(*d, &|s| sizes.get(s).copied().map(Dim::known));
    }
    Ok(())
}

/// The sizes that the user gives to names.
type Sizes = BTreeMap<&'static str, u64>;

/// The problem with a size given to an expression whose symbols have sizes that make another one.
fn other_size(name: &str, size: u64, sizes: &Sizes) -> Option<Diagnostic> {
    let of = |s: &str| if s == name { None } else { sizes.get(s).and_then(|n| i64::try_from(*n).ok()) };
    let value = Expr::parse(name)?.value(&of)?;
    (i64::try_from(size) != Ok(value)).then(|| {
        Diagnostic::error(format!("--input-shape gives the dimension `{name}` a size that its parts do not make"))
            .subject(name)
            .found(size.to_string(), value.to_string())
            .help("give the sizes of the parts only")
    })
}

/// Settles the names of sizes that read as arithmetic. To ONNX they are names like others: `dim-1`
/// and `dim-2` say nothing of each other. A name is taken at its word only if all that it is made
/// of are sizes of inputs, because every run then checks it; another one becomes a plain word, the
/// same for equal names.
pub fn settle_names(inputs: &mut [(String, TensorDesc)]) {
    let all = || inputs.iter().flat_map(|(_, d)| d.shape.dims()).filter_map(|d| d.symbol_name());
    let words: BTreeSet<&str> = all().filter(|t| is_word(t)).collect();
    let mut taken: BTreeSet<String> = all().map(str::to_owned).collect();
    let mut settled: BTreeMap<&str, Dim> = BTreeMap::new();
    for (text, e) in all().filter(|t| !is_word(t)).filter_map(|t| Some((t, Expr::parse(t)?))) {
        let checked = e.value(&|s| words.contains(s).then_some(1)).is_some();
        settled.entry(text).or_insert_with(|| if checked { e.dim() } else { Dim::symbol(&plain(text, &mut taken)) });
    }
    for d in inputs.iter_mut().flat_map(|(_, d)| d.shape.dims_mut()) {
        if let Some(to) = d.symbol_name().and_then(|s| settled.get(s)) {
            *d = *to;
        }
    }
}

fn is_word(text: &str) -> bool {
    Expr::parse(text).is_some_and(|e| e.is_symbol() && e.to_string() == text)
}

/// A word like the text that no other size has.
fn plain(text: &str, taken: &mut BTreeSet<String>) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c } else { '_' };
    let first = if text.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    let mut word: String = first.chars().chain(text.chars().map(letter)).collect();
    while !taken.insert(word.clone()) {
        word.push('_');
    }
    word
}

fn unknown_input(name: &str, inputs: &[(String, TensorDesc)]) -> Diagnostic {
    let near = inputs.iter().map(|(n, _)| n).min_by_key(|n| strsim::damerau_levenshtein(n, name));
    let all: Vec<&str> = inputs.iter().map(|(n, _)| n.as_str()).take(10).collect();
    let d = Diagnostic::error(format!("--input-shape: the model has no input `{name}`"))
        .subject(name)
        .found(name, format!("one of: {}", all.join(", ")));
    match near {
        Some(n) => d.help(format!("did you mean `{n}`?")),
        None => d,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{TypeProto, type_proto};

    fn of(value: type_proto::Value) -> TypeProto {
        TypeProto { value: Some(value) }
    }
    fn tensor(elem_type: i32) -> TypeProto {
        of(type_proto::Value::TensorType(type_proto::Tensor { elem_type, ..Default::default() }))
    }
    fn list(t: TypeProto) -> TypeProto {
        of(type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type: Some(Box::new(t)) })))
    }
    fn optional(t: TypeProto) -> TypeProto {
        of(type_proto::Value::OptionalType(Box::new(type_proto::Optional { elem_type: Some(Box::new(t)) })))
    }
    fn seen(t: TypeProto) -> std::result::Result<(Container, DType), String> {
        let v = ValueInfoProto { name: "v".into(), r#type: Some(t) };
        declared(&v).map(|d| (d.container, d.dtype)).map_err(|e| e.to_string())
    }

    #[test]
    fn a_dimension_that_is_named_by_a_number_is_open() {
        use crate::proto::{TensorShapeProto, tensor_shape_proto::Dimension};
        let named = |p: &str| Dimension { value: Some(dimension::Value::DimParam(p.into())) };
        let dim = ["7", "2*3", "?", "", "s0", "2*s0", "a batch"].map(named).to_vec();
        let t = type_proto::Tensor { elem_type: 1, shape: Some(TensorShapeProto { dim }) };
        let v = ValueInfoProto { name: "v".into(), r#type: Some(of(type_proto::Value::TensorType(t))) };
        let shape = declared(&v).unwrap().shape;
        let names: Vec<_> = shape.dims().iter().map(|d| (d.size(), d.symbol_name())).collect();
        let open = (None, None);
        assert_eq!(names[..4], [open; 4]);
        assert_eq!(names[4..], ["s0", "2*s0", "a batch"].map(|n| (None, Some(n))));
    }

    #[test]
    fn names_that_read_as_arithmetic_are_names() {
        let of = |dims: &[&str]| {
            let shape = Shape::new(dims.iter().map(|d| Dim::symbol(d)));
            ("x".to_owned(), TensorDesc::new(DType::F32, shape))
        };
        let settled = |mut inputs: Vec<(String, TensorDesc)>| {
            settle_names(&mut inputs);
            let names = |d: &TensorDesc| d.shape.dims().iter().map(|d| d.symbol_name()).collect::<Vec<_>>();
            inputs.iter().flat_map(|(_, d)| names(d)).map(|n| n.unwrap_or("?").to_owned()).collect::<Vec<_>>()
        };
        let all = settled(vec![of(&["dim-1", "dim-2", "dim_1"]), of(&["dim-1", "2*k", "a batch"])]);
        assert_eq!(all, ["dim_1_", "dim_2", "dim_1", "dim_1_", "_2_k", "a batch"]);
        let all = settled(vec![of(&["n + 1", "2*n", "n-1", "m+n"]), of(&["n"])]);
        assert_eq!(all, ["n+1", "2*n", "?", "m_n", "n"]);
    }

    fn after(dims: &[(&str, &[&str])], shapes: &[(&str, &[i64])]) -> std::result::Result<Vec<String>, String> {
        let desc = |dims: &[&str]| TensorDesc::new(DType::F32, Shape::new(dims.iter().map(|d| Dim::symbol(d))));
        let mut inputs: Vec<_> = dims.iter().map(|(name, dims)| ((*name).to_owned(), desc(dims))).collect();
        let wish = |(name, dims): &(&str, &[i64])| ge_plugin_api::frontend::InputShape {
            name: (*name).into(),
            dims: dims.to_vec().into(),
            unranked: false,
        };
        let shapes: Vec<_> = shapes.iter().map(wish).collect();
        settle_names(&mut inputs);
        apply(&mut inputs, &ImportOptions { input_shapes: shapes.into() })
            .map_err(|e| e.diagnostics[0].message.to_string())?;
        Ok(inputs.iter().map(|(_, d)| d.shape.to_string()).collect())
    }

    #[test]
    fn sizes_hold_within_expressions() {
        let all: [(&str, &[&str]); 3] =
            [("x", &["b", "s"]), ("p", &["b", "past"]), ("mask", &["b", "past + s", "max(s, 2) * s3", "s3"])];
        let shapes = |given: &[(&str, &[i64])]| after(&all, given);
        let open = ["[b,s]", "[b,past]", "[b,past+s,s3*max(s,2),s3]"].map(str::to_owned);
        assert_eq!(shapes(&[]).as_deref(), Ok(&open[..]));
        let both = shapes(&[("x", &[1, 2]), ("p", &[-1, 3])]).expect("sizes");
        assert_eq!(both, ["[1,2]", "[1,3]", "[1,5,2*s3,s3]"]);
        let one = shapes(&[("x", &[-1, 4])]).expect("sizes");
        assert_eq!(one, ["[b,4]", "[b,past]", "[b,past+4,4*s3,s3]"]);
        let whole = shapes(&[("mask", &[-1, 5, -1, -1])]).expect("sizes");
        assert_eq!(whole, ["[b,s]", "[b,past]", "[b,5,s3*max(s,2),s3]"]);
        assert!(shapes(&[("x", &[1, 2]), ("p", &[1, 3]), ("mask", &[1, 5, -1, -1])]).is_ok());
        let why = shapes(&[("x", &[1, 2]), ("p", &[1, 3]), ("mask", &[1, 9, -1, -1])]).unwrap_err();
        assert!(why.contains("`past+s`"), "{why}");
    }

    #[test]
    fn sequences_optionals_and_strings_are_taken() {
        assert_eq!(seen(tensor(8)), Ok((Container::TENSOR, DType::STRING)));
        assert_eq!(seen(list(tensor(1))), Ok((Container::SEQ, DType::F32)));
        assert_eq!(seen(optional(tensor(7))), Ok((Container::OPT, DType::I64)));
        assert_eq!(seen(optional(list(tensor(8)))), Ok((Container::OPT_SEQ, DType::STRING)));
        let refused = seen(list(list(tensor(1)))).unwrap_err();
        assert!(refused.contains("a sequence of sequences"), "{refused}");
        assert!(seen(list(optional(tensor(1)))).is_err());
    }
}
