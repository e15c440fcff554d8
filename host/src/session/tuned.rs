//! The tuning file: the best way to divide the work of kernels, by processor and by kernel.
//!
//! `ge tune` measures and writes it. A compilation that names it with `ge.x.tuning_file` stores its
//! entries for the model's kernels, for all processors, in the nodes; the loader picks those of the
//! machine. A compilation measures nothing, so its result depends only on the contents of the file.
use crate::{Diagnostic, Error, Result};
use ge_model::{CompiledModel, NodeInfo, ValueAt};
use ge_plugin_api::types::AttrValue;
use ge_runtime::request::TUNING;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The entry of one kernel on one processor.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name of the processor ([`ge_runtime::machine::name`]).
    pub cpu: String,
    /// Description of the kernel ([`kernel`]).
    pub kernel: String,
    /// How its work is divided: the engine's name for the schedule.
    pub schedule: String,
    /// Measured time with this schedule, in microseconds.
    pub us: f64,
    /// Measured time with the default schedule, in microseconds.
    pub default_us: f64,
}

/// The contents of a tuning file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    schema: u32,
    /// The entries, one per processor and kernel.
    pub entries: Vec<Entry>,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { schema: 1, entries: Vec::new() }
    }
}

impl Tuning {
    /// Reads a tuning file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or was not written by `ge tune`.
    pub fn read(path: &Path) -> Result<Tuning> {
        let wrong = |why: String| -> Error {
            Diagnostic::error(format!("the tuning file `{}` cannot be used: {why}", path.display()))
                .help("write it anew with `ge tune MODEL -o FILE`")
                .raise(ge_codes::TUNING_FILE)
        };
        let bytes = std::fs::read(path).map_err(|e| {
            Diagnostic::error(format!("cannot read the tuning file `{}`: {e}", path.display()))
                .help("check the path, or write it with `ge tune MODEL -o FILE`")
                .raise(ge_codes::UNREADABLE)
        })?;
        let text = String::from_utf8(bytes).map_err(|e| wrong(e.to_string()))?;
        let read: Tuning = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if read.schema != 1 {
            return Err(wrong(format!("its schema is {}, this ge reads 1", read.schema)));
        }
        Ok(read)
    }

    /// Replaces the entries of the measured kernels for one processor. `None`: the kernel's default
    /// is best, so it gets no entry.
    pub fn put(&mut self, cpu: &str, measured: BTreeMap<String, Option<Entry>>) {
        self.entries.retain(|e| e.cpu != cpu || !measured.contains_key(&e.kernel));
        self.entries.extend(measured.into_values().flatten());
        self.entries.sort_by(|a, b| (&a.cpu, &a.kernel).cmp(&(&b.cpu, &b.kernel)));
    }

    /// Stores the entries for a model's kernels in its nodes. Returns the number of nodes with
    /// entries.
    pub fn apply(&self, m: &mut CompiledModel) -> usize {
        let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for e in &self.entries {
            of.entry(&e.kernel).or_default().extend([e.cpu.as_str(), e.schedule.as_str()]);
        }
        let mut tuned = 0;
        for part in &mut m.parts {
            tuned += self.apply(part);
        }
        for g in &mut m.graphs {
            let found: Vec<_> =
                g.nodes.iter().map(|n| kernel(&g.nodes, n).and_then(|k| of.get(k.as_str()).cloned())).collect();
            for (n, list) in g.nodes.iter_mut().zip(found) {
                let Some(list) = list else { continue };
                n.attrs.set(TUNING, AttrValue::from(list.into_iter().map(str::to_owned).collect::<Vec<String>>()));
                tuned += 1;
            }
        }
        tuned
    }
}

/// Everything that a node's kernel depends on, as text: engine, operator, inputs, outputs and the
/// operator's own attributes. `None` if a size is open.
pub fn kernel(nodes: &[NodeInfo], n: &NodeInfo) -> Option<String> {
    let desc = |d: &ge_plugin_api::types::TensorDesc| {
        d.shape.sizes().map(|s| format!("{}:{}{s:?}", d.dtype, d.format).replace(' ', ""))
    };
    let read = |v: &ValueAt| desc(nodes.get(v.node as usize)?.outputs.get(v.output as usize)?);
    let input = |v: &Option<ValueAt>| v.as_ref().map_or(Some("-".to_owned()), read);
    let inputs = n.inputs.iter().map(input).collect::<Option<Vec<String>>>()?;
    let outputs = n.outputs.iter().map(desc).collect::<Option<Vec<String>>>()?;
    let own = n.attrs.as_slice().iter().filter(|a| !a.key.as_str().starts_with('_'));
    let mut attrs: Vec<String> = own.map(|a| format!("{}={:?}", a.key.as_str(), a.value)).collect();
    attrs.sort();
    let (inputs, outputs, attrs) = (inputs.join(","), outputs.join(","), attrs.join(","));
    Some(format!("{}/{}({inputs})->({outputs}){{{attrs}}}", n.engine, n.op))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(cpu: &str, kernel: &str, schedule: &str) -> Entry {
        let (cpu, kernel, schedule) = (cpu.to_owned(), kernel.to_owned(), schedule.to_owned());
        Entry { cpu, kernel, schedule, us: 1.0, default_us: 2.0 }
    }

    #[test]
    fn what_is_measured_anew_takes_the_place_of_what_stood_there() {
        let mut t =
            Tuning { schema: 1, entries: vec![entry("a", "k", "1"), entry("a", "l", "1"), entry("b", "k", "1")] };
        t.put("a", [("k".to_owned(), None), ("m".to_owned(), Some(entry("a", "m", "2")))].into());
        assert_eq!(t.entries, [entry("a", "l", "1"), entry("a", "m", "2"), entry("b", "k", "1")]);
    }
}
