//! Identifies the processor, as far as this matters for how kernels are best divided.
use std::sync::OnceLock;

/// Maker, family, model and instruction sets of the processor, for example
/// `AuthenticAMD-25-17+avx2+avx512f+avx512_vnni`. Where `/proc/cpuinfo` does not give them, the
/// architecture alone.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| of(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()))
}

/// The CPU flags that kernels check for.
const SETS: [&str; 5] = ["avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8"];

fn of(info: &str) -> String {
    let first = info.split("\n\n").next().unwrap_or_default();
    let field = |name: &str| {
        let line = first.lines().filter_map(|l| l.split_once(':')).find(|(k, _)| k.trim() == name);
        line.map(|(_, v)| v.trim())
    };
    let (Some(maker), Some(family), Some(model)) = (field("vendor_id"), field("cpu family"), field("model")) else {
        return std::env::consts::ARCH.to_owned();
    };
    let flags: Vec<&str> = field("flags").unwrap_or_default().split_whitespace().collect();
    let sets = SETS.iter().filter(|s| flags.contains(s));
    sets.fold(format!("{maker}-{family}-{model}"), |name, s| format!("{name}+{s}"))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_processor_is_told_by_what_the_system_says() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f avx512_vnni sse\n\nprocessor\t: 1\nvendor_id\t: Other\n";
        assert_eq!(of(text), "AuthenticAMD-25-17+avx2+avx512f+avx512_vnni");
        assert_eq!(of("nothing of the kind"), std::env::consts::ARCH);
    }
}
