//! Inputs, outputs and attributes of a host kernel's call, checked once: sizes against bytes,
//! types, alignment, axes.
use ge_kernels::view::{Elem, Kind, Layout, ViewError, cast_slice, cast_slice_mut};
use ge_kernels::with_kind;
use ge_plugin_api::kernel::{HostTensor, KernelCtx};
use ge_plugin_api::types::{AttrValue, DType};
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};

/// An error about one input, output or attribute, with the value found and the one expected.
pub fn bad(subject: impl Into<String>, found: impl ToString, expected: impl ToString) -> Error {
    let subject = subject.into();
    Diagnostic::error(format!("{subject} does not fit"))
        .subject(subject)
        .found(found.to_string(), expected.to_string())
        .of(ErrorKind::FAILED)
}

/// Converts an error of a view.
pub fn view_error(e: ViewError) -> Error {
    Error::failed(e.to_string())
}

/// The kind for an element type; `None` if kernels do not compute on the type.
pub fn kind_of(d: DType) -> Option<Kind> {
    Some(match d {
        DType::F32 => Kind::F32,
        DType::F64 => Kind::F64,
        DType::F16 => Kind::F16,
        DType::BF16 => Kind::Bf16,
        DType::I8 => Kind::I8,
        DType::I16 => Kind::I16,
        DType::I32 => Kind::I32,
        DType::I64 => Kind::I64,
        DType::U8 => Kind::U8,
        DType::U16 => Kind::U16,
        DType::U32 => Kind::U32,
        DType::U64 => Kind::U64,
        DType::BOOL => Kind::Bool,
        _ => return None,
    })
}

/// An empty vector with room for `n` elements. Fails if there is not enough memory.
pub fn room<T>(n: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(n).map_err(|_| Error::failed(format!("no memory for {n} elements")))?;
    Ok(v)
}

/// A vector of `n` equal elements. Fails if there is not enough memory.
pub fn filled<T: Clone>(n: usize, value: T) -> Result<Vec<T>> {
    let mut v = room(n)?;
    v.resize(n, value);
    Ok(v)
}

/// Number of elements of a shape. Fails if it cannot be addressed.
pub fn count(shape: &[usize]) -> Result<usize> {
    ge_kernels::view::element_count(shape).map_err(view_error)
}

/// Converts sizes to the type that the plugin API uses.
pub fn dims(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&d| d as u64).collect()
}

/// Converts an axis, which may be negative, to one counted from the front.
pub fn axis(subject: &str, axis: i64, rank: usize) -> Result<usize> {
    let r = rank as i64;
    let a = if axis < 0 { axis.saturating_add(r) } else { axis };
    if (0..r).contains(&a) { Ok(a as usize) } else { Err(bad(subject, axis, format!("-{rank} to {}", r - 1))) }
}

/// Converts several axes and sorts them. Fails if an axis occurs twice.
pub fn axes(subject: &str, list: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut v = list.iter().map(|&a| axis(subject, a, rank)).collect::<Result<Vec<_>>>()?;
    v.sort_unstable();
    match v.windows(2).find(|w| w[0] == w[1]) {
        Some(w) => Err(bad(subject, format!("axis {} twice", w[0]), "each axis once")),
        None => Ok(v),
    }
}

/// Converts a size from the model to an index. Fails if it is negative.
pub fn size(subject: &str, v: i64) -> Result<usize> {
    usize::try_from(v).map_err(|_| bad(subject, v, "zero or more"))
}

enum Store<'a> {
    Borrowed(&'a [u8]),
    Aligned(HostTensor),
}

/// One input: type, sizes, and bytes that have been checked for length and alignment.
pub struct Arg<'a> {
    /// Position of the input in the call.
    pub index: usize,
    /// Element type.
    pub dtype: DType,
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    /// Number of elements.
    pub len: usize,
    store: Store<'a>,
}

