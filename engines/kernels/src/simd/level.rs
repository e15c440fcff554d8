//! Detection of the machine's instruction sets, done once.
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that kernels are compiled for. For single precision, the choice changes only
/// the speed, not the bits of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// The instructions that the target always has.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, in addition to [`Level::Avx2`].
    Avx512,
    /// The AVX-512 dot product of bytes (VNNI), in addition to [`Level::Avx512`].
    Vnni,
    /// The AVX-512 dot product of bf16 halves, in addition to [`Level::Vnni`].
    Bf16,
    /// AMX tiles of bytes and of bf16 halves, in addition to [`Level::Bf16`].
    Amx,
}

impl Level {
    /// The levels that this machine supports, lowest first.
    pub fn available() -> Vec<Level> {
        Level::ALL.into_iter().filter(|&l| l <= detect()).collect()
    }

    /// All levels, lowest first.
    pub const ALL: [Level; 6] = [Level::Scalar, Level::Avx2, Level::Avx512, Level::Vnni, Level::Bf16, Level::Amx];

    /// The level with this name: `plain`, `avx2`, `avx512`, `vnni`, `bf16` or `amx`.
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name() == name)
    }

    /// The name of the level, as [`Level::named`] accepts it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "plain",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Vnni => "vnni",
            Level::Bf16 => "bf16",
            Level::Amx => "amx",
        }
    }
}

fn detect() -> Level {
    static FOUND: AtomicU8 = AtomicU8::new(0);
    if let Some(known) = usize::from(FOUND.load(Ordering::Relaxed)).checked_sub(1).and_then(|i| Level::ALL.get(i)) {
        return *known;
    }
    let found = ask();
    FOUND.store(found as u8 + 1, Ordering::Relaxed);
    found
}

#[cfg(target_arch = "x86_64")]
fn ask() -> Level {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let (vnni, bf16) = (is_x86_feature_detected!("avx512vnni"), is_x86_feature_detected!("avx512bf16"));
    match (avx2, avx512, vnni) {
        (true, true, true) if bf16 && crate::amx::detect::found() => Level::Amx,
        (true, true, true) if bf16 => Level::Bf16,
        (true, true, true) => Level::Vnni,
        (true, true, false) => Level::Avx512,
        (true, false, _) => Level::Avx2,
        _ => Level::Scalar,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ask() -> Level {
    Level::Scalar
}

/// True if the AVX-512 dot product of bytes exists and the level in use allows it.
pub(crate) fn vnni() -> bool {
    level() >= Level::Vnni
}

/// True if the AVX-512 dot product of bf16 halves exists and the level in use allows it.
pub(crate) fn bf16() -> bool {
    level() >= Level::Bf16
}

/// True if AMX tiles exist and the level in use allows them.
pub(crate) fn amx() -> bool {
    level() >= Level::Amx
}

thread_local! {
    static CAP: Cell<Level> = const { Cell::new(Level::Amx) };
}

/// The level that kernels use on this thread: the machine's best, unless [`with_level`] lowers it.
#[inline]
pub fn level() -> Level {
    detect().min(CAP.get())
}

/// Runs `f` with the kernels on this thread limited to the level `cap`, to compare levels.
pub fn with_level<R>(cap: Level, f: impl FnOnce() -> R) -> R {
    struct Restore(Level);
    impl Drop for Restore {
        fn drop(&mut self) {
            CAP.set(self.0);
        }
    }
    let _restore = Restore(CAP.replace(cap));
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_holds_inside_and_ends_outside() {
        let before = level();
        assert_eq!(with_level(Level::Scalar, level), Level::Scalar);
        assert_eq!(level(), before);
        assert_eq!(Level::available()[0], Level::Scalar);
    }

    #[test]
    fn every_level_has_a_name_of_its_own() {
        for level in Level::ALL {
            assert_eq!(Level::named(level.name()), Some(level));
        }
        assert_eq!(Level::named("sse9"), None);
        assert!(Level::ALL.is_sorted() && Level::available().iter().zip(Level::ALL).all(|(a, b)| *a == b));
    }
}
