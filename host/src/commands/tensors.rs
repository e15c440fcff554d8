//! The tensors that nodes computed in a run, by the model's own names and in its own layout: writes
//! them to files and finds the first value that is not finite.
mod layout;

use super::numbers;
use crate::session::model::Item;
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_ir::graph::{ORIGIN_TENSORS, origin_tensors};
use ge_model::{CompiledModel, NodeInfo};
use ge_plugin_api::kernel::HostTensor;
use ge_runtime::Captured;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// The operator type that marks a graph output.
pub const OUTPUT: &str = "NetOutput";

/// File beside dumped tensors that lists which file holds which tensor.
pub const INDEX: &str = "tensors.json";

/// Naming of a model's tensors.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Whether the model has tensor names of its own; if not, only node names exist.
    own: bool,
}

impl Names {
    /// Determines the naming of a model.
    pub fn of(model: &CompiledModel) -> Names {
        let own = model.graphs.iter().flat_map(|g| &g.nodes).any(|n| n.attrs.get(ORIGIN_TENSORS).is_some());
        Names { own }
    }
    /// Whether the model has tensor names of its own.
    pub fn own(&self) -> bool {
        self.own
    }
    /// The model's names of output `k` of a node; empty for tensors that only the compiler knows.
    pub fn tensors(&self, n: &NodeInfo, k: u32) -> Vec<String> {
        let given: Vec<String> =
            origin_tensors(&n.attrs).filter(|(output, _)| *output == k).map(|(_, name)| name.to_owned()).collect();
        let source = matches!(n.op.as_str(), "Data" | "RefData" | "AippData");
        if !given.is_empty() || (self.own && !source) {
            return given;
        }
        vec![ours(&n.name, k)]
    }
}

/// The model's names of a captured output. The value of a graph output has the output's name if it
/// has no other: the compiler has then put a copy behind a tensor of the model, fused the node that
/// the output is named after, or dropped an `Identity`.
fn names(m: &CompiledModel, of: Names, n: &NodeInfo, c: &Captured) -> Vec<String> {
    let given = of.tensors(n, c.output);
    if c.graph != 0 || (of.own() && !given.is_empty()) {
        return given;
    }
    let results = m.graphs.first().and_then(|g| g.nodes.iter().rfind(|n| n.op == "NetOutput"));
    let results = results.map_or(&[][..], |n| n.inputs.as_slice()).iter().zip(&m.outputs);
    let own = results.filter(|(v, _)| v.is_some_and(|v| (v.node, v.output) == (c.node, c.output)));
    let own: Vec<String> = own.map(|(_, o)| o.name.clone()).collect();
    if own.is_empty() { given } else { own }
}

/// Name of a tensor by its node: `NODE` for the first output, `NODE:K` for others.
pub fn ours(node: &str, k: u32) -> String {
    if k == 0 { node.to_owned() } else { format!("{node}:{k}") }
}

/// A tensor that a run computed.
pub struct Computed {
    /// The model's names of the tensor; empty if only the compiler knows it.
    pub names: Vec<String>,
    /// Name of the node that computed it.
    pub node: String,
    /// Index of the output of that node.
    pub output: u32,
    /// Index of the element, if the output is a sequence.
    pub element: Option<usize>,
    /// Operator type.
    pub op: String,
    /// Engine.
    pub engine: String,
    /// Whether the node has no task: its output was then written by other nodes.
    pub no_task: bool,
    /// How often the run had computed it by then, from 1: in a loop, once in each turn.
    pub turn: u64,
    /// The value, in the layout of the source model.
    pub tensor: HostTensor,
}

impl Computed {
    /// Output `k` of a graph, by its name.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated.
    fn output(name: &str, k: u32, t: &HostTensor) -> Result<Computed> {
        Ok(Computed {
            names: vec![name.to_owned()],
            node: name.to_owned(),
            output: k,
            element: None,
            op: OUTPUT.into(),
            engine: String::new(),
            no_task: true,
            turn: 1,
            tensor: HostTensor::from_bytes(t.dtype, &t.dims, t.bytes())?,
        })
    }
    /// The name to show to the user.
    pub fn shown(&self) -> String {
        self.names.first().cloned().unwrap_or_else(|| ours(&self.node, self.output))
    }
}