impl<'a> Arg<'a> {
    /// Input `i`. Fails if it is absent, of a type without fixed width, or too short.
    pub fn of(ctx: &KernelCtx<'a>, i: usize) -> Result<Arg<'a>> {
        let v = ctx.input(i)?;
        let shape = v.dims.iter().map(|&d| usize::try_from(d)).collect::<Result<Vec<_>, _>>();
        let shape =
            shape.map_err(|_| bad(format!("input {i}"), format!("{:?}", v.dims), "sizes that can be addressed"))?;
        let len = count(&shape)?;
        let need = v.dtype.bytes_of(len as u64).and_then(|n| usize::try_from(n).ok());
        let need = need.ok_or_else(|| bad(format!("input {i}"), v.dtype, "an element type of fixed width"))?;
        if v.bytes.len() < need {
            return Err(bad(format!("input {i}"), format!("{} bytes", v.bytes.len()), format!("{need} bytes")));
        }
        let bytes = &v.bytes[..need];
        let width = v.dtype.bits().map_or(1, |b| (b / 8).clamp(1, 8)) as usize;
        let store = if (bytes.as_ptr() as usize).is_multiple_of(width) {
            Store::Borrowed(bytes)
        } else {
            Store::Aligned(HostTensor::from_bytes(v.dtype, v.dims, bytes)?)
        };
        Ok(Arg { index: i, dtype: v.dtype, shape, len, store })
    }
    /// Input `i`, or `None` if it is absent.
    pub fn opt(ctx: &KernelCtx<'a>, i: usize) -> Result<Option<Arg<'a>>> {
        if ctx.opt_input(i).is_some() { Arg::of(ctx, i).map(Some) } else { Ok(None) }
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// The bytes of exactly the elements.
    pub fn bytes(&self) -> &[u8] {
        match &self.store {
            Store::Borrowed(b) => b,
            Store::Aligned(t) => t.bytes(),
        }
    }
    /// Returns the error for a type that the kernel does not support.
    pub fn refused<T>(&self) -> Result<T> {
        Err(bad(format!("type of input {}", self.index), self.dtype, "a type that this operator computes"))
    }
    /// The kind of the elements. Fails if kernels do not compute on the type.
    pub fn kind(&self) -> Result<Kind> {
        kind_of(self.dtype).map_or_else(|| self.refused(), Ok)
    }
    /// The elements as a slice of `T`. Fails if they are of another type.
    pub fn values<T: Elem>(&self) -> Result<&[T]> {
        if kind_of(self.dtype) != Some(T::KIND) {
            return Err(bad(format!("type of input {}", self.index), self.dtype, T::KIND.name()));
        }
        cast_slice(self.bytes()).map_err(view_error)
    }
    /// The row-major layout of the elements.
    pub fn layout(&self) -> Result<Layout> {
        Layout::contiguous(&self.shape).map_err(view_error)
    }
    /// The layout broadcast to a shape. Fails if it does not broadcast.
    pub fn broadcast(&self, shape: &[usize]) -> Result<Layout> {
        self.layout()?.broadcast_to(shape).map_err(|_| {
            bad(
                format!("input {}", self.index),
                format!("{:?}", self.shape),
                format!("a shape that broadcasts to {shape:?}"),
            )
        })
    }
    /// All elements as doubles.
    pub fn f64s(&self) -> Result<Vec<f64>> {
        let mut v = room(self.len)?;
        with_kind!(self.kind()?, T => v.extend(self.values::<T>()?.iter().map(|x| x.to_f64())));
        Ok(v)
    }
    /// All elements as 64-bit integers (u64 elements keep their bits).
    pub fn i64s(&self) -> Result<Vec<i64>> {
        let mut v = room(self.len)?;
        with_kind!(self.kind()?, T => v.extend(self.values::<T>()?.iter().map(|x| x.to_i64())));
        Ok(v)
    }
    /// The integers of a short list (a shape, axes, pads).
    pub fn list(&self) -> Result<Vec<i64>> {
        if self.len > 4096 || self.rank() > 1 {
            return Err(bad(
                format!("input {}", self.index),
                format!("shape {:?}", self.shape),
                "a list of at most 4096 numbers",
            ));
        }
        if !self.kind()?.is_int() {
            return Err(bad(format!("type of input {}", self.index), self.dtype, "an integer type"));
        }
        self.i64s()
    }
    /// The only element, as a double. Fails if there is not exactly one element.
    pub fn scalar(&self) -> Result<f64> {
        self.one()?;
        Ok(with_kind!(self.kind()?, T => self.values::<T>()?[0].to_f64()))
    }
    /// The only element, as an integer. Fails if there is not exactly one element.
    pub fn int(&self) -> Result<i64> {
        self.one()?;
        Ok(with_kind!(self.kind()?, T => self.values::<T>()?[0].to_i64()))
    }
    fn one(&self) -> Result<()> {
        if self.len == 1 {
            Ok(())
        } else {
            Err(bad(format!("input {}", self.index), format!("{} elements", self.len), "one element"))
        }
    }
    /// Fails unless the rank is within `least..=most`.
    pub fn need_rank(&self, least: usize, most: usize) -> Result<()> {
        let r = self.rank();
        if (least..=most).contains(&r) {
            return Ok(());
        }
        let want = match most {
            _ if least == most => format!("rank {least}"),
            usize::MAX => format!("rank {least} or more"),
            _ => format!("rank {least} to {most}"),
        };
        Err(bad(format!("input {}", self.index), format!("rank {r}, shape {:?}", self.shape), want))
    }
    /// Fails unless the elements are of this type.
    pub fn need_type(&self, t: DType) -> Result<()> {
        if self.dtype == t { Ok(()) } else { Err(bad(format!("type of input {}", self.index), self.dtype, t)) }
    }
    /// Fails unless the input has this shape.
    pub fn need_shape(&self, shape: &[usize]) -> Result<()> {
        if self.shape.iter().eq(shape) {
            Ok(())
        } else {
            Err(bad(format!("input {}", self.index), format!("shape {:?}", self.shape), format!("shape {shape:?}")))
        }
    }
}

/// All inputs from `from` on.
pub fn all<'a>(ctx: &KernelCtx<'a>, from: usize) -> Result<Vec<Arg<'a>>> {
    (from..ctx.inputs.len()).map(|i| Arg::of(ctx, i)).collect()
}

/// The bytes of output `i` for a shape: exactly those of its elements. Allocates the output.
pub fn out_bytes<'c>(ctx: &'c mut KernelCtx<'_>, i: usize, shape: &[usize]) -> Result<&'c mut [u8]> {
    let n = count(shape)? as u64;
    let o = ctx.alloc_output(i, &dims(shape))?;
    let need = o.dtype.bytes_of(n).and_then(|n| usize::try_from(n).ok());
    let need = need.ok_or_else(|| bad(format!("output {i}"), o.dtype, "an element type of fixed width"))?;
    let has = o.bytes.len();
    o.bytes.get_mut(..need).ok_or_else(|| bad(format!("output {i}"), format!("{has} bytes"), format!("{need} bytes")))
}

/// The elements of output `i` for a shape. Allocates the output; fails if it is of another type.
pub fn out<'c, T: Elem>(ctx: &'c mut KernelCtx<'_>, i: usize, shape: &[usize]) -> Result<&'c mut [T]> {
    let d = ctx.output_dtype(i).unwrap_or_default();
    if kind_of(d) != Some(T::KIND) {
        return Err(bad(format!("type of output {i}"), d, T::KIND.name()));
    }
    cast_slice_mut(out_bytes(ctx, i, shape)?).map_err(view_error)
}

/// Writes output `i` from doubles, rounded once to its type. Does nothing if the output is not
/// wanted.
pub fn put_f64(ctx: &mut KernelCtx<'_>, i: usize, shape: &[usize], v: &[f64]) -> Result<()> {
    put(ctx, i, shape, v)
}
/// Writes output `i` from 64-bit integers, keeping their low bits. Does nothing if the output is
/// not wanted.
pub fn put_i64(ctx: &mut KernelCtx<'_>, i: usize, shape: &[usize], v: &[i64]) -> Result<()> {
    put(ctx, i, shape, v)
}
/// Writes an output in its own type, each element converted from `S`.
pub fn put<S: Elem>(ctx: &mut KernelCtx<'_>, i: usize, shape: &[usize], v: &[S]) -> Result<()> {
    let Some(d) = ctx.output_dtype(i) else { return Ok(()) };
    let k = kind_of(d).ok_or_else(|| bad(format!("type of output {i}"), d, "a type that this operator computes"))?;
    if count(shape)? != v.len() {
        return Err(Error::internal(format!("kernel made {} elements for output {i} of shape {shape:?}", v.len())));
    }
    with_kind!(k, T => {
        for (o, x) in out::<T>(ctx, i, shape)?.iter_mut().zip(v) {
            *o = ge_kernels::view::cast::<S, T>(*x);
        }
    });
    Ok(())
}

/// An integer attribute, or its default.
pub fn int_attr(ctx: &KernelCtx<'_>, key: &str, default: i64) -> i64 {
    ctx.attrs.int(key).unwrap_or(default)
}
/// A floating-point attribute, or its default.
pub fn float_attr(ctx: &KernelCtx<'_>, key: &str, default: f64) -> f64 {
    ctx.attrs.float(key).unwrap_or(default)
}
/// A boolean attribute, or its default.
pub fn flag(ctx: &KernelCtx<'_>, key: &str, default: bool) -> bool {
    ctx.attrs.bool(key).unwrap_or(default)
}
/// A text attribute, or its default.
pub fn text<'a>(ctx: &KernelCtx<'a>, key: &str, default: &'a str) -> &'a str {
    ctx.attrs.str(key).unwrap_or(default)
}
/// A list-of-integers attribute; `None` if it is not given.
pub fn ints_attr<'a>(ctx: &KernelCtx<'a>, key: &str) -> Option<&'a [i64]> {
    ctx.attrs.ints(key)
}
/// An element-type attribute, given as a type or by name; `None` if it is not given.
pub fn type_attr(ctx: &KernelCtx<'_>, key: &str) -> Option<DType> {
    match ctx.attrs.get(key)? {
        AttrValue::Type(t) => Some(*t),
        AttrValue::Str(s) => DType::from_name(s),
        _ => None,
    }
}
/// Integers from the attribute `key`, otherwise from input `i`; `None` if neither is given.
pub fn ints_or_input(ctx: &KernelCtx<'_>, key: &str, i: usize) -> Result<Option<Vec<i64>>> {
    match ints_attr(ctx, key) {
        Some(v) => Ok(Some(v.to_vec())),
        None => Arg::opt(ctx, i)?.map(|a| a.list()).transpose(),
    }
}
/// Like [`ints_or_input`], but fails if neither is given.
pub fn need_ints(ctx: &KernelCtx<'_>, key: &str, i: usize) -> Result<Vec<i64>> {
    ints_or_input(ctx, key, i)?.ok_or_else(|| bad(format!("attribute `{key}`"), "nothing", "a list of integers"))
}
