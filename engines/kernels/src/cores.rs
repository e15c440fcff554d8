//! Number of processors that the program may use.
use std::sync::LazyLock;

/// Number of processors that the system gives the program, or 1 if unknown. It is determined once,
/// because the system call reads several files.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *CORES
}
