//! Resizing of tensors along some of their axes: nearest, linear and cubic interpolation.
//!
//! A plan sees the output as rows. A row spans the last resized axis and all axes after it; the
//! axes before it number the rows. A unit of work is a row. Filters are separable: the input rows
//! that an output row reads are added with their weights, and the sum is then resized along the
//! row. Small planes are one row each: the weights of both axes are multiplied beforehand.

/// Positions and weights of one axis.
mod axis;
/// Rows of nearest positions.
mod copy;
/// Rows of weighted sums.
mod filter;
/// Weighted sums along the last resized axis.
mod along;
/// The same with permutations of registers.
#[cfg(target_arch = "x86_64")]
mod permute;
#[cfg(test)]
mod tests;

pub use axis::{Axis, Coordinates, Filter, Method, Rounding};

use crate::view::{Elem, Out};
use std::ops::Range;
use std::sync::OnceLock;

/// If positions have fewer elements than this, rows are resized element by element.
const WIDE: usize = 16;

/// An axis before the rows.
#[derive(Clone, Copy, Debug)]
struct Lead {
    from: usize,
    to: usize,
    /// How it is resized; `None` if it is not.
    axis: Option<Axis>,
}

/// The plan of a resize operation.
pub struct Resizing {
    method: Method,
    /// The axes before the rows.
    lead: Vec<Lead>,
    /// The axis along which rows are resized; `None` if rows stay as they are.
    along: Option<Axis>,
    /// The axis before it, if a row is a small plane with both.
    above: Option<Axis>,
    /// Elements of each position of a row, or of a whole row that is not resized.
    inner: usize,
    tables: OnceLock<Tables>,
}

/// Positions and weights, computed by the first run.
enum Tables {
    Copy(copy::Table),
    Filter(filter::Table),
}

impl Resizing {
    /// Makes a plan for a tensor of this shape. `axes` has one entry per axis; `None` for an axis
    /// that is not resized.
    pub fn new(method: Method, shape: &[usize], axes: &[Option<Axis>]) -> Resizing {
        let resized = |axis: &Option<Axis>| axis.filter(|a| !a.is_kept());
        let axes: Vec<Option<Axis>> = axes.iter().map(resized).collect();
        let last = axes.iter().rposition(Option::is_some);
        let inner: usize = shape[last.map_or(0, |l| l + 1)..].iter().product();
        let count = axes.iter().flatten().count();
        // A single axis whose positions have many elements: whole rows are added.
        let by_rows = last.is_some() && count == 1 && inner >= WIDE;
        let above = last.filter(|l| *l > 0 && inner == 1 && !matches!(method.filter, Filter::Nearest(_)));
        let above = above.and_then(|l| axes[l - 1].zip(axes[l]));
        let above = above.filter(|(above, along)| along::suits_planes(above, along, &method)).map(|(above, _)| above);
        let before = if above.is_some() { 1 } else { 0 };
        let rows = last.map_or(0, |l| if by_rows { l + 1 } else { l - before });
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
        Resizing { method, lead, along, above, inner, tables: OnceLock::new() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lead.iter().map(|l| l.to).product()
    }

    /// Number of elements of an output row.
    pub fn width(&self) -> usize {
        self.along.map_or(1, |a| a.to) * self.above.map_or(1, |a| a.to) * self.inner
    }

    /// Number of elements of an input row.
    fn input_width(&self) -> usize {
        self.along.map_or(1, |a| a.from) * self.above.map_or(1, |a| a.from) * self.inner
    }

    /// Approximate number of products of a weight and an element per output element.
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
        self.lead.iter().filter_map(|l| l.axis).chain(self.along).chain(self.above).map(|a| each(&a)).sum()
    }

    fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| match self.method.filter {
            Filter::Nearest(rounding) => Tables::Copy(copy::Table::new(self, rounding)),
            _ => Tables::Filter(filter::Table::new(self)),
        })
    }

    /// Computes the rows `units` for the nearest-position filter by copying elements. Output
    /// positions outside the input get the value `beyond`. For other filters it does nothing.
    pub fn copy<T: Elem>(&self, units: Range<usize>, x: &[T], beyond: T, out: &mut Out<'_, T>) {
        if let Tables::Copy(table) = self.tables() {
            table.run(self, units, x, beyond, out);
        }
    }

    /// Computes the rows `units` as weighted sums in single precision. `T` is f32, f16, bf16, u8 or
    /// i8. For the nearest-position filter it does nothing.
    pub fn filter<T: Elem>(&self, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
        if let Tables::Filter(table) = self.tables() {
            table.run(self, units, x, out);
        }
    }
}
