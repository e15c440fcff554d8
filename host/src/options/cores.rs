//! `MAX_RUNTIME_CORE_NUMBER`: number of threads that execute a model of unknown shapes (facts 8.9).
use crate::{Diagnostic, Result};

/// Name of the environment variable.
pub const CORES: &str = "MAX_RUNTIME_CORE_NUMBER";
/// Largest number of threads accepted.
const MOST: usize = 1024;

/// Number of threads that the environment asks for; 0 if the variable is unset or empty. Below 2, a
/// model gets an executor with one thread.
///
/// # Errors
/// `usage` if the value is not a valid number of threads.
pub fn runtime_cores() -> Result<usize> {
    match std::env::var_os(CORES).filter(|v| !v.is_empty()) {
        None => Ok(0),
        Some(v) => read(&v.to_string_lossy()),
    }
}

fn read(value: &str) -> Result<usize> {
    value.trim().parse().ok().filter(|n| *n <= MOST).ok_or_else(|| {
        Diagnostic::error(format!("`{CORES}` (from the environment) has a value that is not allowed"))
            .subject(CORES)
            .found(format!("`{value}`"), format!("a number of threads, 0 to {MOST}"))
            .help("from 2 on, what does not wait for each other in a model of open sizes runs side by side")
            .raise(ge_codes::OPTION_VALUE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_threads_is_read_and_nothing_else() {
        assert_eq!([read("0").ok(), read("1").ok(), read(" 3 ").ok()], [Some(0), Some(1), Some(3)]);
        for bad in ["two", "-1", "1.5", "1025"] {
            let why = read(bad).unwrap_err().to_string();
            assert!(why.contains(CORES), "{why}");
        }
    }
}
