//! Dimensions and shapes, which may be known, symbolic or unknown.
use crate::abi::{RVec, StableAbi};
use crate::types::Key;

/// One dimension: a size, a symbol, or unknown.
///
/// It is one i64, so that shapes cross the ABI boundary as plain numbers: `>= 0` is a size, `-1` is
/// unknown, `-(k+2)` is the symbol whose interned name is key `k`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct Dim(i64);

impl Dim {
    /// An unknown dimension, printed as `?`.
    pub const UNKNOWN: Dim = Dim(-1);
    /// A known size. Sizes above `i64::MAX` become `i64::MAX`.
    pub const fn known(size: u64) -> Dim {
        if size > i64::MAX as u64 { Dim(i64::MAX) } else { Dim(size as i64) }
    }
    /// A symbolic dimension with a name; equal names mean equal sizes.
    pub fn symbol(name: &str) -> Dim {
        Dim(-(i64::from(Key::new(name).index()) + 2))
    }
    /// The dimension with a raw code: `>= 0` is a size, `-1` is unknown, anything below is a
    /// symbol.
    pub const fn from_raw(raw: i64) -> Dim {
        Dim(raw)
    }
    /// The raw code; see [`Dim`].
    pub const fn raw(self) -> i64 {
        self.0
    }
    /// The size, if known.
    pub const fn size(self) -> Option<u64> {
        if self.0 >= 0 { Some(self.0 as u64) } else { None }
    }
    /// Whether the size is known.
    pub const fn is_known(self) -> bool {
        self.0 >= 0
    }
    /// The symbol's name, if the dimension is symbolic.
    pub fn symbol_name(self) -> Option<&'static str> {
        if self.0 <= -2 { Some(Key::from_index(u32::try_from(-(self.0 + 2)).ok()?).as_str()) } else { None }
    }
    /// Whether both are certain to be equal: the same known size or the same symbol.
    pub fn same(self, other: Dim) -> bool {
        self.0 == other.0 && self.0 != -1
    }
}

impl From<u64> for Dim {
    fn from(v: u64) -> Dim {
        Dim::known(v)
    }
}

impl core::fmt::Display for Dim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.size(), self.symbol_name()) {
            (Some(v), _) => write!(f, "{v}"),
            (None, Some(s)) => f.write_str(s),
            (None, None) => f.write_str("?"),
        }
    }
}
impl core::fmt::Debug for Dim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{self}")
    }
}

/// A shape: a list of dimensions, or a shape of unknown rank.
#[repr(C)]
#[derive(Clone, PartialEq, Eq, Hash, StableAbi)]
pub struct Shape {
    dims: RVec<Dim>,
    unranked: bool,
}

impl Shape {
    /// The shape of a scalar: rank 0.
    pub fn scalar() -> Shape {
        Shape { dims: RVec::new(), unranked: false }
    }
    /// A shape of unknown rank, printed as `[...]`.
    pub fn unranked() -> Shape {
        Shape { dims: RVec::new(), unranked: true }
    }
    /// A shape with these dimensions.
    pub fn new(dims: impl IntoIterator<Item = Dim>) -> Shape {
        Shape { dims: dims.into_iter().collect(), unranked: false }
    }
    /// A shape with these known sizes.
    pub fn of(sizes: &[u64]) -> Shape {
        Shape::new(sizes.iter().map(|&s| Dim::known(s)))
    }
    /// A shape with these sizes; a negative size is an unknown dimension.
    pub fn from_i64(sizes: &[i64]) -> Shape {
        Shape::new(sizes.iter().map(|&s| if s < 0 { Dim::UNKNOWN } else { Dim(s) }))
    }
    /// The rank; `None` if it is unknown.
    pub fn rank(&self) -> Option<usize> {
        if self.unranked { None } else { Some(self.dims.len()) }
    }
    /// Whether the rank is unknown.
    pub fn is_unranked(&self) -> bool {
        self.unranked
    }
    /// The dimensions; empty for a scalar and for unknown rank.
    pub fn dims(&self) -> &[Dim] {
        &self.dims
    }
    /// The dimensions for changing in place; empty for a scalar and for unknown rank.
    pub fn dims_mut(&mut self) -> &mut [Dim] {
        &mut self.dims
    }
    /// The sizes; `None` if the rank or a dimension is not known.
    pub fn sizes(&self) -> Option<Vec<u64>> {
        if self.unranked { None } else { self.dims.iter().map(|d| d.size()).collect() }
    }
    /// The sizes as i64; `None` if the rank or a dimension is not known.
    pub fn sizes_i64(&self) -> Option<Vec<i64>> {
        if self.unranked { None } else { self.dims.iter().map(|d| d.size().map(|s| s as i64)).collect() }
    }
    /// Whether the rank and every dimension are known.
    pub fn is_static(&self) -> bool {
        !self.unranked && self.dims.iter().all(|d| d.is_known())
    }
    /// Element count, which is 1 for a scalar; `None` if the shape is not static or the count
    /// overflows.
    pub fn count(&self) -> Option<u64> {
        if self.unranked {
            return None;
        }
        // A zero makes the product zero whatever the other sizes are, so an overflow before the
        // zero must not count.
        let mut n: u64 = 1;
        let mut overflow = false;
        for d in self.dims.iter() {
            let s = d.size()?;
            if s == 0 {
                return if self.dims.iter().all(|d| d.is_known()) { Some(0) } else { None };
            }
            match n.checked_mul(s) {
                Some(v) => n = v,
                None => overflow = true,
            }
        }
        if overflow { None } else { Some(n) }
    }
    /// Turns an axis, counted from the end if negative, into an index; `None` if it is out of range
    /// or the rank is unknown.
    pub fn axis(&self, axis: i64) -> Option<usize> {
        let r = i64::try_from(self.rank()?).ok()?;
        let a = if axis < 0 { axis.checked_add(r)? } else { axis };
        if (0..r).contains(&a) { usize::try_from(a).ok() } else { None }
    }
}

impl Default for Shape {
    fn default() -> Self {
        Shape::unranked()
    }
}

impl core::fmt::Display for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.unranked {
            return f.write_str("[...]");
        }
        f.write_str("[")?;
        for (i, d) in self.dims.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}
impl core::fmt::Debug for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn counts_do_not_overflow_and_symbols_keep_their_name() {
        assert_eq!(Shape::of(&[2, 3, 5]).count(), Some(30));
        assert_eq!(Shape::scalar().count(), Some(1));
        assert_eq!(Shape::of(&[1 << 40, 1 << 40]).count(), None);
        assert_eq!(Shape::of(&[1 << 40, 1 << 40, 0]).count(), Some(0));
        let b = Dim::symbol("batch");
        assert_eq!(b, Dim::symbol("batch"));
        assert_eq!(Shape::new([b, Dim::UNKNOWN, Dim::known(3)]).to_string(), "[batch,?,3]");
        assert_eq!(Shape::of(&[2, 3]).axis(-1), Some(1));
        assert_eq!(Shape::of(&[2, 3]).axis(2), None);
    }
}
