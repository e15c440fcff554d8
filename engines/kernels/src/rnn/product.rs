//! Products of rows of states and packed weights, added to rows of gates, in register tiles over
//! panels whose rows are strided.
use crate::rnn::pack::LANES;
use crate::simd::isa::{Isa, PanelElem, Work};

/// `to[i][block][first + gate] += a[i] * weights[block][gate]` for a section of weights (`pack`).
pub(crate) struct Product<'a, T> {
    /// Rows of states, `a_row` apart; the first `k` numbers of each are used.
    pub(crate) a: &'a [f32],
    pub(crate) a_row: usize,
    pub(crate) rows: usize,
    pub(crate) k: usize,
    /// `blocks` blocks of `k` rows of `gates` panels.
    pub(crate) weights: &'a [T],
    pub(crate) blocks: usize,
    pub(crate) gates: usize,
    /// Rows of gates, `to_row` apart. The section's gates of a block are contiguous; consecutive
    /// blocks are `to_block` apart.
    pub(crate) to: &'a mut [f32],
    pub(crate) to_row: usize,
    pub(crate) to_block: usize,
    /// Whether panels are processed from the last to the first.
    pub(crate) backwards: bool,
}

impl<T: PanelElem> Work for Product<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(mut self, isa: I) {
        if self.k == 0 || self.blocks == 0 || self.rows == 0 {
            return;
        }
        assert!(self.a.len() >= (self.rows - 1) * self.a_row + self.k);
        assert!(self.weights.len() >= self.blocks * self.k * self.gates * LANES);
        let reach = (self.rows - 1) * self.to_row + (self.blocks - 1) * self.to_block + self.gates * LANES;
        assert!(self.to.len() >= reach);
        let main = self.rows / MR * MR;
        let four = main + (self.rows - main) / 4 * 4;
        for i in (0..main).step_by(MR) {
            self.strip::<I, MR, NP>(isa, i);
        }
        for i in (main..four).step_by(4) {
            self.strip::<I, 4, N4>(isa, i);
        }
        match self.rows - four {
            3 => self.strip::<I, 3, N4>(isa, four),
            2 => self.strip::<I, 2, N4>(isa, four),
            1 => self.strip::<I, 1, N1>(isa, four),
            _ => {}
        }
    }
}

impl<T: PanelElem> Product<'_, T> {
    /// Multiplies rows `i..i + R` with all panels.
    #[inline(always)]
    fn strip<I: Isa, const R: usize, const N: usize>(&mut self, isa: I, i: usize) {
        let panels = self.blocks * self.gates;
        let groups = panels / N;
        for g in 0..groups {
            let g = if self.backwards { groups - 1 - g } else { g };
            self.micro::<I, R, N>(isa, i, g * N);
        }
        for p in groups * N..panels {
            self.micro::<I, R, 1>(isa, i, p);
        }
    }

    /// Multiplies rows `i..i + R` with panels `p..p + N`.
    #[inline(always)]
    fn micro<I: Isa, const R: usize, const N: usize>(&mut self, isa: I, i: usize, p: usize) {
        let step = self.gates * LANES;
        let mut from = [self.weights.as_ptr(); N];
        let mut to = [0usize; N];
        for n in 0..N {
            let (block, gate) = ((p + n) / self.gates, (p + n) % self.gates);
            // SAFETY: the panel is within `weights`, whose length was asserted.
            from[n] = unsafe { self.weights.as_ptr().add(block * self.k * step + gate * LANES) };
            to[n] = block * self.to_block + gate * LANES;
        }
        let mut acc = [[isa.splat(0.0); N]; R];
        for (r, row) in acc.iter_mut().enumerate() {
            for (v, at) in row.iter_mut().zip(to) {
                // SAFETY: rows and panels are within `to`, as was asserted.
                *v = isa.load(unsafe { &*self.to.as_ptr().add((i + r) * self.to_row + at).cast() });
            }
        }
        for k in 0..self.k {
            let mut b = [isa.splat(0.0); N];
            for (b, from) in b.iter_mut().zip(from) {
                // SAFETY: row `k` of the panel is within `weights`, as was asserted.
                *b = T::lanes(isa, unsafe { &*from.add(k * step).cast() });
            }
            for (r, row) in acc.iter_mut().enumerate() {
                // SAFETY: `k` numbers of each row can be read, as was asserted.
                let x = isa.splat(unsafe { *self.a.get_unchecked((i + r) * self.a_row + k) });
                for (v, b) in row.iter_mut().zip(b) {
                    *v = isa.fma(x, b, *v);
                }
            }
        }
        for (r, row) in acc.iter().enumerate() {
            for (v, at) in row.iter().zip(to) {
                // SAFETY: the same positions were loaded above.
                isa.store(*v, unsafe { &mut *self.to.as_mut_ptr().add((i + r) * self.to_row + at).cast() });
            }
        }
    }
}
