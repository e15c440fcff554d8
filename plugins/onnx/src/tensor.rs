//! Converts `TensorProto` to constants: raw bytes are shared with the file, typed lists are
//! converted, and external data is mapped.
use crate::proto::{SparseTensorProto, TensorProto};
use crate::read::shared;
use ge_plugin_api::diagnostic::{Diagnostic, Error, Result};
use ge_plugin_api::frontend::GraphBuilder;
use ge_plugin_api::types::{Blob, ConstTensor, DType, FileRange, bytes_of_strings};

/// Our element type for ONNX's number.
pub fn dtype(code: i32) -> Option<DType> {
    Some(match code {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        8 => DType::STRING,
        9 => DType::BOOL,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        14 => DType::COMPLEX64,
        15 => DType::COMPLEX128,
        16 => DType::BF16,
        17 => DType::F8E4M3FN,
        18 => DType::F8E4M3FNUZ,
        19 => DType::F8E5M2,
        20 => DType::F8E5M2FNUZ,
        21 => DType::U4,
        22 => DType::I4,
        23 => DType::F4E2M1,
        24 => DType::F8E8M0,
        25 => DType::U2,
        26 => DType::I2,
        _ => return None,
    })
}

/// The error for a number that is not the element type of `what`: one that the standard has but
/// this program does not compute with, or one that the standard does not have.
pub fn no_dtype(what: &str, code: i32) -> Error {
    let unsupported = match code {
        27 => "FLOAT6E2M3",
        28 => "FLOAT6E3M2",
        _ => {
            return Diagnostic::error(format!("{what} has an unknown element type"))
                .found(code.to_string(), "1 to 26")
                .raise(ge_plugin_api::diagnostic::BROKEN_MODEL);
        }
    };
    Diagnostic::error(format!("{what} has element type {unsupported}, which is not supported"))
        .help("convert its values to another type, such as FLOAT8E4M3FN, which holds all numbers of both")
        .raise(ge_plugin_api::diagnostic::NOT_MAPPED)
}

/// Source of the bytes of tensors.
pub struct Source<'a> {
    /// The model file.
    pub file: &'a Blob,
    /// Opens files beside the model.
    pub files: &'a GraphBuilder<'a>,
}

fn damaged(name: &str, what: impl Into<String>) -> Error {
    Diagnostic::error(format!("tensor `{name}`: {}", what.into()))
        .subject(name)
        .raise(ge_plugin_api::diagnostic::BROKEN_MODEL)
}

