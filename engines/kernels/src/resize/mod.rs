//! Resizing of tensors along some of their axes: nearest places, straight lines, cubic curves.
//!
//! A plan sees the output as rows: what stands before the last resized axis says which row, and a row
//! is that axis with all axes behind it. A unit of work is a row. Filters are separable: a row of the
//! output is made of the rows of the input that it reads, added with their weights, and that sum is
//! then resized along the row.

/// Places and weights of one axis.
mod axis;
/// Rows of nearest places.
mod copy;
/// Rows of weighted sums.
mod filter;
/// The last axis of a weighted sum.
mod along;
/// The same with registers that are permuted.
#[cfg(target_arch = "x86_64")]
mod permute;
#[cfg(test)]
mod tests;

pub use axis::{Axis, Coordinates, Filter, Method, Rounding};

use crate::view::{Elem, Out};
use std::ops::Range;
use std::sync::OnceLock;

/// Rows of fewer elements than this behind each place are resized element by element.
const WIDE: usize = 16;

/// An axis before the rows.
#[derive(Clone, Copy, Debug)]
struct Lead {
    from: usize,
    to: usize,
    /// How it is resized; `None`: it stays as it is.
    axis: Option<Axis>,
}

/// The plan of a resizing.
pub struct Resizing {
    method: Method,
    /// The axes before the rows.
    lead: Vec<Lead>,
    /// The axis that rows are resized along; `None`: they stay as they are.
    along: Option<Axis>,
    /// Elements of each place of a row, or of a whole row that stays as it is.
    inner: usize,
    tables: OnceLock<Tables>,
}

/// Places and weights, made by the first run.
enum Tables {
    Copy(copy::Table),
    Filter(filter::Table),
}

impl Resizing {
    /// The plan for a tensor of this shape, whose axes are resized as they are listed: one for each
    /// axis, `None` where it stays as it is.
    pub fn new(method: Method, shape: &[usize], axes: &[Option<Axis>]) -> Resizing {
        let resized = |axis: &Option<Axis>| axis.filter(|a| !a.is_kept());
        let axes: Vec<Option<Axis>> = axes.iter().map(resized).collect();
        let last = axes.iter().rposition(Option::is_some);
        let inner: usize = shape[last.map_or(0, |l| l + 1)..].iter().product();
        let count = axes.iter().flatten().count();
        // One axis whose places are wide themselves: its rows are added as they are.
        let by_rows = last.is_some() && count == 1 && inner >= WIDE;
        let rows = last.map_or(0, |l| if by_rows { l + 1 } else { l });
        let mut lead: Vec<Lead> = Vec::new();
        for (&n, axis) in shape.iter().zip(&axes).take(rows) {
            match (axis, lead.last_mut()) {
                (None, Some(Lead { from, to, axis: None })) => {
                    *from *= n;
                    *to *= n;
                }
                (axis, _) => lead.push(Lead { from: n, to: axis.map_or(n, |a| a.to), axis: *axis }),
            }
        }
        let along = last.filter(|_| !by_rows).and_then(|l| axes[l]);
        Resizing { method, lead, along, inner, tables: OnceLock::new() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lead.iter().map(|l| l.to).product()
    }

    /// Elements of an output row.
    pub fn width(&self) -> usize {
        self.along.map_or(1, |a| a.to) * self.inner
    }

    /// Elements of an input row.
    fn input_width(&self) -> usize {
        self.along.map_or(1, |a| a.from) * self.inner
    }

    /// Products of a weight and an element for an output element, about.
    pub fn taps(&self) -> usize {
        let each = |a: &Axis| {
            let places = match self.method.filter {
                Filter::Nearest(_) => 1.0,
                Filter::Linear => 2.0,
                Filter::Cubic(_) => 4.0,
            };
            let wider = if self.method.antialias { a.scale.clamp(1e-6, 1.0) } else { 1.0 };
            (places / wider) as usize
        };
        self.lead.iter().filter_map(|l| l.axis).chain(self.along).map(|a| each(&a)).sum()
    }

    fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| match self.method.filter {
            Filter::Nearest(rounding) => Tables::Copy(copy::Table::new(self, rounding)),
            _ => Tables::Filter(filter::Table::new(self)),
        })
    }

    /// Does the rows of `units`, of nearest places: elements are copied, and `beyond` stands where
    /// a row or a place lies outside.
    pub fn copy<T: Elem>(&self, units: Range<usize>, x: &[T], beyond: T, out: &mut Out<'_, T>) {
        if let Tables::Copy(table) = self.tables() {
            table.run(self, units, x, beyond, out);
        }
    }

    /// Does the rows of `units`, of weighted sums in single precision: f32, f16, bf16, u8 or i8.
    pub fn filter<T: Elem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        if let Tables::Filter(table) = self.tables() {
            table.run(self, units, x, out);
        }
    }
}
