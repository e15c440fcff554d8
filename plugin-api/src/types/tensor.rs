//! Tensor descriptors and constant tensors.
use crate::abi::{RArc, ROption, RString, RVec, StableAbi};
use crate::open_code;
use crate::types::{Attr, AttrMap, Blob, DType, Format, Shape};
use core::ops::{Deref, DerefMut};

open_code! {
    /// What a value holds: one tensor, or a container of tensors.
    pub struct Container: u8 {
        /// One tensor.
        TENSOR = 0 "tensor",
        /// A sequence of tensors, `seq<T>`.
        SEQ = 1 "seq",
        /// An optional tensor, `opt<T>`.
        OPT = 2 "opt",
        /// An optional sequence, `opt<seq<T>>`.
        OPT_SEQ = 3 "opt_seq",
    }
}
impl Default for Container {
    fn default() -> Self {
        Container::TENSOR
    }
}

/// Format and shape in the user's model, kept where the run-time ones differ.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, StableAbi)]
pub struct Origin {
    /// Original format.
    pub format: Format,
    /// Original shape.
    pub shape: Shape,
}

/// The descriptor of one output: type, run-time format and shape, original format and shape,
/// attributes. There are no separate input descriptors: an input has the descriptor of its
/// producer.
/// # Examples
/// ```
/// use ge_plugin_api::types::{DType, Shape, TensorDesc};
///
/// let desc = TensorDesc::new(DType::F16, Shape::of(&[2, 3]));
/// assert_eq!(desc.data_bytes(), Some(12));
/// ```
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi, Default)]
pub struct TensorDesc {
    /// Element type.
    pub dtype: DType,
    /// Run-time format.
    pub format: Format,
    /// Whether the value is a tensor, a sequence or an optional.
    pub container: Container,
    /// Run-time shape.
    pub shape: Shape,
    /// Original format and shape; `RNone` if they equal the run-time ones.
    pub origin: ROption<Origin>,
    /// Attributes of this descriptor (`offset`, `size`, `memory` …).
    pub attrs: AttrMap,
}

impl TensorDesc {
    /// A tensor of a type and shape in format ND.
    pub fn new(dtype: DType, shape: Shape) -> TensorDesc {
        TensorDesc { dtype, shape, ..TensorDesc::default() }
    }
    /// A descriptor of which nothing is known yet; inference fills it in.
    pub fn unknown() -> TensorDesc {
        TensorDesc::default()
    }
    /// The same descriptor with another run-time format.
    pub fn with_format(mut self, format: Format) -> TensorDesc {
        self.format = format;
        self
    }
    /// The original format; the run-time format if none is recorded.
    pub fn origin_format(&self) -> Format {
        match &self.origin {
            ROption::RSome(o) => o.format,
            ROption::RNone => self.format,
        }
    }
    /// The original shape; the run-time shape if none is recorded.
    pub fn origin_shape(&self) -> &Shape {
        match &self.origin {
            ROption::RSome(o) => &o.shape,
            ROption::RNone => &self.shape,
        }
    }
    /// Bytes of the data without padding; `None` if the shape is not static, the type has no fixed
    /// size or the count overflows.
    pub fn data_bytes(&self) -> Option<u64> {
        self.dtype.bytes_of(self.shape.count()?)
    }
    /// Whether the type and the whole shape are known.
    pub fn is_static(&self) -> bool {
        self.dtype != DType::UNKNOWN && self.shape.is_static()
    }
}

/// The bytes of a constant: either all of them, or one element that is repeated.
#[repr(u8)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub enum ConstData {
    /// All bytes, shared (a vector or a part of a mapped file).
    Bytes(Blob),
    /// Every element has these bytes: the bytes of one element, or one byte of packed elements for
    /// sub-byte types.
    Splat(Blob),
}

/// A constant tensor. It is a single pointer, because attributes hold many values and few of them
/// are tensors. A clone shares everything; the first write to a shared tensor copies the fields,
/// never the bytes.
#[repr(transparent)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct ConstTensor(RArc<Constant>);

impl Deref for ConstTensor {
    type Target = Constant;
    fn deref(&self) -> &Constant {
        &self.0
    }
}
impl DerefMut for ConstTensor {
    fn deref_mut(&mut self) -> &mut Constant {
        RArc::make_mut(&mut self.0)
    }
}