impl Source<'_> {
    /// Converts a tensor message to a constant.
    pub fn tensor(&self, t: &TensorProto) -> Result<ConstTensor> {
        let name = if t.name.is_empty() { "(attribute)" } else { t.name.as_str() };
        let dt = dtype(t.data_type).ok_or_else(|| no_dtype(&format!("tensor `{name}`"), t.data_type))?;
        let dims: Vec<u64> = t
            .dims
            .iter()
            .map(|&d| {
                u64::try_from(d)
                    .map_err(|_| damaged(name, "a negative dimension").with(|g| g.found(d.to_string(), "0 or more")))
            })
            .collect::<Result<_>>()?;
        let count = dims
            .iter()
            .try_fold(1u64, |a, &b| a.checked_mul(b))
            .ok_or_else(|| damaged(name, "more elements than can be counted"))?;
        if t.data_location == 1 {
            return self.external(t, name, dt, &dims, count);
        }
        if dt == DType::STRING {
            return strings(t, name, &dims, count);
        }
        let need = dt.bytes_of(count).ok_or_else(|| damaged(name, "more bytes than can be counted"))?;
        let blob = if !t.raw_data.is_empty() {
            shared(self.file, &t.raw_data).unwrap_or_else(|| Blob::copy_of(&t.raw_data))
        } else {
            typed(t, dt, need)
                .ok_or_else(|| damaged(name, format!("its list of values does not fit {dt} of {count} elements")))?
        };
        if blob.len() as u64 != need {
            return Err(damaged(name, "the number of bytes does not fit type and sizes")
                .with(|d| d.found(format!("{} bytes", blob.len()), format!("{need} bytes for {dt} {dims:?}"))));
        }
        ConstTensor::new(dt, &dims, blob).ok_or_else(|| damaged(name, "type and sizes do not fit"))
    }

    fn external(&self, t: &TensorProto, name: &str, dt: DType, dims: &[u64], count: u64) -> Result<ConstTensor> {
        let get = |k: &str| t.external_data.iter().find(|e| e.key == k).map(|e| e.value.as_str());
        let path = get("location")
            .filter(|p| !p.is_empty())
            .ok_or_else(|| damaged(name, "external data without a location, the name of its file"))?;
        let number = |k: &str| match get(k) {
            Some(v) => v.parse::<u64>().map(Some).map_err(|_| {
                damaged(name, format!("external data: `{k}` is no number")).with(|d| d.found(v, "a whole number"))
            }),
            None => Ok(None),
        };
        // Some exporters write a length of 0 for one that they do not state.
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?.filter(|l| *l > 0));
        let need = dt.bytes_of(count).ok_or_else(|| damaged(name, "external data of this type or size"))?;
        if length.is_some_and(|l| l != need) {
            return Err(damaged(name, "external data: the length does not fit type and sizes")
                .with(|d| d.found(format!("{} bytes", length.unwrap_or(0)), format!("{need} bytes"))));
        }
        let whole = self.files.open_relative(path).map_err(|e| e.with(|d| d.subject(name)))?;
        let part = usize::try_from(offset).ok().zip(usize::try_from(need).ok()).and_then(|(o, n)| whole.slice(o, n));
        let part = part.ok_or_else(|| {
            damaged(name, format!("external data in `{path}` is cut off"))
                .with(|d| d.found(format!("{} bytes in the file", whole.len()), format!("{need} bytes from {offset}")))
        })?;
        let mut c = ConstTensor::new(dt, dims, part).ok_or_else(|| damaged(name, "type and sizes do not fit"))?;
        c.file = FileRange { path: path.into(), offset };
        Ok(c)
    }

    /// A sparse constant, expanded to a dense one (at most 1 GiB).
    pub fn sparse(&self, s: &SparseTensorProto) -> Result<ConstTensor> {
        let (Some(v), Some(i)) = (&s.values, &s.indices) else {
            return Err(damaged("(sparse)", "no values or no indices"));
        };
        let (values, indices) = (self.tensor(v)?, self.tensor(i)?);
        let name = v.name.as_str();
        let dims: Vec<u64> = s
            .dims
            .iter()
            .map(|&d| u64::try_from(d).map_err(|_| damaged(name, "a negative dimension")))
            .collect::<Result<_>>()?;
        let count = dims
            .iter()
            .try_fold(1u64, |a, &b| a.checked_mul(b))
            .ok_or_else(|| damaged(name, "more elements than can be counted"))?;
        let unit = values
            .dtype
            .bytes_of(1)
            .filter(|_| values.dtype.bits().is_some_and(|b| b >= 8))
            .ok_or_else(|| damaged(name, "sparse of this type"))?;
        let total = count.checked_mul(unit).filter(|&t| t <= 1 << 30).and_then(|t| usize::try_from(t).ok());
        let total = total.ok_or_else(|| damaged(name, "a sparse tensor of more than 1 GiB"))?;
        let n = usize::try_from(values.count().unwrap_or(0)).map_err(|_| damaged(name, "too many values"))?;
        let at = indices.to_i64(1 << 27).ok_or_else(|| damaged(name, "indices of another type than i64"))?;
        let linear = indices.dims.len() == 1;
        let rank = dims.len();
        if at.len() != if linear { n } else { n.saturating_mul(rank) } {
            return Err(damaged(name, "values and indices do not fit each other"));
        }
        let mut out = Vec::new();
        out.try_reserve_exact(total).map_err(|_| damaged(name, "no memory for it"))?;
        out.resize(total, 0u8);
        let (src, unit) = (values.bytes().unwrap_or_default(), unit as usize);
        for k in 0..n {
            let flat = if linear {
                u64::try_from(at[k]).ok()
            } else {
                at[k * rank..(k + 1) * rank].iter().zip(&dims).try_fold(0u64, |f, (&i, &d)| {
                    let i = u64::try_from(i).ok().filter(|&i| i < d)?;
                    f.checked_mul(d)?.checked_add(i)
                })
            };
            let flat = flat.filter(|&f| f < count).ok_or_else(|| damaged(name, "an index beyond the tensor"))? as usize;
            out[flat * unit..(flat + 1) * unit].copy_from_slice(&src[k * unit..(k + 1) * unit]);
        }
        ConstTensor::new(values.dtype, &dims, Blob::from_owner(out))
            .ok_or_else(|| damaged(name, "type and sizes do not fit"))
    }
}

/// The bytes of a tensor whose values are in a typed list.
fn typed(t: &TensorProto, dt: DType, need: u64) -> Option<Blob> {
    let mut out: Vec<u8> = Vec::new();
    out.try_reserve_exact(usize::try_from(need.min(64 << 20)).ok()?).ok()?;
    let bits = dt.bits()?;
    match dt {
        DType::F32 | DType::COMPLEX64 => t.float_data.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        DType::F64 | DType::COMPLEX128 => t.double_data.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        DType::I64 => t.int64_data.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        DType::U64 => t.uint64_data.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        DType::U32 => {
            for v in &t.uint64_data {
                out.extend_from_slice(&u32::try_from(*v).ok()?.to_le_bytes());
            }
        }
        // Types below one byte are packed in the list's bytes; wider ones have one value per entry.
        _ => {
            let width = usize::try_from(bits.max(8) / 8).ok()?;
            t.int32_data.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()[..width.min(4)]));
        }
    }
    Some(Blob::from_owner(out))
}

/// Converts a tensor of strings.
fn strings(t: &TensorProto, name: &str, dims: &[u64], count: u64) -> Result<ConstTensor> {
    if t.string_data.len() as u64 != count {
        return Err(damaged(name, "the number of strings does not fit its sizes")
            .with(|d| d.found(t.string_data.len().to_string(), count.to_string())));
    }
    text(dims, &t.string_data).ok_or_else(|| damaged(name, "strings do not fit"))
}

/// Makes a tensor from strings.
pub fn text<S: AsRef<[u8]>>(dims: &[u64], all: &[S]) -> Option<ConstTensor> {
    ConstTensor::new(DType::STRING, dims, Blob::from_owner(bytes_of_strings(all)))
}
