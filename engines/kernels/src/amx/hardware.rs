//! The tile instructions as inline assembly, because the compiler's intrinsics for them are not
//! stable.
//!
//! The compiler itself never uses tiles, so their contents survive from one instruction to the
//! next. Each instruction still declares the tile that it changes.
use super::{BYTES, Dot, Kind, ROWS, Shapes, TILES, Tiles, detect, holds};
use crate::view::Elem;
use std::arch::asm;
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// The tiles of this thread.
pub(crate) struct Hardware {
    shapes: Shapes,
    /// Not `Send`: tiles belong to a thread.
    here: PhantomData<*mut ()>,
}

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    none: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

impl Hardware {
    /// Configures tiles of these shapes without checking that the machine has them.
    ///
    /// # Safety
    /// The machine must have tiles, and the process must be allowed to use them.
    pub(super) unsafe fn configure_unasked(shapes: &Shapes) -> Hardware {
        assert!(!TAKEN.replace(true), "tiles of this thread are taken");
        let mut config = Config { palette: 1, start: 0, none: [0; 14], bytes: [0; 16], rows: [0; 16] };
        for (at, &(rows, bytes)) in shapes.iter().enumerate() {
            assert!(rows <= ROWS && bytes <= BYTES && bytes.is_multiple_of(4) && (rows == 0) == (bytes == 0));
            (config.rows[at], config.bytes[at]) = (rows as u8, bytes as u16);
        }
        // SAFETY: the caller guarantees that the machine has tiles, and the shapes are within
        // limits.
        unsafe { asm!("ldtilecfg [{c}]", c = in(reg) &config, options(nostack, readonly, preserves_flags)) };
        Hardware { shapes: *shapes, here: PhantomData }
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        // SAFETY: the tiles were configured by this thread.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
        TAKEN.set(false);
    }
}

/// An instruction that changes tile `$t`, with that change declared to the compiler.
macro_rules! changing {
    ($t:expr, $instruction:literal, $rest:literal $(, $($more:tt)*)?) => {
        match $t {
            0 => asm!(concat!($instruction, " tmm0", $rest) $(, $($more)*)?, out("tmm0") _),
            1 => asm!(concat!($instruction, " tmm1", $rest) $(, $($more)*)?, out("tmm1") _),
            2 => asm!(concat!($instruction, " tmm2", $rest) $(, $($more)*)?, out("tmm2") _),
            3 => asm!(concat!($instruction, " tmm3", $rest) $(, $($more)*)?, out("tmm3") _),
            4 => asm!(concat!($instruction, " tmm4", $rest) $(, $($more)*)?, out("tmm4") _),
            5 => asm!(concat!($instruction, " tmm5", $rest) $(, $($more)*)?, out("tmm5") _),
            6 => asm!(concat!($instruction, " tmm6", $rest) $(, $($more)*)?, out("tmm6") _),
            _ => asm!(concat!($instruction, " tmm7", $rest) $(, $($more)*)?, out("tmm7") _),
        }
    };
}

impl Tiles for Hardware {
    fn configure(shapes: &Shapes) -> Hardware {
        assert!(detect::found(), "this machine has no tiles");
        // SAFETY: it was just checked.
        unsafe { Hardware::configure_unasked(shapes) }
    }

    #[inline(always)]
    fn zero<const T: usize>(&mut self) {
        // SAFETY: a `Hardware` only exists if the machine has tiles, and they are configured.
        unsafe { changing!(T, "tilezero", "", options(nostack, nomem, preserves_flags)) };
    }

    #[inline(always)]
    fn load<const T: usize, E: Elem>(&mut self, from: &[E], stride: usize) {
        assert!(holds(self.shapes[T], from.len(), size_of::<E>(), stride));
        // SAFETY: the rows are within the slice.
        unsafe { self.load_from::<T, E>(from.as_ptr(), stride) }
    }

    #[inline(always)]
    unsafe fn load_from<const T: usize, E: Elem>(&mut self, p: *const E, stride: usize) {
        // SAFETY: as in `zero`; the caller guarantees that the rows can be read.
        unsafe {
            changing!(T, "tileloadd", ", [{p} + {s}]", p = in(reg) p, s = in(reg) stride * size_of::<E>(),
                options(nostack, readonly, preserves_flags))
        };
    }

    #[inline(always)]
    unsafe fn load_once<const T: usize, E: Elem>(&mut self, p: *const E, stride: usize) {
        if !p.addr().is_multiple_of(BYTES) {
            // Each row is in two cache lines, which such a load would fetch again for the next row.
            // SAFETY: guaranteed by the caller.
            return unsafe { self.load_from::<T, E>(p, stride) };
        }
        // SAFETY: as in `load_from`.
        unsafe {
            changing!(T, "tileloaddt1", ", [{p} + {s}]", p = in(reg) p, s = in(reg) stride * size_of::<E>(),
                options(nostack, readonly, preserves_flags))
        };
    }

    #[inline(always)]
    fn store<const T: usize, E: Elem>(&mut self, to: &mut [E], stride: usize) {
        assert!(holds(self.shapes[T], to.len(), size_of::<E>(), stride));
        let (p, s) = (to.as_mut_ptr(), stride * size_of::<E>());
        // SAFETY: as in `zero`; the rows are within the slice.
        unsafe {
            asm!("tilestored [{p} + {s}], tmm{t}", p = in(reg) p, s = in(reg) s, t = const T,
                options(nostack, preserves_flags))
        };
    }

    #[inline(always)]
    fn dot<D: Dot, const C: usize, const A: usize, const B: usize>(&mut self) {
        const { assert!(C < TILES && A < TILES && B < TILES && C != A && C != B && A != B) };
        // SAFETY: as in `zero`; the machine checks that the shapes fit together.
        unsafe {
            match D::KIND {
                Kind::UnsignedSigned => changing!(C, "tdpbusd", ", tmm{a}, tmm{b}", a = const A, b = const B,
                    options(nostack, nomem, preserves_flags)),
                Kind::Signed => changing!(C, "tdpbssd", ", tmm{a}, tmm{b}", a = const A, b = const B,
                    options(nostack, nomem, preserves_flags)),
                Kind::SignedUnsigned => changing!(C, "tdpbsud", ", tmm{a}, tmm{b}", a = const A, b = const B,
                    options(nostack, nomem, preserves_flags)),
                Kind::Bf16 => changing!(C, "tdpbf16ps", ", tmm{a}, tmm{b}", a = const A, b = const B,
                    options(nostack, nomem, preserves_flags)),
            }
        }
    }
}
