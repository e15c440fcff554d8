//! Import: detects the type of a model file by its content and turns it into a graph, including the
//! files beside it that it refers to (`beside`).
use super::beside::Beside;
pub use super::beside::map;
use super::origins::Origins;
use super::{file_constants, kinds, symbols};
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_compiler::prepare::fixed_input_pass::FIXED;
use ge_ir::graph::give_names;
use ge_plugin::Registry;
use ge_plugin_api::frontend::{FileRef, ImportOptions, InputShape, Provenance};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{Blob, ConstTensor};
use std::collections::BTreeMap;
use std::path::Path;

/// Type of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// An OM file.
    Om,
    /// ge's text form.
    Text,
    /// Any other format; a front end must recognise it.
    Foreign,
}

/// Detects the type of a file by its content.
pub fn kind_of(bytes: &[u8]) -> FileKind {
    if bytes.starts_with(b"IMOD") {
        return FileKind::Om;
    }
    let head = &bytes[..bytes.len().min(4096)];
    if let Ok(text) = std::str::from_utf8(head).or_else(|e| std::str::from_utf8(&head[..e.valid_up_to()])) {
        let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#'));
        if first.is_some_and(|l| l.starts_with("graph")) || (first.is_none() && text.trim_start().starts_with('#')) {
            return FileKind::Text;
        }
    }
    FileKind::Foreign
}

/// Parses `--input-shape "x:1,3,224,224;y:?"`.
pub fn parse_input_shapes(text: &str) -> Result<ImportOptions> {
    let bad = |part: &str, why: &str| {
        Diagnostic::error(format!("`--input-shape` has an entry that cannot be read: `{part}`"))
            .atc("E10002")
            .found(part.to_owned(), why.to_owned())
            .help("for example `--input-shape \"x:1,3,224,224;mask:1,128\"`; a size may be `?`, a range as in `x:1..32,3`, or a letter for sizes that inputs share as in `x:N=1..32,3;y:N`; a whole shape `?` is of unknown rank")
            .raise(ge_codes::INPUT_SHAPE)
    };
    let mut out = ImportOptions::default();
    for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
        let (name, dims) = part.rsplit_once(':').ok_or_else(|| bad(part, "NAME:SIZE,SIZE,…"))?;
        let dims = dims.trim();
        if name.trim().is_empty() {
            return Err(bad(part, "a name before the last `:`"));
        }
        let mut shape = InputShape { name: name.trim().into(), unranked: dims == "?", ..InputShape::default_shape() };
        if !shape.unranked && !dims.is_empty() {
            for d in dims.split(',') {
                let why = "whole sizes of at least 0, `?`, ranges as `1..32`, letters as `N` or `N=1..32`";
                shape.dims.push(match symbols::Asked::parse(d.trim()).ok_or_else(|| bad(part, why))? {
                    symbols::Asked::Size(n) => n,
                    symbols::Asked::Open { .. } => -1,
                });
            }
        }
        if out.input_shapes.iter().any(|s| s.name == shape.name) {
            return Err(bad(part, "each input once"));
        }
        out.input_shapes.push(shape);
    }
    Ok(out)
}

trait DefaultShape {
    fn default_shape() -> InputShape;
}
impl DefaultShape for InputShape {
    fn default_shape() -> InputShape {
        InputShape { name: Default::default(), dims: Default::default(), unranked: false }
    }
}

/// A model as built by its front end.
pub struct Imported {
    /// The graphs of the model.
    pub model: ge_ir::Model,
    /// What the source model says about its nodes.
    pub origins: Origins,
    /// Nodes that the front end cannot import, each with its reasons; the graph has placeholder
    /// nodes for them.
    pub refused: Vec<Diagnostic>,
}

/// Attribute of a placeholder node for one that cannot be imported; it holds the reasons.
const REFUSED: &str = "_refused";

/// Builds the graph of a model file with the front end that recognises it.
///
/// # Errors
/// Fails if no front end reads the file, if it is damaged, or if it has nodes without a mapping;
/// the error then lists all of them.
pub fn import(registry: &Registry, path: &Path, bytes: Blob, options: &ImportOptions) -> Result<ge_ir::Model> {
    let i = import_whole(registry, path, bytes, options)?;
    if i.refused.is_empty() { Ok(i.model) } else { Err(Error::all(ErrorKind::UNSUPPORTED, i.refused)) }
}

