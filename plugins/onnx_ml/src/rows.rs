//! The rows of features that kernels read, and parallel loops over them.
use crate::forest::NARROW;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::services::parallel_for;
use ge_plugin_api::types::DType;
use ge_plugin_api::{Error, Result};
use std::ops::Range;
use std::sync::Mutex;

/// A type in which features are compared and computed.
pub trait Feature: Copy + PartialOrd + Send + Sync {
    /// The split of a node of a tree: one word that is f32, or two that are f64.
    fn split(words: &[i32]) -> Self;
    /// The number in f64.
    fn wide(self) -> f64;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// The numbers in a range of `x`, in `to` where they are not of this type already. Integers are
    /// read as f32, as the standard requires.
    ///
    /// # Errors
    /// Fails if `x` has a type that no prototype allows.
    fn read<'b>(x: &TensorView<'b>, at: Range<usize>, to: &'b mut Vec<Self>) -> Result<&'b [Self]>;
}

impl Feature for f32 {
    fn split(words: &[i32]) -> f32 {
        f32::from_bits(words[0] as u32)
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
    fn read<'b>(x: &TensorView<'b>, at: Range<usize>, to: &'b mut Vec<f32>) -> Result<&'b [f32]> {
        to.clear();
        match x.dtype {
            DType::F64 => to.extend(x.values::<f64>()?[at].iter().map(|v| *v as f32)),
            DType::I64 => to.extend(x.values::<i64>()?[at].iter().map(|v| *v as f32)),
            DType::I32 => to.extend(x.values::<i32>()?[at].iter().map(|v| *v as f32)),
            _ => return Ok(&x.values::<f32>()?[at]),
        }
        Ok(to)
    }
}

impl Feature for f64 {
    fn split(words: &[i32]) -> f64 {
        match words.len() {
            NARROW => f64::from(f32::split(words)),
            _ => f64::from_bits(u64::from(words[0] as u32) | u64::from(words[1] as u32) << 32),
        }
    }
    fn wide(self) -> f64 {
        self
    }
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    fn read<'b>(x: &TensorView<'b>, at: Range<usize>, to: &'b mut Vec<f64>) -> Result<&'b [f64]> {
        to.clear();
        match x.dtype {
            DType::F64 => return Ok(&x.values::<f64>()?[at]),
            DType::I64 => to.extend(x.values::<i64>()?[at].iter().map(|v| f64::from(*v as f32))),
            DType::I32 => to.extend(x.values::<i32>()?[at].iter().map(|v| f64::from(*v as f32))),
            _ => to.extend(x.values::<f32>()?[at].iter().map(|v| f64::from(*v))),
        }
        Ok(to)
    }
}

/// A type of results.
pub trait Rounded: Send {
    /// The number of this type that is nearest to `v`.
    fn rounded(v: f64) -> Self;
}

impl Rounded for f32 {
    fn rounded(v: f64) -> f32 {
        v as f32
    }
}

impl Rounded for f64 {
    fn rounded(v: f64) -> f64 {
        v
    }
}

/// Consecutive rows.
pub struct Block<'a, X> {
    /// The numbers of all rows.
    pub values: &'a [X],
    /// Number of rows.
    pub count: usize,
    /// Number of columns.
    pub width: usize,
}

impl<'a, X> Block<'a, X> {
    /// Row `i` of the block; empty if there is no such row.
    pub fn row(&self, i: usize) -> &'a [X] {
        self.values.get(i * self.width..(i + 1) * self.width).unwrap_or_default()
    }
}

/// Rows of a numeric matrix; a vector counts as one row.
pub struct Rows<'a> {
    x: TensorView<'a>,
    /// Number of rows.
    pub count: usize,
    /// Number of columns.
    pub width: usize,
}

impl<'a> Rows<'a> {
    /// Reads the shape of `x`, which is input 0.
    ///
    /// # Errors
    /// Fails if `x` is neither a vector nor a matrix.
    pub fn of(x: TensorView<'a>) -> Result<Rows<'a>> {
        Rows::at(x, 0)
    }

    /// Like [`Rows::of`], for input `k`.
    ///
    /// # Errors
    /// Fails if `x` is neither a vector nor a matrix.
    pub fn at(x: TensorView<'a>, k: usize) -> Result<Rows<'a>> {
        let (count, width) = match *x.dims {
            [n] => (1, n),
            [rows, n] => (rows, n),
            _ => return Err(Error::failed(format!("input {k}: found shape {:?}, expected [rows, features]", x.dims))),
        };
        Ok(Rows { x, count: count as usize, width: width as usize })
    }

    /// The type of the numbers.
    pub fn dtype(&self) -> DType {
        self.x.dtype
    }

    /// The rows of a range, in `to` where they are not of the type `X` already.
    ///
    /// # Errors
    /// Fails if the type of `x` is one that no prototype allows.
    pub fn block<'b, X: Feature>(&self, rows: Range<usize>, to: &'b mut Vec<X>) -> Result<Block<'b, X>>
    where
        'a: 'b,
    {
        let at = rows.start * self.width..rows.end * self.width;
        let values = X::read(&self.x, at, to)?;
        Ok(Block { values, count: rows.len(), width: self.width })
    }

    /// Computes `width` numbers for each row, in parallel blocks of at most `block` rows: `of` gets
    /// the rows and the place for their numbers, which is zeroed. Each number is rounded once, to
    /// the type of `y`.
    ///
    /// # Errors
    /// Fails if `of` fails, and if the type of `x` is one that no prototype allows.
    pub fn in_blocks<X: Feature, Y: Rounded>(
        &self,
        width: usize,
        block: usize,
        y: &mut [Y],
        of: impl Fn(&Block<'_, X>, &mut [f64]) -> Result<()> + Sync,
    ) -> Result<()> {
        if width == 0 {
            return Ok(());
        }
        let places: Vec<Mutex<&mut [Y]>> = y.chunks_mut(block * width).map(Mutex::new).collect();
        parallel_for(places.len(), 1, |blocks| {
            let (mut rows, mut out) = (Vec::new(), Vec::new());
            for c in blocks {
                let range = c * block..((c + 1) * block).min(self.count);
                out.clear();
                out.resize(range.len() * width, 0.0);
                of(&self.block(range, &mut rows)?, &mut out)?;
                let mut place = places[c].lock().unwrap_or_else(|p| p.into_inner());
                place.iter_mut().zip(&out).for_each(|(y, v)| *y = Y::rounded(*v));
            }
            Ok(())
        })
    }

    /// Computes as many singles for each row as it has numbers, in parallel blocks of rows. `of`
    /// gets rows and the place for their results.
    ///
    /// # Errors
    /// Fails if the type of `x` is one that no prototype allows.
    pub fn to_singles<X: Feature>(&self, y: &mut [f32], of: impl Fn(&Block<'_, X>, &mut [f32]) + Sync) -> Result<()> {
        if self.width == 0 {
            return Ok(());
        }
        let block = (PART / self.width).max(1);
        let places: Vec<Mutex<&mut [f32]>> = y.chunks_mut(block * self.width).map(Mutex::new).collect();
        parallel_for(places.len(), 1, |blocks| {
            let mut rows = Vec::new();
            for c in blocks {
                let range = c * block..((c + 1) * block).min(self.count);
                let mut place = places[c].lock().unwrap_or_else(|p| p.into_inner());
                of(&self.block(range, &mut rows)?, &mut place);
            }
            Ok(())
        })
    }
}

/// Numbers per part of a parallel loop over short rows.
const PART: usize = 1 << 14;

/// Number of rows per part of a parallel loop.
pub const CHUNK: usize = 64;
