//! `AssignWithReuse`: a subgraph without a stream takes the stream of a predecessor, or else of a
//! successor, if the reuse rule allows it. Among several it takes that of the cheapest engine, and
//! the first in the list on ties. A stream taken this way can be taken again. Source: 002, facts
//! 1.13.
use super::context::Dynamic;

/// Assigns streams of neighbours.
pub fn run(cx: &mut Dynamic<'_>) {
    for k in 0..cx.parts.len() {
        if cx.parts[k].stream.is_some() {
            continue;
        }
        let found = cheapest(cx, k, &cx.parts[k].sub.preds).or_else(|| cheapest(cx, k, &cx.parts[k].sub.succs));
        if let Some(from) = found {
            cx.parts[k].stream = cx.parts[from].stream;
            cx.parts[k].reused = Some(cx.parts[from].reused.unwrap_or(from));
        }
    }
}

fn cheapest(cx: &Dynamic<'_>, k: usize, from: &[u32]) -> Option<usize> {
    let may = from.iter().map(|p| *p as usize).filter(|p| cx.could_reuse(k, *p));
    may.min_by_key(|p| (cx.toolbox.engine(cx.parts[*p].sub.engine).info.cost, *p))
}