/// Like [`import`], but returns nodes without a mapping beside the graph instead of failing.
///
/// # Errors
/// Fails if no front end reads the file or if it is damaged.
pub fn import_whole(registry: &Registry, path: &Path, bytes: Blob, options: &ImportOptions) -> Result<Imported> {
    let shown = path.display().to_string();
    let file = FileRef { path: shown.as_str().into(), bytes };
    let Some(front) = registry.frontends().iter().find(|f| f.recognises(&file)) else {
        return Err(unreadable(registry, &shown, &file.bytes));
    };
    let beside = Beside::of(path);
    let place = || ge_plugin_api::diagnostic::Place { file: shown.as_str().into(), line: 0, column: 0 };
    let edits = front.import(&file, options, &beside).map_err(|mut e| {
        // Formats with the same encoding can look alike to a front end.
        if e.kind == ErrorKind::DAMAGED && kinds::is_tensorflow(&shown, &file.bytes) {
            return unreadable(registry, &shown, &file.bytes);
        }
        for d in e.diagnostics.iter_mut().filter(|d| d.place.is_none()) {
            d.place = Some(place()).into();
        }
        e
    })?;
    let name = path.file_stem().map_or_else(|| "main".to_owned(), |s| s.to_string_lossy().into_owned());
    let mut model = ge_ir::Model::new(&name);
    model.apply(0, edits).map_err(|e| {
        Diagnostic::error(format!("front end {} built no sound graph from `{shown}`: {e}", front.framework))
            .raise(ge_codes::BROKEN_MODEL)
    })?;
    let mut out = Imported { model, origins: Origins::default(), refused: Vec::new() };
    for g in out.model.graphs_mut() {
        if let Some(provenance) = Provenance::take(g.attrs_mut()) {
            give_names(g, provenance.tensors());
            for (id, text) in provenance.origins() {
                g.get(id).into_iter().for_each(|n| out.origins.add(n.name(), text));
            }
        }
        for n in g.nodes() {
            out.refused.extend(reasons(n).into_iter().map(|mut d| {
                d.place = Some(place()).into();
                d
            }));
        }
    }
    file_constants::read(&mut out.model, &beside)?;
    out.model.compact();
    Ok(out)
}

/// The error for an OM file where a model is asked for.
pub fn compiled_already(path: &Path) -> Error {
    Diagnostic::error(format!("`{}` is an OM file: it is compiled already", path.display()))
        .help("run it with `ge run`, or look into it with `ge inspect`")
        .raise(ge_codes::COMPILED_ALREADY)
}

/// Whether a node is a placeholder for one that cannot be imported.
pub fn is_refused(n: &ge_ir::Node) -> bool {
    n.attr(REFUSED).is_some()
}

/// Why a node cannot be imported, as its front end stored it: code, message, operator, subject,
/// found, expected, help and notes.
fn reasons(n: &ge_ir::Node) -> Vec<Diagnostic> {
    let Some(ge_ir::AttrValue::List(list)) = n.attr(REFUSED) else { return Vec::new() };
    let one = |v: &ge_ir::AttrValue| {
        let t = v.as_strs()?;
        let at = |i: usize| t.get(i).copied().unwrap_or("");
        let mut d = Diagnostic::error(at(1)).code(at(0)).node(n.name(), at(2)).subject(at(3));
        if !at(4).is_empty() || !at(5).is_empty() {
            d = d.found(at(4), at(5));
        }
        d = t.iter().skip(7).fold(d, |d, note| d.note(*note));
        Some(d.help(at(6)))
    };
    list.iter().filter_map(one).collect()
}

/// Makes the error for a file that is not a model: what it looks like, and what to do with it.
fn unreadable(registry: &Registry, shown: &str, bytes: &[u8]) -> Error {
    let known: Vec<&str> = registry.frontends().iter().map(|f| f.framework.as_str()).collect();
    let known = if known.is_empty() { "(no front end is enabled)".into() } else { known.join(", ") };
    let (what, help) = kinds::of(shown, bytes);
    Diagnostic::error(format!("`{shown}` is no model that an enabled front end can read"))
        .found(what, format!("an OM file, ge's text form, or a model of: {known}"))
        .help(help)
        .raise(ge_codes::NO_FRONT_END)
}

