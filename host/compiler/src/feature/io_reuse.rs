//! Inputs and outputs whose memory is shared (facts 2.4, 8.4), as three graph options state it.
//!
//! - `ge.exec.inputReuseMemIndexes`: the plan may overwrite these inputs once they have been read;
//! - `ge.exec.outputReuseMemIndexes`: the plan may use the memory of these outputs until they are
//!   written;
//! - `ge.exec.outputReuseInputMemIndexes`: for each pair `in,out`, the output lies where the input
//!   lies.
use crate::error::OptionFault;
use crate::error::{CompileError, Result};
use crate::options::Options;
use ge_ir::{Model, Node};
use std::collections::{BTreeMap, BTreeSet};

/// What the three options state for one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoReuse {
    inputs: BTreeSet<u32>,
    outputs: BTreeSet<u32>,
    /// Output index by input index.
    pairs: BTreeMap<u32, u32>,
}

const INPUTS: &str = "ge.exec.inputReuseMemIndexes";
const OUTPUTS: &str = "ge.exec.outputReuseMemIndexes";
const PAIRS: &str = "ge.exec.outputReuseInputMemIndexes";

fn refuse(option: &'static str, what: impl Into<String>, help: &'static str) -> CompileError {
    OptionFault::Lent { option, what: what.into(), help }.into()
}

impl IoReuse {
    /// Reads the options and checks them against the model's inputs and outputs.
    ///
    /// # Errors
    /// Fails if an index is out of range, if a named input is not a plain `Data` node, or if an
    /// input or output occurs in two pairs or differs in size from the other of its pair.
    pub fn new(model: &Model, options: &Options) -> Result<IoReuse> {
        let mut out = IoReuse {
            inputs: options.input_reuse.clone(),
            outputs: options.output_reuse.clone(),
            pairs: BTreeMap::new(),
        };
        let pairs = &options.output_in_input;
        if out.inputs.is_empty() && out.outputs.is_empty() && pairs.is_empty() {
            return Ok(out);
        }
        let g = model.root();
        let data: BTreeMap<u32, &Node> = g
            .nodes()
            .filter(|n| matches!(n.op(), "Data" | "RefData" | "AippData"))
            .filter_map(|n| Some((u32::try_from(n.attrs().int("index").unwrap_or(0)).ok()?, n)))
            .collect();
        let given = g.net_output().map_or(0, |o| o.inputs().len() as u32);
        let input = |option: &'static str, i: u32| match data.get(&i) {
            None => Err(refuse(option, format!("there is no input {i}"), "indices count the model's inputs from 0")),
            Some(n) if n.op() != "Data" => {
                let what = format!("input {i} (`{}`) is a {}", n.name(), n.op());
                Err(refuse(option, what, "only plain inputs give their memory away"))
            }
            Some(n) => Ok(*n),
        };
        let output = |option: &'static str, k: u32| {
            let help = "indices count the model's outputs from 0";
            if k < given { Ok(()) } else { Err(refuse(option, format!("there is no output {k}"), help)) }
        };
        for i in &out.inputs {
            input(INPUTS, *i)?;
        }
        for k in &out.outputs {
            output(OUTPUTS, *k)?;
        }
        for &(i, k) in pairs {
            let n = input(PAIRS, i)?;
            output(PAIRS, k)?;
            if out.pairs.get(&i).is_some_and(|o| *o != k) || out.pairs.iter().any(|(a, o)| *o == k && *a != i) {
                let help = "an input gives its memory to one output, an output lies in one input";
                return Err(refuse(PAIRS, format!("input {i} or output {k} is in two pairs"), help));
            }
            let bytes = n.outputs().first().and_then(|d| d.data_bytes());
            let value = g.net_output().and_then(|o| o.input(k as usize));
            let asked = value.and_then(|v| g.desc(v)).and_then(|d| d.data_bytes());
            if let (Some(a), Some(b)) = (bytes, asked) {
                if a != b {
                    let what = format!("input {i} has {a} bytes, output {k} has {b}");
                    return Err(refuse(PAIRS, what, "the two have one address and one size"));
                }
            }
            out.pairs.insert(i, k);
        }
        Ok(out)
    }
    /// Whether no memory is shared.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty() && self.pairs.is_empty()
    }
    /// Whether other values may take the memory of an input once it has been read.
    pub fn frees(&self, input: u32) -> bool {
        self.inputs.contains(&input) && !self.pairs.contains_key(&input)
    }
    /// Whether other values may use the memory of an output until it is written.
    pub fn lends(&self, output: u32) -> bool {
        self.outputs.contains(&output) && self.input_of(output).is_none()
    }
    /// The output that lies in the memory of an input.
    pub fn output_of(&self, input: u32) -> Option<u32> {
        self.pairs.get(&input).copied()
    }
    /// The input in whose memory an output lies.
    pub fn input_of(&self, output: u32) -> Option<u32> {
        self.pairs.iter().find(|(_, k)| **k == output).map(|(i, _)| *i)
    }
    /// Pairs of input and output, in the order of the inputs.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.pairs.iter().map(|(i, k)| (*i, *k))
    }
}
