//! The copy of a strip of bytes: four channels of a place side by side, borders at the zero point.
use crate::conv::image::{Image, SourceRows};

crate::multiversion! {
    /// Copies what output rows `y.0..y.1` of depth `z` need of `deep` channels; `x` begins at the
    /// first of them. Bytes go through an exclusive or with `flip`; the border is `zero`; channels
    /// beyond the last, read from `blank`, are zero after the flip.
    pub(super) fn fill(image: &Image, x: &[u8], at: (usize, usize, (usize, usize)), bytes: (u8, u8), blank: &[u8], copy: &mut [u32]) {
        let ((deep, z, y), (flip, zero)) = (at, bytes);
        let size: usize = image.spec.input.iter().product();
        let width = image.spec.input[2];
        let (before, step) = image.columns();
        for four in 0..deep.div_ceil(4) {
            let present = (deep - four * 4).min(4);
            let mut border = [0; 4];
            border[..present].fill(zero);
            let border = u32::from_le_bytes(border);
            let x = &x[four * 4 * size..];
            image.rows(four, z, y, copy, Woven { x, size, width, present, blank, flip: u32::from_le_bytes([flip; 4]), border, before, step });
        }
    }
}

/// Four channels, of which some may not be there.
struct Woven<'p> {
    x: &'p [u8],
    /// Bytes of a channel and of a row.
    size: usize,
    width: usize,
    present: usize,
    blank: &'p [u8],
    flip: u32,
    border: u32,
    before: isize,
    step: usize,
}

impl SourceRows<u32> for Woven<'_> {
    #[inline(always)]
    fn fill(&mut self, from: Option<usize>, phase: usize, row: &mut [u32]) {
        let Some(at) = from else { return row.fill(self.border) };
        let blank = &self.blank[..self.width];
        let mut rows = [blank; 4];
        for (q, r) in rows.iter_mut().enumerate().take(self.present) {
            *r = &self.x[q * self.size + at..][..self.width];
        }
        let (n, step, from) = (row.len(), self.step, phase as isize - self.before);
        let lead = ((-from).max(0) as usize).div_ceil(step).min(n);
        let start = ((from + (lead * step) as isize).max(0) as usize).min(self.width);
        let len = (self.width - start).div_ceil(step).min(n - lead);
        row[..lead].fill(self.border);
        row[lead + len..].fill(self.border);
        weave(rows.map(|r| &r[start..]), self.flip, step, &mut row[lead..lead + len]);
    }
}

/// `row[i]` is byte `i * step` of each of four rows, side by side.
#[inline(always)]
fn weave([a, b, c, d]: [&[u8]; 4], flip: u32, step: usize, row: &mut [u32]) {
    let of = |a: u8, b: u8, c: u8, d: u8| {
        (u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16 | u32::from(d) << 24) ^ flip
    };
    if step == 1 {
        for ((((r, a), b), c), d) in row.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *r = of(*a, *b, *c, *d);
        }
    } else if step == 2 {
        // Pairs let the compiler see the pattern.
        let [p, q, s, t] = [a, b, c, d].map(|r| r.as_chunks::<2>().0);
        for ((((r, a), b), c), d) in row.iter_mut().zip(p).zip(q).zip(s).zip(t) {
            *r = of(a[0], b[0], c[0], d[0]);
        }
        if let Some(r) = row.get_mut(p.len()) {
            let i = p.len() * 2;
            *r = of(a[i], b[i], c[i], d[i]);
        }
    } else {
        for (i, r) in row.iter_mut().enumerate() {
            *r = of(a[i * step], b[i * step], c[i * step], d[i * step]);
        }
    }
}