/// Counts how often a run has computed each output of a node.
#[derive(Default)]
struct Turns(HashMap<(u32, u32, u32), u64>);

impl Turns {
    /// The turn that a captured value is of. Values must come in the order of the run.
    fn of(&mut self, c: &Captured) -> u64 {
        let turn = self.0.entry((c.graph, c.node, c.output)).or_default();
        *turn += c.times;
        *turn
    }
}

/// The captured tensors with their names, in the graph's order.
pub fn named(m: &CompiledModel, captured: Vec<Captured>) -> Vec<Computed> {
    let of = Names::of(m);
    let tasks: BTreeSet<(u32, u32)> = m.tasks.iter().map(|t| (t.graph, t.node)).collect();
    let mut turns = Turns::default();
    let one = |c: Captured| {
        let turn = turns.of(&c);
        let n = m.node(c.graph, c.node)?;
        let desc = n.outputs.get(c.output as usize)?;
        Some(Computed {
            names: names(m, of, n, &c),
            node: n.name.clone(),
            output: c.output,
            element: None,
            op: n.op.clone(),
            engine: n.engine.clone(),
            no_task: !tasks.contains(&(c.graph, c.node)),
            turn,
            tensor: layout::plain(desc, c.tensor),
        })
    };
    captured.into_iter().filter_map(one).collect()
}

/// Replaces characters with a meaning in paths (separators and control characters) by `_`.
pub fn safe(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_control() || matches!(c, '/' | '\\' | ':') { '_' } else { c }).collect();
    safe.strip_prefix('.').map(|rest| format!("_{rest}")).unwrap_or(safe.clone())
}

/// The file name for an output of a node.
pub fn file_name(node: &str, output: u32) -> String {
    format!("{}.npy", short(format!("{}_{output}", safe(node))))
}

/// Maximum number of bytes of a file name without its ending. File systems hold 255, and the name
/// may get a number, or another one while the file is written.
const LONGEST: usize = 200;

/// A name that is too long for a file, cut off. The list of files has the whole name.
fn short(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(LONGEST));
    name
}

/// Writes every captured tensor that `.npy` can represent, and a list of the files. A tensor with
/// names in the model is written under each of them, others as `NODE_OUTPUT.npy`. Outputs that no
/// node computed (an input, a constant, what a loop without a turn passes on) follow under their
/// own names.
pub fn dump(dir: &Path, m: &CompiledModel, captured: Vec<Captured>, outputs: &[Item]) -> Result<()> {
    let fail = |p: &Path, e: std::io::Error| {
        Diagnostic::error(format!("cannot write `{}`: {e}", p.display())).raise(ge_codes::UNWRITABLE)
    };
    std::fs::create_dir_all(dir).map_err(|e| fail(dir, e))?;
    let own = Names::of(m).own();
    let mut files = Files { dir, seen: BTreeSet::new(), rows: Vec::new() };
    for t in named(m, captured) {
        let Some(bytes) = ge_runtime::npy::write(&t.tensor) else { continue };
        let node = ours(&t.node, t.output);
        let is_ours = t.names.is_empty() || (!own && t.names == [node.as_str()]);
        let names: Vec<(String, String)> = if is_ours {
            vec![(node, file_name(&t.node, t.output))]
        } else {
            t.names.iter().map(|n| (n.clone(), named_file(n))).collect()
        };
        for (name, file) in names {
            files.write(&name, &file, &bytes, &t)?;
        }
    }
    for (k, (o, item)) in (0..).zip(m.outputs.iter().zip(outputs)) {
        let Some(t) = item.tensor().filter(|_| !files.has(&o.name)) else { continue };
        let Some(bytes) = ge_runtime::npy::write(t) else { continue };
        files.write(&o.name, &named_file(&o.name), &bytes, &Computed::output(&o.name, k, t)?)?;
    }
    let list = json!({"schema": 1, "model": m.name, "tensors": files.rows});
    let text = serde_json::to_string_pretty(&list).map_err(|e| Error::internal(e.to_string()))?;
    crate::files::write_atomic(&dir.join(INDEX), format!("{text}\n").as_bytes())
}