/// The contents of a constant tensor.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Constant {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub dims: RVec<u64>,
    /// The bytes of the elements.
    pub data: ConstData,
    /// Where the bytes are in a file, as the text form prints it; the path is empty if they are not
    /// from a file.
    pub file: FileRange,
}

/// A place in a file, as the user's model names it.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, Default, StableAbi)]
pub struct FileRange {
    /// Path as written in the model; empty if the bytes are not from a file.
    pub path: RString,
    /// Offset of the first byte.
    pub offset: u64,
}

impl ConstTensor {
    fn over(dtype: DType, dims: &[u64], data: ConstData) -> ConstTensor {
        ConstTensor(RArc::new(Constant { dtype, dims: dims.into(), data, file: FileRange::default() }))
    }
    /// A tensor over shared bytes. `None` if the byte count does not fit the type and the sizes;
    /// strings are not checked.
    pub fn new(dtype: DType, dims: &[u64], bytes: Blob) -> Option<ConstTensor> {
        let t = ConstTensor::over(dtype, dims, ConstData::Bytes(bytes));
        match &t.data {
            ConstData::Bytes(b) if dtype == DType::STRING || t.byte_len()? == b.len() as u64 => Some(t),
            _ => None,
        }
    }
    /// A tensor whose elements are all equal. `None` if `element` is not one element long (one byte
    /// for sub-byte types), the byte count overflows or the type has no fixed size.
    pub fn splat(dtype: DType, dims: &[u64], element: &[u8]) -> Option<ConstTensor> {
        let t = ConstTensor::over(dtype, dims, ConstData::Splat(Blob::copy_of(element)));
        let one = dtype.bits()?.div_ceil(8);
        if element.len() as u64 == one && t.byte_len().is_some() { Some(t) } else { None }
    }
    /// A tensor of plain numbers. `None` if their count does not fit the sizes.
    pub fn of<T: Scalar>(dims: &[u64], values: &[T]) -> Option<ConstTensor> {
        let mut bytes = Vec::with_capacity(core::mem::size_of_val(values));
        for v in values {
            v.push_le(&mut bytes);
        }
        ConstTensor::new(T::DTYPE, dims, Blob::from_owner(bytes))
    }
    /// Element count; `None` on overflow.
    pub fn count(&self) -> Option<u64> {
        Shape::of(&self.dims).count()
    }
    /// Byte count of the data, for strings the length of the blob; `None` on overflow.
    pub fn byte_len(&self) -> Option<u64> {
        match (&self.data, self.dtype) {
            (ConstData::Bytes(b), DType::STRING) => Some(b.len() as u64),
            _ => self.dtype.bytes_of(self.count()?),
        }
    }
    /// The bytes, with a splat written out in full. `None` if the memory for that cannot be
    /// allocated.
    pub fn bytes(&self) -> Option<Blob> {
        match &self.data {
            ConstData::Bytes(b) => Some(b.clone()),
            ConstData::Splat(e) => {
                let n = usize::try_from(self.byte_len()?).ok()?;
                let mut v = Vec::new();
                v.try_reserve_exact(n).ok()?;
                if e.len() == 1 {
                    v.resize(n, e[0]);
                } else {
                    while v.len() < n {
                        v.extend_from_slice(e);
                    }
                }
                Some(Blob::from_owner(v))
            }
        }
    }
    /// The shape.
    pub fn shape(&self) -> Shape {
        Shape::of(&self.dims)
    }
    /// The descriptor of a Const node that holds this tensor.
    pub fn desc(&self) -> TensorDesc {
        TensorDesc::new(self.dtype, self.shape())
    }
    /// Values as i64, for integer and bool tensors (shapes, axes, indices). `None` for other types,
    /// for more than `limit` elements and if a value does not fit.
    pub fn to_i64(&self, limit: usize) -> Option<Vec<i64>> {
        let n = usize::try_from(self.count()?).ok()?;
        if n > limit {
            return None;
        }
        let b = self.bytes()?;
        macro_rules! read {
            ($t:ty) => {
                b.chunks_exact(core::mem::size_of::<$t>())
                    .map(|c| c.try_into().ok().map(<$t>::from_le_bytes).and_then(|v| i64::try_from(v).ok()))
                    .collect()
            };
        }
        match self.dtype {
            DType::I64 => read!(i64),
            DType::I32 => read!(i32),
            DType::I16 => read!(i16),
            DType::I8 => read!(i8),
            DType::U64 => read!(u64),
            DType::U32 => read!(u32),
            DType::U16 => read!(u16),
            DType::U8 | DType::BOOL => read!(u8),
            _ => None,
        }
    }
    /// Values as f64, for f32, f64, f16, bf16, integer and bool tensors. `None` for other types and
    /// for more than `limit` elements.
    pub fn to_f64(&self, limit: usize) -> Option<Vec<f64>> {
        let n = usize::try_from(self.count()?).ok()?;
        if n > limit {
            return None;
        }
        let b = self.bytes()?;
        let c2 = |c: &[u8]| <[u8; 2]>::try_from(c).ok();
        match self.dtype {
            DType::F32 => {
                b.chunks_exact(4).map(|c| c.try_into().ok().map(|a| f64::from(f32::from_le_bytes(a)))).collect()
            }
            DType::F64 => b.chunks_exact(8).map(|c| c.try_into().ok().map(f64::from_le_bytes)).collect(),
            DType::F16 => b.chunks_exact(2).map(|c| c2(c).map(|a| half::f16::from_le_bytes(a).to_f64())).collect(),
            DType::BF16 => b.chunks_exact(2).map(|c| c2(c).map(|a| half::bf16::from_le_bytes(a).to_f64())).collect(),
            _ => self.to_i64(limit).map(|v| v.into_iter().map(|x| x as f64).collect()),
        }
    }
}

