//! Compares what a model needs with what the device has: a model that cannot be loaded is refused
//! at compile time, with its largest memory holders by name.
use super::plan::MemoryPlan;
use super::symbols::{Home, Symbol};
use crate::error::{CompileError, Result};
use ge_ir::Model;
use ge_plugin_api::device::{MemoryKind, SocSpec};

/// Maximum number of holders that an error names.
const NAMED: usize = 5;

fn hbm(s: &&Symbol) -> bool {
    s.home == Home::Feature && s.memory == MemoryKind::HBM
}

/// Check before placement: what is there during the whole run, and each value alone.
///
/// # Errors
/// Fails if that is more than the device has.
pub fn check_values(model: &Model, symbols: &[Symbol], always: u64, soc: &SocSpec) -> Result<()> {
    let kept: u64 =
        symbols.iter().filter(hbm).filter(|s| s.io.is_some()).fold(always, |a, s| a.saturating_add(s.bytes));
    let largest = symbols.iter().filter(hbm).map(|s| s.bytes).max().unwrap_or(0);
    refuse(model, symbols, always, kept.max(largest), soc)
}

/// Check after placement: the feature map with weights and variables.
///
/// # Errors
/// Fails if that is more than the device has.
pub fn check_plan(model: &Model, symbols: &[Symbol], plan: &MemoryPlan, soc: &SocSpec) -> Result<()> {
    let always = plan.weight_bytes.saturating_add(plan.variable_bytes);
    let map = plan.spaces.iter().filter(|s| s.memory == MemoryKind::HBM).fold(always, |a, s| a.saturating_add(s.size));
    refuse(model, symbols, always, map, soc)
}

fn refuse(model: &Model, symbols: &[Symbol], always: u64, needs: u64, soc: &SocSpec) -> Result<()> {
    // 0 means that the SoC file does not state the memory size.
    if soc.memory_bytes == 0 || needs <= soc.memory_bytes {
        return Ok(());
    }
    // Holders of less than a hundredth are not worth naming.
    let counts = |s: &&Symbol| s.bytes >= needs / 100;
    let mut holders: Vec<(u64, String)> =
        symbols.iter().filter(hbm).filter(counts).map(|s| (s.bytes, s.owner.name(model))).collect();
    holders.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    holders.truncate(NAMED);
    let mut holders: Vec<String> = holders.iter().map(|(b, n)| format!("`{n}` {}", bytes(*b))).collect();
    if always > 0 {
        holders.push(format!("weights and variables {}", bytes(always)));
    }
    Err(CompileError::Capacity {
        needs: bytes(needs),
        has: bytes(soc.memory_bytes),
        soc: soc.name.to_string(),
        holders,
    })
}

/// A number of bytes as text with a unit.
fn bytes(b: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (1..=UNITS.len()).rev().find(|i| b >> (10 * i) > 0);
    step.map_or_else(|| format!("{b} bytes"), |i| format!("{:.1} {}", b as f64 / 1024f64.powi(i as i32), UNITS[i - 1]))
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_told_in_units_that_people_read() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(34_359_738_368), "32.0 GiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }
}
