//! Carried values that a loop body changes where they lie.
//!
//! Some bodies replace a few elements of a carried value (`TensorScatterUpdate`, `ScatterElements`:
//! prototypes with `REPLACES`) and pass the result on as the same value. Such a body need not copy
//! the value in each turn: the node writes its elements over those of the last turn, and nothing is
//! copied back. The proof looks at the uses: every reader of the old value stands before the
//! writing node and gets an edge that orders it so, and the old value is neither passed on nor
//! given to an inner body. The order is proved again on the compiled model. This is why the
//! attribute is `_in_place` and not `_ref_input`, whose writers that proof leaves out.
use super::lower::FlagsOf;
use ge_ir::{Graph, Node, NodeId, ValueRef};
use ge_plugin_api::ops::flags::{REPLACES, VIEW};
use std::collections::HashMap;

/// The nodes that write in place, each with the nodes that read what it overwrites.
pub(super) type Changes = HashMap<NodeId, Vec<NodeId>>;

/// The changes of the values at the places in `carries`. A body receives place `k` as its input
/// `k + first` and returns it as output `k`. The second result holds the places that are changed in
/// place.
///
/// Cost: the uses of the changed values, and two walks over the body.
pub(super) fn changes(
    body: &Graph,
    first: usize,
    carries: impl Iterator<Item = usize>,
    flags: FlagsOf<'_>,
) -> (Changes, Vec<usize>) {
    let mut at: HashMap<NodeId, usize> = HashMap::new();
    let (mut all, mut places) = (Changes::new(), Vec::new());
    let own = inputs(body);
    for k in carries {
        let data = i64::try_from(k + first).ok().and_then(|index| *own.get(&index)?);
        let Some((data, end)) = data.zip(body.net_output().and_then(|n| n.input(k))) else { continue };
        let chain = chain(body, data, end, flags);
        if chain.as_ref().is_some_and(|c| !c.is_empty()) && at.is_empty() {
            at.extend(body.nodes().enumerate().map(|(i, n)| (n.id(), i)));
        }
        let writes = |w: NodeId| Some((w, readers(body, body.get(w)?, &at, flags)?));
        let found: Option<Vec<_>> = chain.and_then(|c| c.into_iter().map(writes).collect());
        if let Some(found) = found.filter(|f| !f.is_empty()) {
            all.extend(found);
            places.push(k);
        }
    }
    (all, places)
}

/// The inputs of a body by index; `None` where several nodes have the same index.
fn inputs(body: &Graph) -> HashMap<i64, Option<ValueRef>> {
    let mut own = HashMap::new();
    for d in body.data_nodes() {
        if let Some(index) = d.attrs().int("index") {
            own.entry(index).and_modify(|v| *v = None).or_insert(Some(d.value(0)));
        }
    }
    own
}

/// The nodes that turn `data` into `end`, each applied to the result of the one before; last node
/// first.
fn chain(body: &Graph, data: ValueRef, end: ValueRef, flags: FlagsOf<'_>) -> Option<Vec<NodeId>> {
    let (mut out, mut v) = (Vec::new(), end);
    while v != data {
        let n = body.get(v.node).filter(|n| v.output == 0 && flags(n) & REPLACES != 0)?;
        let from = n.input(0).filter(|v| !v.is_absent())?;
        let (a, b) = (body.desc(from)?, body.desc(v)?);
        let same = (a.dtype, a.format, a.shape.sizes()) == (b.dtype, b.format, b.shape.sizes());
        // The overwritten value is the first input only: otherwise the node would have to be
        // ordered before itself.
        let once = n.inputs().iter().filter(|i| **i == from).count() == 1;
        if !same || a.shape.sizes().is_none() || !once || n.outputs().len() != 1 {
            return None;
        }
        out.push(n.id());
        v = from;
    }
    Some(out)
}

