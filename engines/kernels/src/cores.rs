//! How many processors the program may use.
use std::sync::LazyLock;

/// As many as the system gives the program, asked once: the answer is read from several files.
pub fn cores() -> usize {
    static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *CORES
}
