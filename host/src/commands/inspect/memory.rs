//! `--what memory`: for each memory type, its size compared with the bytes that must be live at
//! once, how often its bytes are reused, and who holds them at the peak.
use ge_model::{CompiledModel, SlotInfo};
use ge_plugin_api::device::MemoryKind;
use serde_json::{Map, Value, json};

/// Requested memory of one memory type, without zero copy.
struct Asked {
    /// Number of outputs and workspaces with memory of their own.
    blocks: usize,
    /// Their total size in bytes.
    bytes: u64,
}

fn asked(m: &CompiledModel, memory: &str) -> Asked {
    let mut a = Asked { blocks: 0, bytes: 0 };
    for n in m.graphs.iter().flat_map(|g| &g.nodes) {
        let own = n.slots.iter().filter(|s| s.ref_input.is_none() && !s.zero_copy).chain(&n.workspaces);
        for s in own.filter(|s| s.space == SlotInfo::FEATURE && s.size > 0 && MemoryKind(s.memory).name() == memory) {
            a.blocks += 1;
            a.bytes = a.bytes.saturating_add(s.size);
        }
    }
    a
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 1.0 } else { (a as f64 / b as f64 * 1000.0).round() / 1000.0 }
}

/// Number of pieces, if there is more than one.
fn pieces(n: usize) -> String {
    if n > 1 { format!(" in {n} pieces") } else { String::new() }
}

/// The memory part as JSON.
pub fn document(m: &CompiledModel) -> Value {
    let mut out = Map::new();
    for s in &m.memory.spaces {
        let (arena, a) = (s.size.saturating_sub(s.zero_copy), asked(m, &s.memory));
        out.insert(
            s.memory.clone(),
            json!({
                "size": s.size, "lower_bound": s.lower_bound, "zero_copy": s.zero_copy, "assigner": s.assigner,
                "arena": arena, "pieces": s.pieces.len().max(1), "blocks": a.blocks, "reuse_factor": ratio(a.bytes, arena),
            }),
        );
    }
    out.insert("weights".into(), json!(m.memory.weights));
    out.insert("variables".into(), json!(m.memory.variables));
    out.insert("peak".into(), m.memory.peak.iter().map(|(n, b)| json!({"node": n, "bytes": b})).collect());
    Value::Object(out)
}

/// The memory part as text.
pub fn text(m: &CompiledModel) -> String {
    let mut out = String::new();
    for s in &m.memory.spaces {
        let (arena, a) = (s.size.saturating_sub(s.zero_copy), asked(m, &s.memory));
        out.push_str(&format!(
            "{}: {} bytes: {arena} planned by {}{}, {} zero copy\n  lower bound {} ({:.3} of it); {} blocks with {} bytes, each byte used {:.3} times\n",
            s.memory, s.size, s.assigner, pieces(s.pieces.len()), s.zero_copy, s.lower_bound, ratio(arena, s.lower_bound), a.blocks, a.bytes,
            ratio(a.bytes, arena),
        ));
    }
    out.push_str(&format!("weights: {} bytes, variables: {} bytes\n", m.memory.weights, m.memory.variables));
    for (n, b) in m.memory.peak.iter().take(20) {
        out.push_str(&format!("  at the peak: {n} {b}\n"));
    }
    if let Some(more) = m.memory.peak.len().checked_sub(20).filter(|n| *n > 0) {
        out.push_str(&format!("  and {more} more\n"));
    }
    out
}