/// Plain numbers that a tensor can hold.
/// # Examples
/// ```
/// use ge_plugin_api::types::{DType, Scalar};
///
/// fn bytes_of<T: Scalar>(values: &[T]) -> (DType, Vec<u8>) {
///     let mut bytes = Vec::new();
///     values.iter().for_each(|v| v.push_le(&mut bytes));
///     (T::DTYPE, bytes)
/// }
/// assert_eq!(bytes_of(&[1u16, 258]), (DType::U16, vec![1, 0, 2, 1]));
/// ```
pub trait Scalar: Copy + Send + Sync + 'static {
    /// Element type of a tensor of these numbers.
    const DTYPE: DType;
    /// Appends the little-endian bytes of the number.
    fn push_le(self, to: &mut Vec<u8>);
}
macro_rules! scalar {
    ($($t:ty => $d:ident),+) => {$(
        impl Scalar for $t {
            const DTYPE: DType = DType::$d;
            fn push_le(self, to: &mut Vec<u8>) { to.extend_from_slice(&self.to_le_bytes()); }
        }
    )+};
}
scalar!(f32 => F32, f64 => F64, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    half::f16 => F16, half::bf16 => BF16);
impl Scalar for bool {
    const DTYPE: DType = DType::BOOL;
    fn push_le(self, to: &mut Vec<u8>) {
        to.push(u8::from(self));
    }
}

impl From<RVec<Attr>> for AttrMap {
    fn from(v: RVec<Attr>) -> AttrMap {
        let mut m = AttrMap::default();
        for a in v {
            m.set(a.key, a.value);
        }
        m
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn constants_check_their_size_and_splats_expand_late() {
        assert!(ConstTensor::new(DType::F32, &[2, 2], Blob::copy_of(&[0; 15])).is_none());
        let t = ConstTensor::of(&[2], &[3i64, -4]).expect("fits");
        assert_eq!(t.to_i64(8), Some(vec![3, -4]));
        assert_eq!(t.to_i64(1), None);
        let s = ConstTensor::splat(DType::F32, &[1 << 40], &0.5f32.to_le_bytes()).expect("legal");
        assert_eq!(s.byte_len(), Some(1 << 42));
        let s = ConstTensor::splat(DType::F32, &[3], &0.5f32.to_le_bytes()).expect("legal");
        assert_eq!(s.to_f64(3), Some(vec![0.5; 3]));
    }
}
