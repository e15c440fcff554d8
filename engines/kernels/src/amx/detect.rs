//! Detection of AMX tiles: whether the machine has them, lets the process use them, and computes
//! correctly with them.
//!
//! Three conditions must hold: the processor has the instructions; the system saves tiles when it
//! switches threads and permits this process to use them (Linux grants that on request, once for
//! all threads, unless a thread's signal stack is too small for tiles); and a small product of
//! every kind gives the right result. Otherwise tiles are not used.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use linux::found;

/// Whether tiles can be used.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn found() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod linux {
    use crate::amx::hardware::Hardware;
    use crate::amx::software::Software;
    use crate::amx::{BYTES, Bf16, Dot, ROWS, Shapes, Signed, SignedUnsigned, TILES, Tiles, UnsignedSigned};
    use half::bf16;
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::OnceLock;

    /// Whether tiles can be used; checked once per process.
    pub(crate) fn found() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        // SAFETY: if the first three conditions hold, the machine has tiles and the process may use
        // them.
        *FOUND.get_or_init(|| processor() && kept() && permitted() && unsafe { computes_right() })
    }

    /// Leaf 7, EDX: AMX-BF16, AMX-TILE, AMX-INT8. Leaf 29: tiles of the first palette have the
    /// sizes that the kernels assume.
    fn processor() -> bool {
        const NEEDED: u32 = 1 << 22 | 1 << 24 | 1 << 25;
        let deepest = __cpuid(0).eax;
        if deepest < 29 || __cpuid_count(7, 0).edx & NEEDED != NEEDED {
            return false;
        }
        let palette = __cpuid_count(29, 1);
        let sizes = [palette.eax >> 16, palette.ebx & 0xffff, palette.ebx >> 16, palette.ecx & 0xffff];
        sizes.map(|v| v as usize) == [ROWS * BYTES, BYTES, TILES, ROWS]
    }

    /// Whether the system saves the configuration and the tiles (XCR0, bits 17 and 18).
    fn kept() -> bool {
        const KEPT: u32 = 1 << 17 | 1 << 18;
        if __cpuid(1).ecx >> 27 & 1 == 0 {
            return false;
        }
        let (low, _high): (u32, u32);
        // SAFETY: OSXSAVE is set, so the register can be read.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _high, options(nostack, nomem, preserves_flags));
        }
        low & KEPT == KEPT
    }

    /// Requests permission: `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`.
    fn permitted() -> bool {
        const ARCH_PRCTL: usize = 158;
        const REQUEST: usize = 0x1023;
        const TILE_DATA: usize = 18;
        let said: isize;
        // SAFETY: the call takes two numbers and changes no memory of this process.
        unsafe {
            asm!("syscall", inlateout("rax") ARCH_PRCTL => said, in("rdi") REQUEST, in("rsi") TILE_DATA,
                out("rcx") _, out("r11") _, options(nostack));
        }
        said == 0
    }

    /// Whether a small product of every kind gives the result that the manual specifies.
    ///
    /// # Safety
    /// The machine must have tiles, and the process must be allowed to use them.
    unsafe fn computes_right() -> bool {
        let bytes: Vec<u8> = (0..ROWS * BYTES).map(|i| (i * 167 + i / 7) as u8).collect();
        let signed: Vec<i8> = bytes.iter().map(|v| *v as i8).collect();
        let halves: Vec<bf16> = bytes.iter().map(|v| bf16::from_f32(f32::from(*v) / 32.0 - 3.0)).collect();
        // SAFETY: guaranteed by the caller.
        unsafe {
            alike::<UnsignedSigned>(&bytes, &signed)
                && alike::<Signed>(&signed, &signed)
                && alike::<SignedUnsigned>(&signed, &bytes)
                && alike::<Bf16>(&halves, &halves)
        }
    }

    /// # Safety
    /// As for [`computes_right`].
    unsafe fn alike<D: Dot>(a: &[D::A], b: &[D::B]) -> bool {
        const SHAPES: Shapes = [(13, 60), (13, 36), (9, 60), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0)];
        // SAFETY: guaranteed by the caller.
        let got = once::<_, D>(unsafe { Hardware::configure_unasked(&SHAPES) }, a, b);
        got == once::<_, D>(Software::configure(&SHAPES), a, b)
    }

    fn once<T: Tiles, D: Dot>(mut t: T, a: &[D::A], b: &[D::B]) -> Vec<D::C> {
        let mut sums = vec![D::C::default(); ROWS * 16];
        t.load::<1, _>(a, 36 / size_of::<D::A>());
        t.load::<2, _>(b, 60 / size_of::<D::B>());
        t.zero::<0>();
        t.dot::<D, 0, 1, 2>();
        t.dot::<D, 0, 1, 2>();
        t.store::<0, _>(&mut sums, 16);
        sums
    }
}
