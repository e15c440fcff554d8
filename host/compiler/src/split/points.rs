//! Positions at which a stream is cut (004 §4.4). A cut is due before a node, but not before the
//! first of the piece, if the tasks of the piece so far, those of the node and the reserve exceed
//! the limit. There is never a cut before a node with a subgraph, before the first StreamActive of
//! a subgraph or before a label node, nor between nodes that a `_continuous_stream_label` or a jump
//! holds together. A cut that would separate such nodes moves before the first of them.
use super::RESERVED_TASKS;
use crate::error::{CompileError, Result};
use ge_ir::Node;
use ge_plugin_api::diagnostic::Diagnostic;
use std::collections::BTreeMap;

/// SQEs of a wait: the wait and its reset (facts 1.2).
pub const WAIT_SQES: u64 = 2;

/// A position of a node on a stream.
#[derive(Clone, Debug)]
pub struct Stand<'m> {
    /// The node.
    pub node: &'m Node,
    /// SQEs of its tasks on this stream, including waits and records.
    pub count: u64,
}

/// Returns the indices of `stands` before which a stream is cut, ascending. `limit` is the number
/// of SQEs that a stream holds.
///
/// # Errors
/// Fails if nodes that must stay together do not fit on one stream.
pub fn cuts(stands: &[Stand<'_>], limit: u64, soc: &str) -> Result<Vec<usize>> {
    if sum(stands).saturating_add(RESERVED_TASKS) <= limit {
        return Ok(Vec::new());
    }
    let held = held_together(stands);
    let mut out = Vec::new();
    // First index of the piece, SQEs in it, and the last index in it at which it may be cut.
    let (mut first, mut count, mut last_cut): (usize, u64, Option<usize>) = (0, 0, None);
    let mut at = 0;
    while at < stands.len() {
        if at > first && may_be_cut(&stands[at], held[at]) {
            last_cut = Some(at);
        }
        count = count.saturating_add(stands[at].count);
        if at > first && count.saturating_add(RESERVED_TASKS) > limit {
            if let Some(cut) = last_cut {
                out.push(cut);
                // The new piece begins with the wait for the previous one; nodes after the cut are
                // counted again.
                (first, count, last_cut, at) = (cut, WAIT_SQES, None, cut);
                continue;
            }
        }
        // If there is no cut, the piece may use the reserve too, except for the record that joins
        // the next piece.
        if count >= limit {
            return Err(too_large(&stands[first..=at], limit, soc));
        }
        at += 1;
    }
    Ok(out)
}

/// SQEs of all of these together.
fn sum(stands: &[Stand<'_>]) -> u64 {
    stands.iter().fold(0, |sum, s| sum.saturating_add(s.count))
}

/// Whether the stream may be cut before the node.
fn may_be_cut(s: &Stand<'_>, held: bool) -> bool {
    !held && s.node.subgraphs().is_empty() && !s.node.attrs().flag("subgraph_first_active") && !is_label(s.node)
}

fn is_label(n: &Node) -> bool {
    matches!(n.op(), "LabelSet" | "LabelGotoEx" | "LabelSwitchByIndex")
}

/// Keys of nodes that must stay on one stream: continuous labels, and labels that jumps refer to.
fn keys(n: &Node) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(l) = n.attrs().str("_continuous_stream_label").filter(|l| !l.is_empty()) {
        out.push(format!("continuous {l}"));
    }
    if is_label(n) {
        let one = n.attrs().int("_label_index").or_else(|| n.attrs().int("label_id"));
        let list = n.attrs().ints("_label_switch_list").or_else(|| n.attrs().ints("label_list")).unwrap_or(&[]);
        out.extend(one.iter().chain(list).map(|l| format!("label {l}")));
    }
    out
}

/// For each index, whether a cut before it would separate nodes that must stay together.
fn held_together(stands: &[Stand<'_>]) -> Vec<bool> {
    let mut spans: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (i, s) in stands.iter().enumerate() {
        for k in keys(s.node) {
            spans.entry(k).and_modify(|e| e.1 = i).or_insert((i, i));
        }
    }
    // +1 after the first node of a span, -1 after its last.
    let mut step = vec![0i64; stands.len() + 1];
    for (first, last) in spans.into_values() {
        step[first + 1] += 1;
        step[last + 1] -= 1;
    }
    let mut open = 0;
    step.iter()
        .take(stands.len())
        .map(|s| {
            open += s;
            open > 0
        })
        .collect()
}

fn too_large(piece: &[Stand<'_>], limit: u64, soc: &str) -> CompileError {
    let count = sum(piece);
    let (first, last) = (piece.first().map_or("", |s| s.node.name()), piece.last().map_or("", |s| s.node.name()));
    let what = if piece.len() == 1 {
        format!("`{first}` has {count} tasks")
    } else {
        format!("`{first}` to `{last}` must stay on one stream and have {count} tasks")
    };
    let op = piece.last().map_or("", |s| s.node.op());
    let d = Diagnostic::error(format!("{what}, a stream of {soc} has room for {}", limit.saturating_sub(1)))
        .node(last, op)
        .help("split the work over several nodes, or compile for a SoC with longer streams");
    CompileError::model(ge_codes::STREAM_TOO_SHORT, d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_ir::Model;

    fn model(nodes: &[&str]) -> Model {
        let mut body = String::new();
        let mut at = "x".to_owned();
        for (i, attrs) in nodes.iter().enumerate() {
            let (op, attrs) = attrs.split_once(' ').unwrap_or(("Relu", attrs));
            if op == "LabelSet" || op == "LabelGotoEx" {
                body.push_str(&format!("%n{i} = {op}() {attrs} after(%{at}) : ()\n"));
                continue;
            }
            body.push_str(&format!("%n{i} = Relu(%{at}) {attrs} : f32[2]\n"));
            at = format!("n{i}");
        }
        let text = format!("graph @g(%x: f32[2]) {{\n{body}return %{at}\n}}");
        ge_ir::text::parse(&text, "t.ge", &ge_ir::text::NoFiles).expect("a graph")
    }
    fn cut(nodes: &[&str], count: u64, limit: u64) -> Result<Vec<usize>, String> {
        let m = model(nodes);
        let stands: Vec<Stand<'_>> =
            m.root().nodes().filter(|n| n.name().starts_with('n')).map(|node| Stand { node, count }).collect();
        cuts(&stands, limit, "small").map_err(|e| e.to_string())
    }

    #[test]
    fn a_stream_that_holds_its_tasks_and_the_reserve_is_not_cut() {
        assert_eq!(cut(&["Relu {}"; 5], 1, 32), Ok(vec![]));
        assert_eq!(cut(&["Relu {}"; 6], 1, 32), Ok(vec![5]));
    }

    #[test]
    fn later_pieces_begin_with_the_wait_for_the_one_before() {
        // 5 fit the first piece, 3 every other: its wait counts two.
        assert_eq!(cut(&["Relu {}"; 12], 1, 32), Ok(vec![5, 8, 11]));
    }

    #[test]
    fn nodes_of_one_continuous_label_move_together() {
        let l = "Relu {_continuous_stream_label = \"c\"}";
        let p = "Relu {}";
        assert_eq!(cut(&[p, p, p, l, p, l, p], 1, 32), Ok(vec![3, 6]));
    }

    #[test]
    fn no_cut_stands_before_a_label_or_between_it_and_its_jump() {
        let p = "Relu {}";
        let set = "LabelSet {_label_index = 0}";
        let goto = "LabelGotoEx {_label_index = 0}";
        assert_eq!(cut(&[p, p, p, p, p, set, p], 1, 32), Ok(vec![4]));
        assert_eq!(cut(&[p, p, p, set, p, goto, p], 1, 32), Ok(vec![2, 6]));
    }

    #[test]
    fn what_cannot_be_cut_and_does_not_fit_is_named() {
        let l = "Relu {_continuous_stream_label = \"c\"}";
        let why = cut(&[l; 40], 1, 32).expect_err("too many");
        assert!(
            why.contains("`n0` to `n31` must stay on one stream and have 32 tasks, a stream of small has room for 31"),
            "{why}"
        );
    }
}
