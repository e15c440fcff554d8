//! Encodes tensor descriptors in the published schema. Formats and types keep their published names
//! and numbers. What the schema has no field for (symbolic dimensions, origin, containers,
//! attributes) is stored in attributes of the descriptor.
use crate::ModelError;
use crate::attrs;
use ge_om::attr::AttrMap as _;
use ge_om::desc::{set_dtype, tensor_desc};
use ge_om::proto::ir::{DataType, TensorDescriptor};
use ge_plugin_api::types::{AttrValue, Container, DType, Dim, Format, Origin, Shape, TensorDesc};

const NUMBERS: &[(DType, DataType)] = &[
    (DType::F32, DataType::DtFloat),
    (DType::F16, DataType::DtFloat16),
    (DType::BF16, DataType::DtBf16),
    (DType::F64, DataType::DtDouble),
    (DType::I8, DataType::DtInt8),
    (DType::I16, DataType::DtInt16),
    (DType::I32, DataType::DtInt32),
    (DType::I64, DataType::DtInt64),
    (DType::U8, DataType::DtUint8),
    (DType::U16, DataType::DtUint16),
    (DType::U32, DataType::DtUint32),
    (DType::U64, DataType::DtUint64),
    (DType::BOOL, DataType::DtBool),
    (DType::STRING, DataType::DtString),
    (DType::COMPLEX64, DataType::DtComplex64),
    (DType::COMPLEX128, DataType::DtComplex128),
    (DType::I4, DataType::DtInt4),
    (DType::I2, DataType::DtInt2),
    (DType::U2, DataType::DtUint2),
    (DType::F8E5M2, DataType::DtFloat8E5m2),
    (DType::F8E4M3FN, DataType::DtFloat8E4m3fn),
    (DType::F8E8M0, DataType::DtFloat8E8m0),
    (DType::F4E2M1, DataType::DtFloat4E2m1),
];
/// Descriptor attribute: our own name of a type that has no published number.
const OWN_TYPE: &str = "ge_rs.type";
const CONTAINER: &str = "ge_rs.container";
const SYMBOLS: &str = "ge_rs.symbols";
const PREFIX: &str = "ge_rs.a.";

/// Encodes a descriptor in the schema.
pub(crate) fn to_proto(name: &str, d: &TensorDesc) -> TensorDescriptor {
    let shape: Vec<i64> = if d.shape.is_unranked() {
        vec![-2]
    } else {
        d.shape.dims().iter().map(|x| x.size().map_or(-1, |s| s as i64)).collect()
    };
    let mut out = tensor_desc(DataType::DtUndefined, &shape, d.format.name());
    out.name = name.to_owned();
    match NUMBERS.iter().find(|(o, _)| *o == d.dtype) {
        Some((_, n)) => set_dtype(&mut out, *n),
        None => out.attr.set(OWN_TYPE, d.dtype.name().to_owned()),
    }
    if d.container != Container::TENSOR {
        out.attr.set(CONTAINER, i64::from(d.container.code()));
    }
    if d.shape.dims().iter().any(|x| x.symbol_name().is_some_and(|s| !s.is_empty())) {
        let name = |x: &Dim| x.symbol_name().unwrap_or("").to_owned();
        out.attr.set(SYMBOLS, d.shape.dims().iter().map(name).collect::<Vec<String>>());
    }
    // `atc` writes the original format and shape under these names on every descriptor.
    if let Some(o) = d.origin.as_ref().into_option() {
        out.attr.set("origin_format", o.format.name().to_owned());
        out.attr.set(
            "origin_shape",
            o.shape.dims().iter().map(|x| x.size().map_or(-1, |s| s as i64)).collect::<Vec<i64>>(),
        );
        out.attr.set("origin_shape_initialized", true);
    }
    out.size = d.data_bytes().and_then(|b| i64::try_from(b).ok()).unwrap_or(0);
    for a in d.attrs.iter() {
        if let Some(v) = attrs::to_proto(&a.value) {
            out.attr.set(&format!("{PREFIX}{}", a.key.as_str()), v);
        }
    }
    out
}

/// Decodes a descriptor.
pub(crate) fn from_proto(d: &TensorDescriptor) -> Result<TensorDesc, ModelError> {
    let bad = |what: &str| ModelError::field(format!("{what} of descriptor `{}`", d.name));
    let number = ge_om::desc::dtype(d).map_err(|_| bad("type"))?;
    let dtype = match d.attr.str(OWN_TYPE).map_err(|_| bad("type"))? {
        Some(name) => DType::from_name(name).ok_or_else(|| bad("type"))?,
        None => NUMBERS.iter().find(|(_, n)| *n == number).map_or(DType::UNKNOWN, |(o, _)| *o),
    };
    let symbols = d.attr.strs(SYMBOLS).map_err(|_| bad("symbols"))?.unwrap_or_default();
    let sizes = ge_om::desc::shape(d);
    let shape = if sizes == [-2] {
        Shape::unranked()
    } else {
        Shape::new(sizes.iter().enumerate().map(|(i, &s)| match (u64::try_from(s), symbols.get(i)) {
            (Ok(s), _) => Dim::known(s),
            (Err(_), Some(name)) if !name.is_empty() => Dim::symbol(name),
            _ => Dim::UNKNOWN,
        }))
    };
    let format = Format::from_name(&d.layout).unwrap_or(Format::ND);
    let mut out = TensorDesc { dtype, format, shape, ..TensorDesc::default() };
    if let Some(c) = d.attr.int(CONTAINER).map_err(|_| bad("container"))? {
        out.container = u8::try_from(c).ok().and_then(Container::from_code).ok_or_else(|| bad("container"))?;
    }
    if let Some(f) = d.attr.str("origin_format").map_err(|_| bad("origin format"))? {
        let dims = d.attr.ints("origin_shape").map_err(|_| bad("origin shape"))?.unwrap_or(&[]);
        let origin = Origin { format: Format::from_name(f).unwrap_or(Format::ND), shape: Shape::from_i64(dims) };
        out.origin = Some(origin).into();
    }
    for (k, v) in &d.attr {
        if let Some(name) = k.strip_prefix(PREFIX) {
            if let Some(v) = attrs::from_proto(v) {
                out.attrs.set(name, v);
            }
        }
    }
    Ok(out)
}

/// The number of a type in an attribute; `None` if the type has no published number.
pub(crate) fn dtype_number(d: DType) -> Option<i64> {
    NUMBERS.iter().find(|(o, _)| *o == d).map(|(_, n)| *n as i64)
}
/// The type for the number in an attribute.
pub(crate) fn dtype_of_number(n: i64) -> Option<DType> {
    NUMBERS.iter().find(|(_, m)| *m as i64 == n).map(|(o, _)| *o)
}

/// Whether an attribute of an encoded node records a decision of the compiler, rather than an
/// attribute of the graph.
pub(crate) fn is_own(key: &str) -> bool {
    matches!(key, "_logic_stream_id" | "_attached_stream_ids" | "_engine") || key.starts_with("ge_rs.")
}

/// Whether the OM omits an attribute value: the bytes of a constant are in the weights.
pub(crate) fn is_left_out(key: &str, v: &AttrValue, op: &str) -> bool {
    key == "value" && matches!(v, AttrValue::Tensor(_)) && matches!(op, "Const" | "Constant")
}
