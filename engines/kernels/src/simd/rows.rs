//! Addresses of rows that a register tile reads side by side, one number of each at a time.

use crate::simd::isa::Isa;

/// Steps between two updates of the addresses.
pub(crate) const STEPS: usize = 2;
/// Rows that share one address: one or two strides are added to it as part of an instruction.
const SHARED: usize = 3;

/// Addresses of `R` rows, one for each [`SHARED`] of them. The compiler is kept from computing each
/// row's address with instructions of its own, which would take the place of multiply-adds on
/// machines that start two of them in a cycle.
pub(crate) struct Rows<T, const R: usize> {
    first: [*const T; R],
    stride: usize,
}

impl<T, const R: usize> Rows<T, R> {
    /// Rows that are `stride` numbers apart.
    #[inline(always)]
    pub(crate) fn of(data: *const T, stride: usize) -> Rows<T, R> {
        Rows { first: std::array::from_fn(|g| data.wrapping_add(g * SHARED * stride)), stride }
    }

    /// Keeps the compiler from carrying what it knows of the addresses into the next steps.
    #[inline(always)]
    pub(crate) fn hide(&mut self) {
        for p in &mut self.first[..R.div_ceil(SHARED)] {
            *p = hidden(*p);
        }
    }

    /// Moves all rows forward.
    #[inline(always)]
    pub(crate) fn advance(&mut self, steps: usize) {
        for p in &mut self.first[..R.div_ceil(SHARED)] {
            *p = p.wrapping_add(steps);
        }
    }

    /// The address of the number of row `i` that is `step` numbers further on.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize, step: usize) -> *const T {
        self.first[i / SHARED].wrapping_add(i % SHARED * self.stride + step)
    }
}

impl<const R: usize> Rows<f32, R> {
    /// Adds the products of each row's number `step` and some vectors to the row's sums.
    ///
    /// # Safety
    /// The rows must have a number there.
    #[inline(always)]
    pub(crate) unsafe fn add_products<I: Isa, const N: usize>(
        &self,
        isa: I,
        step: usize,
        col: [I::V; N],
        acc: &mut [[I::V; N]; R],
    ) {
        for (i, row) in acc.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller.
            let x = isa.splat(unsafe { *self.at(i, step) });
            for (v, w) in row.iter_mut().zip(col) {
                *v = isa.fma(x, w, *v);
            }
        }
    }
}

/// The same address, of which the compiler forgets how it was computed.
#[inline(always)]
fn hidden<T>(at: *const T) -> *const T {
    #[cfg(target_arch = "x86_64")]
    {
        let mut place = at.expose_provenance();
        // SAFETY: the empty instruction changes nothing.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) place, options(pure, nomem, nostack, preserves_flags)) };
        std::ptr::with_exposed_provenance(place)
    }
    #[cfg(not(target_arch = "x86_64"))]
    at
}
