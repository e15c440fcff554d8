//! Transposed convolutions with steps, in single precision: one product gives what every place of
//! the input adds to the places of its window, and rows of that are added where they belong. The
//! columns of the result are kept apart by their place in a step, so that what is added stands side by
//! side; they are woven in the end.
//!
//! Places of the result are counted with the border in front: `Y = y + pad`, `X = x + pad`. Place
//! `(i, j)` of the input adds tap `(ky, kx)` to `Y = i * stride + ky * dilation`, likewise `X`.
use crate::conv::finish::{Runs, finish};
use crate::conv::spec::ConvSpec;
use crate::gemm::{BMatrix, Epilogue, Gemm, GemmError, Matrix};
use crate::view::Out;
use std::ops::Range;

/// Input channels of a group from which the product is worth its while.
const DEEP: usize = 4;
/// Numbers of a product at most, unless one row of the input has more: they stay in the second cache.
const PRODUCT: usize = 96 * 1024;
/// Numbers of working memory at most.
const MOST: usize = 1 << 26;

/// Some output channels of one group and image.
pub(crate) struct Scatter<'p, 'a> {
    pub(crate) spec: &'p ConvSpec,
    /// Height and width of the output.
    pub(crate) size: [usize; 2],
    pub(crate) n: usize,
    pub(crate) channels: Range<usize>,
    pub(crate) x: &'a [f32],
    pub(crate) w: &'a [f32],
    pub(crate) epilogue: &'p Epilogue<'a, f32>,
}

/// Whether such units of `block` output channels compute a convolution.
pub(crate) fn takes(s: &ConvSpec, out: [usize; 3], block: usize) -> bool {
    let flat = s.input[0] == 1 && s.kernel[0] == 1 && out[0] == 1 && s.pad_before[0] == 0;
    let steps = s.transposed.is_some() && s.stride[1].saturating_mul(s.stride[2]) > 1;
    let sums = block.saturating_mul(out[1]).saturating_mul(columns(s)).saturating_mul(s.stride[2]);
    let row = block.saturating_mul(s.taps()).saturating_mul(s.input[2]);
    flat && steps && s.channels_in / s.groups >= DEEP && sums.max(row) <= MOST
}

/// Columns of the result that have one place in a step, border and all.
fn columns(s: &ConvSpec) -> usize {
    s.input[2].saturating_add((s.kernel[2] - 1).saturating_mul(s.dilation[2]) / s.stride[2])
}

impl Scatter<'_, '_> {
    /// Computes them.
    ///
    /// # Errors
    /// None that a planned convolution has.
    pub(crate) fn run(&self, out: &mut Out<'_, f32>) -> Result<(), GemmError> {
        if self.is_apart() { self.run_apart(out) } else { self.run_sums(out) }
    }

    /// Whether each place of the result is one of one window.
    fn is_apart(&self) -> bool {
        let s = self.spec;
        let covered = |axis: usize, size: usize| {
            let alone = s.kernel[axis] == s.stride[axis] && (s.dilation[axis] == 1 || s.kernel[axis] == 1);
            alone && s.pad_before[axis] == 0 && size == s.input[axis] * s.kernel[axis]
        };
        covered(1, self.size[0]) && covered(2, self.size[1])
    }

    /// The product, some rows of the input at a time: `f` gets the first of them, their number, and
    /// for each output channel and each tap what every place of them adds.
    fn products(&self, mut f: impl FnMut(usize, usize, &[f32])) -> Result<(), GemmError> {
        let s = self.spec;
        let [_, high, wide] = s.input;
        let (own, cin, taps) = (s.channels_out / s.groups, s.channels_in / s.groups, s.taps());
        let (group, first) = (self.channels.start / own, self.channels.start % own);
        let block = self.channels.len();
        let rows = (PRODUCT / (block * taps * wide).max(1)).clamp(1, high);
        let mut product = vec![0.0f32; block * taps * rows * wide];
        for top in (0..high).step_by(rows) {
            let rows = rows.min(high - top);
            let len = rows * wide;
            let a = (group * cin * own + first) * taps;
            let b = (self.n * s.channels_in + group * cin) * high * wide + top * wide;
            let (a_form, b_form) = (Matrix { row: 1, col: own * taps }, BMatrix::Plain(Matrix::rows(high * wide)));
            let gemm = Gemm::new([block * taps, len, cin], a_form, b_form, vec![[a, b]])?;
            let product = &mut product[..block * taps * len];
            gemm.run(0..gemm.units(), self.w, self.x, &Epilogue::default(), &mut Out::new(&mut *product))?;
            f(top, rows, product);
        }
        Ok(())
    }

