//! Files that name nodes: `ge.exec.keep_dtype` (one name per line) and `ge.customizeDtypes` (types
//! for the inputs and outputs of a node or an operator). A name that the model does not have is an
//! error, which suggests the nearest name. A fused node also goes by the names of its original
//! nodes.
use super::mode::{MIX_LIST, Rule};
use crate::error::OptionFault;
use crate::error::Result;
use crate::options::Options;
use crate::toolbox::Toolbox;
use ge_ir::{DType, Model, Node};
use ge_plugin_api::fusion::ORIGINALS;
use std::collections::{BTreeMap, BTreeSet};

/// Reads the text of a file that an option names.
pub(super) fn read(option: &'static str, path: &str) -> Result<String> {
    let unreadable = |e: std::io::Error| OptionFault::Unreadable { option, path: path.into(), why: e.to_string() };
    Ok(std::fs::read_to_string(path).map_err(unreadable)?)
}

/// Name of the option whose file lists nodes that keep the model's types.
pub const KEEP: &str = "ge.exec.keep_dtype";
/// Name of the option that lists nodes that keep the model's types, as a JSON list that a
/// calibration has found.
pub const KEEP_NAMES: &str = "ge.x.keep_dtype";
/// Name of the option whose file gives types to nodes and operators.
pub const CUSTOM: &str = "ge.customizeDtypes";

/// Types for which a line of the file asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Types {
    /// Types of the inputs, in their order.
    pub inputs: Vec<DType>,
    /// Types of the outputs, in their order.
    pub outputs: Vec<DType>,
}

/// Types for which `ge.customizeDtypes` asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Custom {
    /// Types by node name; these take precedence over those by operator type.
    pub by_name: BTreeMap<String, Types>,
    /// Types by operator type.
    pub by_type: BTreeMap<String, Types>,
}

/// The lines of a file with their numbers from 1, without empty lines and comments (`#`).
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())).filter(|(_, l)| !l.is_empty() && !l.starts_with('#'))
}

/// Names of the nodes that the user's file keeps in their types.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn kept(options: &Options) -> Result<BTreeSet<String>> {
    Ok(match options.keep_dtype.as_str() {
        "" => BTreeSet::new(),
        path => lines(&read(KEEP, path)?).map(|(_, l)| l.to_owned()).collect(),
    })
}

/// Names of the nodes that a calibration keeps in their types. Passes may have made some of them,
/// so they need not be in the user's model.
///
/// # Errors
/// Fails if the value is not a list of names.
pub fn calibrated(options: &Options) -> Result<BTreeSet<String>> {
    match options.keep_names.as_str() {
        "" => Ok(BTreeSet::new()),
        text => Ok(serde_json::from_str(text).map_err(|e| OptionFault::Value {
            option: KEEP_NAMES,
            what: format!("cannot be read: {e}"),
            help: "give a JSON list of names: `[\"conv1\", \"conv2\"]`".into(),
        })?),
    }
}

/// The types that the user's file gives.
///
/// # Errors
/// Fails if the file cannot be read, or if a line has none of the two forms.
pub fn custom(options: &Options) -> Result<Custom> {
    match options.customize_dtypes.as_str() {
        "" => Ok(Custom::default()),
        path => {
            let bad = |why| OptionFault::File {
                option: CUSTOM,
                path: path.into(),
                why,
                form: "a line is `NODE::InputDtype:float16,float16,OutputDtype:float16` or \
                       `OpType::TYPE:InputDtype:…,OutputDtype:…`",
            };
            Ok(parse(&read(CUSTOM, path)?).map_err(bad)?)
        }
    }
}

fn parse(text: &str) -> std::result::Result<Custom, String> {
    let mut out = Custom::default();
    for (at, line) in lines(text) {
        let bad = |why: String| format!("line {at}: {why}");
        let (of_type, rest) = match line.strip_prefix("OpType::") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let sign = if of_type { ":" } else { "::" };
        let found = ["InputDtype:", "OutputDtype:"].iter().filter_map(|k| rest.find(&format!("{sign}{k}"))).min();
        let Some(end) = found else { return Err(bad(format!("`{line}` gives no types"))) };
        let (name, given) = (&rest[..end], &rest[end + sign.len()..]);
        if name.is_empty() {
            return Err(bad("it names nothing".into()));
        }
        let (ins, outs) = given.split_once("OutputDtype:").unwrap_or((given, ""));
        let list = |s: &str| -> std::result::Result<Vec<DType>, String> {
            let words = s.split(',').map(str::trim).filter(|w| !w.is_empty());
            words.map(|w| dtype(w).ok_or_else(|| bad(format!("`{w}` is no type")))).collect()
        };
        let types = Types { inputs: list(ins.strip_prefix("InputDtype:").unwrap_or(""))?, outputs: list(outs)? };
        let to = if of_type { &mut out.by_type } else { &mut out.by_name };
        if to.insert(name.to_owned(), types).is_some() {
            return Err(bad(format!("`{name}` is given twice")));
        }
    }
    Ok(out)
}

/// Parses the name of a type, as atc or as ge writes it.
fn dtype(word: &str) -> Option<DType> {
    Some(match word {
        "float" | "float32" | "fp32" => DType::F32,
        "float16" | "fp16" => DType::F16,
        "bfloat16" => DType::BF16,
        "double" => DType::F64,
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "uint16" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        own => return DType::from_name(own).filter(|t| *t != DType::UNKNOWN),
    })
}