/// The file name for a tensor with a name in the model.
fn named_file(name: &str) -> String {
    format!("{}.npy", short(safe(name)))
}

/// The files of a dump.
struct Files<'d> {
    dir: &'d Path,
    /// Names of the files, in lower case.
    seen: BTreeSet<String>,
    /// The list of the files.
    rows: Vec<serde_json::Value>,
}

impl Files<'_> {
    /// Whether a tensor of this name is written.
    fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|r| r["tensor"] == name)
    }
    /// Writes a tensor under a name. Different names may give the same file name: if they differ
    /// only in separators, or in upper and lower case on file systems that ignore case.
    fn write(&mut self, name: &str, wanted: &str, bytes: &[u8], t: &Computed) -> Result<()> {
        let mut file = wanted.to_owned();
        let mut k = 1;
        while !self.seen.insert(file.to_lowercase()) {
            file = format!("{}.{k}.npy", wanted.trim_end_matches(".npy"));
            k += 1;
        }
        crate::files::write_atomic(&self.dir.join(&file), bytes)?;
        self.rows.push(json!({
            "tensor": name, "file": file, "node": t.node, "output": t.output, "type": t.op, "engine": t.engine,
            "turn": t.turn, "dtype": t.tensor.dtype.name(), "shape": t.tensor.dims.to_vec(),
        }));
        Ok(())
    }
}

/// The first node, in the graph's order, that computed a NaN or an infinity in any turn.
pub fn first_not_finite(m: &CompiledModel, captured: &[Captured]) -> Option<Diagnostic> {
    let mut turns = Turns::default();
    for c in captured {
        let last = turns.of(c);
        let values = numbers::values(&c.tensor);
        let seen = || {
            let at = values.iter().position(|v| !v.is_finite())?;
            Some((at as u64, values[at], values.iter().filter(|v| !v.is_finite()).count() as u64, last))
        };
        // What the device saw in earlier turns is not in the value, which is that of the last one.
        let marked = c.not_finite.map(|f| {
            (f.element, numbers::of_bits(c.tensor.dtype, f.bits), f.count, (last + f.turn).saturating_sub(c.times))
        });
        let Some((at, value, count, turn)) = marked.or_else(seen) else { continue };
        let Some(n) = m.node(c.graph, c.node) else { continue };
        let same = |o: &&Captured| (o.graph, o.node, o.output) == (c.graph, c.node, c.output);
        let turns: u64 = captured.iter().filter(same).map(|o| o.times).sum();
        let of_turn = if turns > 1 { format!(", turn {turn} of {turns}") } else { String::new() };
        let tensors = names(m, Names::of(m), n, c);
        let tensor = tensors.first().filter(|t| **t != ours(&n.name, c.output));
        let stands = tensor.map_or_else(String::new, |t| format!(", `{t}` in the model,"));
        let what = format!("`{}` ({}){stands} is the first node that computes no finite number", n.name, n.op);
        return Some(
            Diagnostic::error(what)
                .code(ge_codes::NOT_FINITE)
                .node(n.name.clone(), n.op.clone())
                .subject(format!("output {} element {at}{of_turn}", c.output))
                .found(format!("{value} ({count} of {} elements)", values.len()), "a finite number")
                .note(format!("engine: {}", n.engine))
                .help("`--dump-tensors DIR` writes what every node computed"),
        );
    }
    None
}