/// Parses a graph in text form. Its side files are searched beside it.
pub fn parse_text(path: &Path, bytes: &[u8]) -> Result<ge_ir::Model> {
    let shown = path.display().to_string();
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Diagnostic::error(format!("`{shown}` is not text: byte {} is no UTF-8", e.valid_up_to()))
            .at(shown.clone(), 0, 0)
            .raise(ge_codes::TEXT_FORM)
    })?;
    let files = Beside::of(path);
    let mut model = ge_ir::text::parse(text, &shown, &files).map_err(|d| ge_codes::by_first(d, ge_codes::TEXT_FORM))?;
    file_constants::read(&mut model, &files)?;
    Ok(model)
}

/// Adds to an error the place of each node that it names: the line in a text, otherwise the file.
pub fn placed(path: &Path, mut e: Error) -> Error {
    let open = e.diagnostics.iter().any(|d| d.place.is_none() && !d.node.is_empty());
    let Some(bytes) = open.then(|| map(path).ok()).flatten() else { return e };
    let (shown, files) = (path.display().to_string(), Beside::of(path));
    if kind_of(&bytes) == FileKind::Text {
        let text = std::str::from_utf8(&bytes).ok();
        if let Some((model, places)) = text.and_then(|t| ge_ir::text::parse_placed(t, &shown, &files).ok()) {
            places.locate(&model, &mut e.diagnostics);
        }
        return e;
    }
    for d in e.diagnostics.iter_mut().filter(|d| d.place.is_none() && !d.node.is_empty()) {
        d.place = Some(ge_plugin_api::diagnostic::Place { file: shown.as_str().into(), line: 0, column: 0 }).into();
    }
    e
}

/// Sets the input shapes that the user asks for in a graph in text form. What is left open stays as
/// the graph says; a size that is given for a name holds wherever the name stands.
///
/// # Errors
/// Fails if an input is unknown, if a shape contradicts the graph, or if a name gets two sizes.
pub fn give_shapes(model: &mut ge_ir::Model, options: &ImportOptions) -> Result<()> {
    let inputs: Vec<(String, ge_ir::NodeId)> =
        model.root().data_nodes().iter().map(|n| (n.name().to_owned(), n.id())).collect();
    let mut sizes = BTreeMap::new();
    for s in &options.input_shapes {
        let Some((name, id)) = inputs.iter().find(|(n, _)| n == s.name.as_str()) else {
            return Err(crate::options::unknown_name("input", &s.name, inputs.iter().map(|(n, _)| n.as_str())));
        };
        let Some(d) = model.root_mut().output_mut(ge_ir::ValueRef::new(*id, 0)) else { continue };
        if s.unranked {
            continue;
        }
        let asked = ge_ir::Shape::from_i64(&s.dims);
        if d.shape.is_unranked() {
            d.shape = asked;
            continue;
        }
        let fits =
            |(known, asked): (&ge_ir::Dim, &ge_ir::Dim)| !known.is_known() || !asked.is_known() || known == asked;
        if d.shape.rank() != asked.rank() || !d.shape.dims().iter().zip(asked.dims()).all(fits) {
            return Err(Diagnostic::error(format!("`--input-shape` does not fit input `{name}`"))
                .found(format!("{:?}", s.dims), format!("{}", d.shape))
                .raise(ge_codes::INPUT_SHAPE));
        }
        for (own, asked) in d.shape.dims_mut().iter_mut().zip(asked.dims()) {
            let Some(size) = asked.size() else { continue };
            own.symbol_name().into_iter().try_for_each(|name| symbols::bind(&mut sizes, name, size))?;
            *own = *asked;
        }
    }
    symbols::settle(model, &sizes);
    Ok(())
}

/// Fixes an input of the model to one value: its readers read a constant, and a run with another
/// value is rejected.
///
/// # Errors
/// Fails if the node is not an input, or if the tensor's bytes do not match its type and sizes.
pub fn fix_input(model: &mut ge_ir::Model, id: ge_ir::NodeId, t: &HostTensor) -> Result<()> {
    let value = ConstTensor::new(t.dtype, &t.dims, Blob::copy_of(t.bytes()))
        .ok_or_else(|| Error::usage("the value of an input does not fit its own shape"))?;
    let mut p = Patch::starting_at(model.root().next_id());
    p.set_attr(id, FIXED, value);
    model.apply(0, p.into_edits().into()).map(|_| ()).map_err(|e| Error::usage(e.to_string()))
}