    /// Where nothing is added up, what comes of a row of the input is woven into rows of the result.
    fn run_apart(&self, out: &mut Out<'_, f32>) -> Result<(), GemmError> {
        let s = self.spec;
        let ([height, width], wide, [_, down, across]) = (self.size, s.input[2], s.kernel);
        let mut strip = Vec::new();
        self.products(|top, rows, product| {
            strip.resize(rows * down * width, 0.0);
            let len = rows * wide;
            for (o, product) in self.channels.clone().zip(product.chunks_exact(down * across * len)) {
                for (y, to) in strip.chunks_exact_mut(width).enumerate() {
                    let from = |kx: usize| &product[(y % down * across + kx) * len + y / down * wide..][..wide];
                    if across == 2 {
                        weave(from(0), from(1), to);
                    } else {
                        (0..across).for_each(|kx| spread(from(kx), across, &mut to[kx..]));
                    }
                }
                let at = ((self.n * s.channels_out + o) * height + top * down) * width;
                let runs = Runs { count: rows * down, len: width, pitch: width };
                finish(self.epilogue, o, runs, &mut strip, out, at);
            }
        })
    }

    fn run_sums(&self, out: &mut Out<'_, f32>) -> Result<(), GemmError> {
        let s = self.spec;
        let (wide, [height, width], taps) = (s.input[2], self.size, s.taps());
        let (step, columns) = (s.stride[2], columns(s));
        let row = step * columns;
        let mut sums = vec![0.0f32; self.channels.len() * height * row];
        self.products(|top, rows, product| {
            let len = rows * wide;
            for (sums, product) in sums.chunks_exact_mut(height * row).zip(product.chunks_exact(taps * len)) {
                for (tap, product) in product.chunks_exact(len).enumerate() {
                    let (ky, kx) = (tap / s.kernel[2] * s.dilation[1], tap % s.kernel[2] * s.dilation[2]);
                    let at = kx % step * columns + kx / step;
                    for (i, from) in (top..).zip(product.chunks_exact(wide)) {
                        // Rows of the border are not kept.
                        let y = (i * s.stride[1] + ky).checked_sub(s.pad_before[1]).filter(|y| *y < height);
                        if let Some(y) = y {
                            add(from, &mut sums[y * row + at..][..wide]);
                        }
                    }
                }
            }
        })?;
        let mut plane = vec![0.0f32; height * width];
        for (o, sums) in self.channels.clone().zip(sums.chunks_exact(height * row)) {
            for (sums, to) in sums.chunks_exact(row).zip(plane.chunks_exact_mut(width.max(1))) {
                // The columns that are `step` apart, from column `x` of the result on.
                let from = |x: usize| {
                    let column = x + s.pad_before[2];
                    &sums[column % step * columns..][..columns][(column / step).min(columns)..]
                };
                if step == 2 && width > 1 {
                    weave(from(0), from(1), to);
                    continue;
                }
                for x in 0..step.min(width) {
                    spread(from(x), step, &mut to[x..]);
                }
            }
            let at = (self.n * s.channels_out + o) * height * width;
            let runs = Runs { count: height, len: width, pitch: width };
            finish(self.epilogue, o, runs, &mut plane, out, at);
        }
        Ok(())
    }
}

crate::multiversion! {
    fn add(x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += x;
        }
    }
}

crate::multiversion! {
    /// Numbers to every second place each, zero where there are none left.
    fn weave(even: &[f32], odd: &[f32], y: &mut [f32]) {
        let both = even.len().min(odd.len()).min(y.len() / 2);
        let (pairs, rest) = y.split_at_mut(2 * both);
        for ((y, a), b) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
            *y = [*a, *b];
        }
        for (k, y) in rest.iter_mut().enumerate() {
            let from = if k.is_multiple_of(2) { even } else { odd };
            *y = from.get(both + k / 2).copied().unwrap_or(0.0);
        }
    }
}

/// Numbers to every `step`-th place, zero where there are none left.
fn spread(x: &[f32], step: usize, y: &mut [f32]) {
    let mut from = x.iter();
    for y in y.iter_mut().step_by(step) {
        *y = from.next().copied().unwrap_or(0.0);
    }
}