/// Fails if a node computed a NaN or an infinity, and names the first one in the graph's order.
pub fn check(m: &CompiledModel, captured: &[Captured]) -> Result<()> {
    first_not_finite(m, captured).map_or(Ok(()), |d| Err(d.of(ErrorKind::FAILED)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_model::{GraphInfo, IoInfo, ValueAt};
    use ge_plugin_api::types::DType;
    use ge_runtime::NotFinite;

    /// A model of `x` -> `t` (a tensor of the source) -> `y_copy`, which is the output `y`.
    fn model() -> CompiledModel {
        let node = |name: &str, op: &str, of: Option<u32>| NodeInfo {
            name: name.into(),
            op: op.into(),
            inputs: of.map(|node| Some(ValueAt { node, output: 0 })).into_iter().collect(),
            outputs: vec![Default::default()],
            ..NodeInfo::default()
        };
        let mut nodes = vec![
            node("x", "Data", None),
            node("neg", "Neg", Some(0)),
            node("y_copy", "Identity", Some(1)),
            node("NetOutput", "NetOutput", Some(2)),
        ];
        nodes[1].attrs.set(ORIGIN_TENSORS, vec!["0:t".to_owned()]);
        let outputs = vec![IoInfo { name: "y".into(), ..IoInfo::default() }];
        CompiledModel { graphs: vec![GraphInfo { nodes, ..GraphInfo::default() }], outputs, ..CompiledModel::default() }
    }

    fn captured(node: u32, value: f32, times: u64, not_finite: Option<NotFinite>) -> Captured {
        let tensor = HostTensor::from_bytes(DType::F32, &[1], &value.to_le_bytes()).expect("small");
        Captured { graph: 0, node, output: 0, tensor, times, not_finite }
    }

    #[test]
    fn a_copy_of_an_output_has_the_name_of_the_output() {
        let of = named(&model(), vec![captured(1, 1.0, 1, None), captured(2, 1.0, 1, None)]);
        assert_eq!(of.iter().map(|t| t.names.join(" ")).collect::<Vec<_>>(), ["t", "y"]);
    }

    #[test]
    fn a_copy_has_the_name_of_the_output_where_only_nodes_have_names() {
        let mut m = model();
        m.graphs[0].nodes[1].attrs.remove(ORIGIN_TENSORS);
        let of = named(&m, vec![captured(1, 1.0, 1, None), captured(2, 1.0, 1, None)]);
        assert_eq!(of.iter().map(|t| t.names.join(" ")).collect::<Vec<_>>(), ["neg", "y"]);
    }

    #[test]
    fn outputs_that_no_node_computes_are_dumped() {
        let dir = tempfile::tempdir().expect("a folder");
        let outputs = [Item::Tensor(captured(1, 4.0, 1, None).tensor)];
        for (computed, file) in [(vec![], "y.npy"), (vec![captured(2, 4.0, 1, None)], "y.npy")] {
            let dir = dir.path().join(computed.len().to_string());
            dump(&dir, &model(), computed, &outputs).expect("written");
            let mut names: Vec<_> =
                std::fs::read_dir(dir).expect("read").map(|f| f.expect("read").file_name()).collect();
            names.sort();
            assert_eq!(names, ["tensors.json", file]);
        }
    }

    #[test]
    fn the_turn_of_a_number_that_is_not_finite_is_told() {
        let nan = NotFinite { turn: 2, element: 0, count: 1, bits: u64::from(f32::NAN.to_bits()) };
        let of = [captured(1, 1.0, 3, None), captured(1, 1.0, 3, Some(nan))];
        let d = first_not_finite(&model(), &of).expect("turn 5");
        assert_eq!(
            (d.subject.as_str(), d.found.as_str()),
            ("output 0 element 0, turn 5 of 6", "NaN (1 of 1 elements)")
        );
        let turns: Vec<u64> = named(&model(), of.into()).iter().map(|t| t.turn).collect();
        assert_eq!(turns, [3, 6]);
        assert!(first_not_finite(&model(), &[captured(1, 1.0, 1, None)]).is_none());
        assert!(first_not_finite(&model(), &[captured(1, f32::INFINITY, 1, None)]).is_some());
    }

    #[test]
    fn names_of_files_stay_in_the_folder() {
        assert_eq!(super::file_name("/a/b:0", 1), "_a_b_0_1.npy");
        assert_eq!(super::file_name("../x", 0), "_._x_0.npy");
        assert_eq!(super::file_name(&"ü".repeat(300), 0).len(), super::LONGEST + ".npy".len());
    }
}