/// The names of a node: its own, and those of the nodes that were fused into it.
pub fn names_of(n: &Node) -> impl Iterator<Item = &str> {
    std::iter::once(n.name()).chain(n.attrs().strs(ORIGINALS).into_iter().flatten())
}

/// Checks that the model has all names of nodes, and that an operator has each name of a type,
/// that the options give. A node may also be named as `GRAPH/NODE`.
///
/// # Errors
/// Fails if there is nothing with some of the names; the error suggests the nearest ones. Fails if
/// a file or list of names cannot be read.
pub fn check(model: &Model, options: &Options, toolbox: &Toolbox) -> Result<()> {
    let (keep, custom) = (kept(options)?, custom(options)?);
    // These names need not be in the model, but they must be names.
    calibrated(options)?;
    if !keep.is_empty() || !custom.by_name.is_empty() {
        let known = names_in(model);
        Asked { option: KEEP, value: &options.keep_dtype, names: keep.iter().collect() }.are_nodes(&known)?;
        let names = custom.by_name.keys().collect();
        Asked { option: CUSTOM, value: &options.customize_dtypes, names }.are_nodes(&known)?;
    }
    let mode = super::mode::mode(options, &toolbox.target.soc)?;
    let colours = mode.as_ref().map(|m| &m.rule).into_iter().flat_map(Rule::named).collect();
    let types = Asked { option: CUSTOM, value: &options.customize_dtypes, names: custom.by_type.keys().collect() };
    let colours = Asked { option: MIX_LIST, value: &options.modify_mixlist, names: colours };
    for asked in [types, colours].into_iter().filter(|a| !a.names.is_empty()) {
        let made = model.graphs().iter().flat_map(|g| g.nodes()).map(|n| n.op().to_owned());
        asked.are_operators(&toolbox.op_names().map(str::to_owned).chain(made).collect())?;
    }
    Ok(())
}

/// The names by which the nodes of a model can be named.
fn names_in(model: &Model) -> BTreeSet<String> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (g, n) in model.graphs().iter().flat_map(|g| g.nodes().map(move |n| (g, n))) {
        known.extend(names_of(n).map(str::to_owned));
        known.insert(format!("{}/{}", g.name(), n.name()));
    }
    known
}

/// Names that the file of an option gives.
struct Asked<'a> {
    option: &'static str,
    value: &'a str,
    names: Vec<&'a String>,
}

impl Asked<'_> {
    /// Fails if the model has no node for one of the names.
    fn are_nodes(&self, known: &BTreeSet<String>) -> Result<()> {
        let show = "`ge inspect MODEL --what graph` lists the names";
        self.are_in(known, "names what the model has not", show)
    }

    /// Fails if no operator has one of the names.
    fn are_operators(&self, known: &BTreeSet<String>) -> Result<()> {
        let show = "`ge inspect MODEL --what graph` lists the types of the model's nodes, docs/operators.md all";
        self.are_in(known, "names operators that no plugin has", show)
    }

    fn are_in(&self, known: &BTreeSet<String>, what: &str, show: &str) -> Result<()> {
        let unknown: Vec<&&String> = self.names.iter().filter(|n| !known.contains(**n)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let said: Vec<String> = unknown.iter().take(10).map(|n| format!("`{n}`")).collect();
        let more = unknown.len().saturating_sub(said.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let near = |n: &&&String| Some(format!("`{}` for `{n}`", nearest(n, known)?));
        let meant: Vec<String> = unknown.iter().take(10).filter_map(near).collect();
        let meant = if meant.is_empty() { String::new() } else { format!("did you mean {}? ", meant.join(", ")) };
        Err(OptionFault::Model {
            option: self.option,
            value: self.value.to_owned(),
            what: format!("{what}: {}{more}", said.join(", ")),
            help: format!("{meant}{show}"),
        }
        .into())
    }
}

/// The known name that is nearest to `name`, unless they differ by more than a quarter of it and
/// two letters.
fn nearest<'k>(name: &str, known: &'k BTreeSet<String>) -> Option<&'k String> {
    let plain = known.iter().filter(|k| !k.contains('/') || name.contains('/'));
    let by_distance = plain.map(|k| (strsim::levenshtein(name, k), k)).min();
    by_distance.filter(|(d, k)| *d <= 2 + k.len() / 4).map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_line_are_read() {
        let c = parse(
            "# first\n/block/Relu::InputDtype:float16,OutputDtype:float\n\nOpType::MatMulV2:InputDtype:bf16,bf16,OutputDtype:bf16\n\
             a::b::OutputDtype:float16",
        )
        .unwrap();
        assert_eq!(c.by_name["/block/Relu"], Types { inputs: vec![DType::F16], outputs: vec![DType::F32] });
        assert_eq!(c.by_type["MatMulV2"], Types { inputs: vec![DType::BF16; 2], outputs: vec![DType::BF16] });
        assert_eq!(c.by_name["a::b"], Types { inputs: vec![], outputs: vec![DType::F16] });
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_line() {
        let why = |t: &str| parse(t).unwrap_err();
        assert_eq!(why("a::InputDtype:float17"), "line 1: `float17` is no type");
        assert_eq!(why("\nRelu:float16"), "line 2: `Relu:float16` gives no types");
        assert_eq!(why("::InputDtype:float16"), "line 1: it names nothing");
        assert_eq!(why("a::InputDtype:float\na::InputDtype:float"), "line 2: `a` is given twice");
    }
}