/// The nodes that read what `writer` overwrites, directly or through views. `None` if one of them
/// stands after the writer or may read the value later.
fn readers(body: &Graph, writer: &Node, at: &HashMap<NodeId, usize>, flags: FlagsOf<'_>) -> Option<Vec<NodeId>> {
    let mut out = Vec::new();
    let mut todo = vec![writer.input(0)?];
    while let Some(v) = todo.pop() {
        for u in body.users(v) {
            let r = body.get(u.node)?;
            if r.id() == writer.id() {
                // Another input of the writer may be a view of the value.
                if u.input != 0 {
                    return None;
                }
                continue;
            }
            if r.op() == "NetOutput" || !r.subgraphs().is_empty() || at.get(&r.id())? > at.get(&writer.id())? {
                return None;
            }
            if flags(r) & VIEW != 0 && r.op() != "Identity" {
                todo.extend((0..r.outputs().len() as u32).map(|k| r.value(k)));
            } else {
                out.push(r.id());
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::lower::lower;
    use ge_ir::Node;
    use ge_plugin_api::ops::IN_PLACE;
    use ge_plugin_api::ops::flags::{REPLACES, VIEW};

    /// Lowers a loop whose body is `nodes` and returns `next` for its tensor. Returns the operators
    /// of the root, and for each node that writes in place the number of nodes ordered before it.
    fn lowered(nodes: &str, next: &str) -> (Vec<String>, Vec<usize>) {
        let text = format!(
            "graph @main(%n: i32[1], %x: f32[4,2], %y: f32[4,2]) {{
              %w = While(%x, %y, %n) {{body = @body, cond = @cond}} : f32[4,2], f32[4,2], i32[1]
              return %w
            }}
            graph @cond(%a: f32[4,2], %b: f32[4,2], %c: i32[1]) {{ %t = Equal(%c, %c) : bool[1] return %t }}
            graph @body(%d: f32[4,2], %e: f32[4,2], %f: i32[1]) {{
              %u = Neg(%f) : f32[1,2]
              %g = Add(%f, %f) : i32[1]
              {nodes}
              return {next}, %g
            }}"
        );
        let mut m = ge_ir::text::parse(&text, "t.ge", &ge_ir::text::NoFiles).expect("a graph");
        let flags = |n: &Node| match n.op() {
            "TensorScatterUpdate" => REPLACES,
            "Reshape" => VIEW,
            _ => 0,
        };
        lower(&mut m, &flags).expect("lowered");
        let g = m.root();
        let writers = g.nodes().filter(|n| n.attrs().flag(IN_PLACE)).map(|n| n.controls().len());
        (g.nodes().map(|n| n.op().to_owned()).collect(), writers.collect())
    }
    fn copies(ops: &[String]) -> usize {
        ops.iter().filter(|o| *o == "MemcpyAsync").count()
    }

    #[test]
    fn what_nobody_reads_afterwards_is_changed_where_it_lies() {
        let (ops, writers) = lowered("%s = TensorScatterUpdate(%d, %f, %u) : f32[4,2]", "%s, %e");
        // Tensor and counter are copied in, the counter is copied back.
        assert_eq!((copies(&ops), writers), (3, vec![0]));
    }

    #[test]
    fn who_reads_before_is_ordered_before_and_by_a_view_too() {
        let nodes = "%r = Neg(%d) : f32[4,2]
              %v = Reshape(%d) {shape = [8]} : f32[8]
              %q = Neg(%v) : f32[8]
              %h = Reshape(%q) {shape = [4, 2]} : f32[4,2]
              %k = Add(%r, %h) : f32[4,2]
              %s = TensorScatterUpdate(%d, %f, %u) : f32[4,2]";
        let (ops, writers) = lowered(nodes, "%s, %k");
        assert_eq!((copies(&ops), writers), (5, vec![2]));
    }

    #[test]
    fn two_writes_of_a_turn_follow_each_other() {
        let nodes = "%a = TensorScatterUpdate(%d, %f, %u) : f32[4,2]
              %r = Neg(%a) : f32[4,2]
              %s = TensorScatterUpdate(%a, %g, %u) : f32[4,2]";
        let (ops, writers) = lowered(nodes, "%s, %r");
        assert_eq!((copies(&ops), writers), (5, vec![0, 1]));
    }

    #[test]
    fn what_is_read_later_or_handed_on_is_copied() {
        let later = "%s = TensorScatterUpdate(%d, %f, %u) : f32[4,2]
              %r = Neg(%d) : f32[4,2]";
        let own = "%v = Reshape(%d) {shape = [1, 8]} : f32[1,8]
              %s = TensorScatterUpdate(%d, %f, %v) : f32[4,2]";
        let write = "%s = TensorScatterUpdate(%d, %f, %u) : f32[4,2]";
        for (nodes, next) in [(later, "%s, %r"), (own, "%s, %e"), (write, "%s, %d"), (write, "%e, %s")] {
            let (_, writers) = lowered(nodes, next);
            assert_eq!(writers, Vec::<usize>::new(), "{nodes} -> {next}");
        }
    }
}
