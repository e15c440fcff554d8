//! Front ends: from a model file to a graph, and mappings of single operators that any plugin may
//! add.
use crate::abi::erase::RawSlice;
use crate::abi::table::abi_object;
use crate::abi::{ROption, RResult, RString, RVec, StableAbi, guard};
use crate::diagnostic::{Diagnostic, Error, Result};
use crate::patch::{Edit, NamedValue, Patch};
use crate::types::{Attr, AttrMap, AttrValue, Blob, ConstTensor, Key, NodeId, TensorDesc, ValueRef};

mod provenance;
pub use provenance::Provenance;

/// A model file as the host mapped it.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct FileRef {
    /// Path as the user named it.
    pub path: RString,
    /// Its bytes, mapped and shared: slices of it make constants without a copy.
    pub bytes: Blob,
}

/// Opens files that a model names, relative to it. The host refuses paths that leave the model's
/// folder.
/// # Examples
/// ```
/// use ge_plugin_api::frontend::{GraphBuilder, RelativeFiles};
/// use ge_plugin_api::types::Blob;
/// use ge_plugin_api::{Error, Result};
///
/// /// One file in memory: how a front end is tested.
/// struct OneFile;
///
/// impl RelativeFiles for OneFile {
///     fn open_relative(&self, path: &str) -> Result<Blob> {
///         if path == "w.bin" { Ok(Blob::copy_of(&[1, 2, 3])) } else { Err(Error::damaged(format!("no file `{path}`"))) }
///     }
/// }
/// let builder = GraphBuilder::new(Some(&OneFile));
/// assert_eq!(builder.open_relative("w.bin")?.as_slice(), [1, 2, 3]);
/// assert!(builder.open_relative("other.bin").is_err());
/// # Ok::<(), Error>(())
/// ```
pub trait RelativeFiles {
    /// The whole file, mapped.
    /// # Errors
    /// `damaged`: the path leaves the model's folder, or there is no such file.
    fn open_relative(&self, path: &str) -> Result<Blob>;
}

/// User's wishes for the import.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct ImportOptions {
    /// Shapes of inputs by name (`--input-shape`); -1 is unknown.
    pub input_shapes: RVec<InputShape>,
}

/// A shape that the user gave an input.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct InputShape {
    /// Input's name.
    pub name: RString,
    /// Sizes, -1 unknown.
    pub dims: RVec<i64>,
    /// Whether `?` alone was given: unknown rank.
    pub unranked: bool,
}

/// A front end.
/// # Examples
/// ```
/// use ge_plugin_api::frontend::{FileRef, Frontend, GraphBuilder, ImportOptions};
/// use ge_plugin_api::types::{Blob, DType, Shape, TensorDesc};
/// use ge_plugin_api::{Error, Result};
///
/// /// Files of two lines: `tiny`, and the number of values that are doubled.
/// struct Tiny;
///
/// impl Frontend for Tiny {
///     fn framework(&self) -> String {
///         "tiny".to_owned()
///     }
///     fn recognises(&self, file: &FileRef) -> bool {
///         file.bytes.as_slice().starts_with(b"tiny\n")
///     }
///     fn import(&self, file: &FileRef, _: &ImportOptions, builder: &mut GraphBuilder<'_>) -> Result<()> {
///         let text = std::str::from_utf8(file.bytes.as_slice()).map_err(|e| Error::damaged(e.to_string()))?;
///         let count = text.lines().nth(1).and_then(|l| l.parse().ok());
///         let count: u64 = count.ok_or_else(|| Error::damaged("line 2 is no number"))?;
///         let x = builder.data("x", 0, TensorDesc::new(DType::F32, Shape::of(&[count])));
///         let y = builder.node("Add").name("double").input(x).input(x).build();
///         builder.outputs(&[("y".to_owned(), y)]);
///         Ok(())
///     }
/// }
/// let file = FileRef { path: "m.tiny".into(), bytes: Blob::copy_of(b"tiny\n4\n") };
/// let mut builder = GraphBuilder::new(None);
/// assert!(Tiny.recognises(&file));
/// Tiny.import(&file, &ImportOptions::default(), &mut builder)?;
/// assert_eq!(builder.into_patch().edits().len(), 3);
/// # Ok::<(), Error>(())
/// ```
pub trait Frontend: Send + Sync {
    /// Framework's name (`onnx`).
    fn framework(&self) -> String;
    /// Whether a file is of this framework, by its content (the whole file is given; look at as
    /// little as needed).
    fn recognises(&self, file: &FileRef) -> bool;
    /// Builds the graph. All errors of a kind are collected.
    /// # Errors
    /// `damaged`: the file is not what it claims; `unsupported`: operators that have no mapping,
    /// all of them.
    fn import(&self, file: &FileRef, options: &ImportOptions, builder: &mut GraphBuilder<'_>) -> Result<()>;
}

/// A node of a foreign model as a mapping sees it.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct ForeignNode {
    /// Name (made up by the front end's rule where the model has none).
    pub name: RString,
    /// Operator.
    pub op: RString,
    /// Domain (`ai.onnx` for the default one).
    pub domain: RString,
    /// Version of the domain's operator set that the model imports.
    pub version: u32,
    /// Attributes; subgraphs as `AttrValue::Graph` with the name of the graph already built.
    pub attrs: AttrMap,
    /// Inputs; absent ones are `ValueRef::ABSENT`.
    pub inputs: RVec<ValueRef>,
    /// Names of the inputs in the model.
    pub input_names: RVec<RString>,
    /// What is known of the inputs while importing; unknown where nothing is.
    pub input_descs: RVec<TensorDesc>,
    /// Constants behind the inputs.
    pub constants: RVec<ROption<ConstTensor>>,
    /// Names of the outputs; empty: not wanted.
    pub output_names: RVec<RString>,
}

impl ForeignNode {
    /// Input `i`, which must be there.
    /// # Errors
    /// `failed`: the node has no input `i`.
    pub fn input(&self, i: usize) -> Result<ValueRef> {
        self.opt_input(i).ok_or_else(|| {
            Diagnostic::error(format!("input {i} of {} is missing", self.op))
                .code(crate::diagnostic::NO_EXTERNAL_DATA)
                .node(self.name.as_str(), self.op.as_str())
                .found(format!("{} inputs", self.inputs.len()), format!("at least {}", i + 1))
                .of(crate::diagnostic::ErrorKind::DAMAGED)
        })
    }
    /// Input `i`, if given.
    pub fn opt_input(&self, i: usize) -> Option<ValueRef> {
        self.inputs.get(i).copied().filter(|v| !v.is_absent())
    }
    /// The constant behind input `i`, if it is one.
    pub fn constant(&self, i: usize) -> Option<&ConstTensor> {
        match self.constants.get(i)? {
            ROption::RSome(t) => Some(t),
            ROption::RNone => None,
        }
    }
    /// What is known of input `i`.
    pub fn desc(&self, i: usize) -> Option<&TensorDesc> {
        self.input_descs.get(i)
    }
    /// Number of outputs wanted (trailing empty names not counted).
    pub fn output_count(&self) -> usize {
        self.output_names.iter().rposition(|n| !n.is_empty()).map_or(0, |p| p + 1)
    }
    /// A whole-number attribute with a default.
    pub fn int_or(&self, name: &str, default: i64) -> i64 {
        self.attrs.int(name).unwrap_or(default)
    }
    /// A real-number attribute with a default.
    pub fn float_or(&self, name: &str, default: f64) -> f64 {
        self.attrs.float(name).unwrap_or(default)
    }
    /// A text attribute with a default.
    pub fn str_or<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.attrs.str(name).unwrap_or(default)
    }
    /// A refusal of this node, in words.
    pub fn refuse(&self, reason: impl Into<String>) -> Error {
        Diagnostic::error(format!(
            "cannot import `{}` ({}, {} {}): {}",
            self.name,
            self.op,
            self.domain,
            self.version,
            reason.into()
        ))
        .code(crate::diagnostic::NOT_MAPPED)
        .node(self.name.as_str(), self.op.as_str())
        .of(crate::diagnostic::ErrorKind::UNSUPPORTED)
    }
}

/// The mapping of one foreign operator: makes nodes and gives the values of the foreign node's
/// outputs, in order. [`map_op!`](crate::map_op) makes one of a function.
///
/// # Examples
/// ```
/// use ge_plugin_api::Result;
/// use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, Mapping};
/// use ge_plugin_api::types::ValueRef;
///
/// /// `Swish(x)` of the domain `com.acme` is `x * Sigmoid(x)`.
/// struct Swish;
///
/// impl Mapping for Swish {
///     fn framework(&self) -> String {
///         "onnx".to_owned()
///     }
///     fn domain(&self) -> String {
///         "com.acme".to_owned()
///     }
///     fn op(&self) -> String {
///         "Swish".to_owned()
///     }
///     fn versions(&self) -> (u32, u32) {
///         (1, u32::MAX)
///     }
///     fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
///         let x = node.input(0)?;
///         let gate = builder.node("Sigmoid").input(x).build();
///         Ok(vec![builder.node("Mul").name(&node.name).input(x).input(gate).build()])
///     }
/// }
/// let mut builder = GraphBuilder::new(None);
/// // A node without its input is an error that names what is missing.
/// assert!(Swish.map(&ForeignNode::default(), &mut builder).is_err());
/// ```
pub trait Mapping: Send + Sync {
    /// `onnx`.
    fn framework(&self) -> String;
    /// Domain (`ai.onnx` for the default one).
    fn domain(&self) -> String;
    /// Operator.
    fn op(&self) -> String;
    /// Versions it holds for, both ends included.
    fn versions(&self) -> (u32, u32);
    /// Builds nodes; the outputs' values.
    /// # Errors
    /// `unsupported`: the node has an attribute, type or form that the mapping does not translate; `failed`:
    /// an input is missing.
    fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>>;
}

/// Builds a graph node by node: the recording form of a patch, with names and scopes.
/// # Examples
/// ```
/// use ge_plugin_api::frontend::GraphBuilder;
/// use ge_plugin_api::types::{DType, Shape, TensorDesc};
///
/// let mut builder = GraphBuilder::new(None);
/// let x = builder.data("x", 0, TensorDesc::new(DType::F32, Shape::of(&[2, 3])));
/// let axes = builder.ints("axes", &[1]);
/// // Outputs that are not described are inferred.
/// let mean = builder.node("ReduceMean").name("mean").input(x).input(axes).attr("keep_dims", true).build();
/// builder.outputs(&[("y".to_owned(), mean)]);
/// assert_eq!(builder.into_patch().edits().len(), 4);
/// ```
pub struct GraphBuilder<'a> {
    patch: Patch,
    files: Option<&'a dyn RelativeFiles>,
    prefix: String,
    controls: Vec<NodeId>,
}

impl<'a> GraphBuilder<'a> {
    /// An empty builder; `files` opens what the model names.
    pub fn new(files: Option<&'a dyn RelativeFiles>) -> GraphBuilder<'a> {
        GraphBuilder { patch: Patch::for_new_graph(), files, prefix: String::new(), controls: Vec::new() }
    }
    /// Goes on recording into an existing patch (mappings across the border).
    pub fn resume(patch: Patch, files: Option<&'a dyn RelativeFiles>) -> GraphBuilder<'a> {
        GraphBuilder { patch, files, prefix: String::new(), controls: Vec::new() }
    }
    /// Names of nodes made from now on that are not given by the model start with this (`conv1/`).
    pub fn set_prefix(&mut self, prefix: &str) {
        self.prefix = prefix.to_owned();
    }
    /// A graph input: a `Data` node with its index.
    pub fn data(&mut self, name: &str, index: u32, desc: TensorDesc) -> ValueRef {
        let mut a = AttrMap::default();
        a.set("index", i64::from(index));
        ValueRef::new(self.patch.add("Data", name, &[], vec![desc], a), 0)
    }
    /// A constant.
    pub fn constant(&mut self, name: &str, tensor: ConstTensor) -> ValueRef {
        self.patch.constant(name, tensor)
    }
    /// A small constant made by a mapping; named after the prefix.
    pub fn ints(&mut self, name: &str, values: &[i64]) -> ValueRef {
        let t = ConstTensor::of(&[values.len() as u64], values);
        let full = format!("{}{name}", self.prefix);
        match t {
            Some(t) => self.patch.constant(&full, t),
            None => ValueRef::ABSENT,
        }
    }
    /// A constant made by a mapping; named after the prefix.
    pub fn made_constant(&mut self, name: &str, tensor: ConstTensor) -> ValueRef {
        let full = format!("{}{name}", self.prefix);
        self.patch.constant(&full, tensor)
    }
    /// Starts a node.
    pub fn node<'b>(&'b mut self, op: &str) -> NodeBuilder<'b, 'a> {
        NodeBuilder {
            op: op.to_owned(),
            name: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attrs: AttrMap::default(),
            controls: Vec::new(),
            builder: self,
        }
    }
    /// The graph's outputs, in order.
    pub fn outputs(&mut self, outputs: &[(String, ValueRef)]) {
        let v = outputs.iter().map(|(n, v)| NamedValue { name: n.as_str().into(), value: *v }).collect();
        self.patch.push(Edit::SetGraphOutputs(v));
    }
    /// An attribute of the graph.
    pub fn graph_attr(&mut self, key: &str, value: impl Into<AttrValue>) {
        self.patch.push(Edit::SetGraphAttr(Attr { key: Key::new(key), value: value.into() }));
    }
    /// Goes to another graph (a new one if there is none of that name); `from` is the one that is
    /// left.
    pub fn enter(&mut self, from: &str, to: &str) {
        self.patch.remember(from);
        self.patch.in_graph(to, NodeId(0));
    }
    /// A file that the model names, relative to it.
    /// # Errors
    /// `unsupported`: this model cannot name other files; else as [`RelativeFiles::open_relative`].
    pub fn open_relative(&self, path: &str) -> Result<Blob> {
        match self.files {
            Some(f) => f.open_relative(path),
            None => Err(Error::unsupported(format!("this model cannot name other files ({path})"))),
        }
    }
    /// The patch so far, to record any edit.
    pub fn patch(&mut self) -> &mut Patch {
        &mut self.patch
    }
    /// The recorded patch.
    pub fn into_patch(self) -> Patch {
        self.patch
    }
    /// Nodes made from now on follow these by control edge.
    pub fn set_controls(&mut self, controls: Vec<NodeId>) {
        self.controls = controls;
    }
}

/// A node under construction. Made by
/// [`GraphBuilder::node`], where an example is; [`build`](Self::build) or
/// [`build_n`](Self::build_n) ends it.
pub struct NodeBuilder<'b, 'a> {
    builder: &'b mut GraphBuilder<'a>,
    op: String,
    name: String,
    inputs: Vec<ValueRef>,
    outputs: Vec<TensorDesc>,
    attrs: AttrMap,
    controls: Vec<NodeId>,
}

impl NodeBuilder<'_, '_> {
    /// Name (the foreign node's own for the node that makes its output).
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }
    /// Appends an input.
    pub fn input(mut self, v: ValueRef) -> Self {
        self.inputs.push(v);
        self
    }
    /// Appends an optional input.
    pub fn opt_input(mut self, v: Option<ValueRef>) -> Self {
        self.inputs.push(v.unwrap_or(ValueRef::ABSENT));
        self
    }
    /// Appends inputs.
    pub fn inputs(mut self, v: &[ValueRef]) -> Self {
        self.inputs.extend_from_slice(v);
        self
    }
    /// Sets an attribute.
    pub fn attr(mut self, key: &str, value: impl Into<AttrValue>) -> Self {
        self.attrs.set(key, value);
        self
    }
    /// Appends an output of a known descriptor.
    pub fn output(mut self, desc: TensorDesc) -> Self {
        self.outputs.push(desc);
        self
    }
    /// Follows a node by control edge.
    pub fn after(mut self, node: NodeId) -> Self {
        self.controls.push(node);
        self
    }
    /// Makes the node with `n` outputs (unknown ones are inferred); its outputs.
    pub fn build_n(mut self, n: usize) -> Vec<ValueRef> {
        while self.outputs.len() < n {
            self.outputs.push(TensorDesc::unknown());
        }
        while self.inputs.last().is_some_and(|v| v.is_absent()) {
            self.inputs.pop();
        }
        let name = if self.name.is_empty() && !self.builder.prefix.is_empty() {
            format!("{}{}", self.builder.prefix, self.op)
        } else {
            self.name
        };
        let id = self.builder.patch.add(&self.op, &name, &self.inputs, self.outputs, self.attrs);
        for c in self.builder.controls.clone().into_iter().chain(self.controls) {
            self.builder.patch.push(Edit::AddControl(c, id));
        }
        (0..n as u32).map(|k| ValueRef::new(id, k)).collect()
    }
    /// Makes the node with one output; that output.
    pub fn build(self) -> ValueRef {
        self.build_n(1).first().copied().unwrap_or(ValueRef::ABSENT)
    }
}

/// How a plugin asks the host for a file beside the model.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawFiles {
    /// The host's context.
    pub context: *const (),
    /// Opens a file.
    pub open: unsafe extern "C" fn(*const (), RawSlice<u8>) -> RResult<Blob, Error>,
}
impl RelativeFiles for RawFiles {
    fn open_relative(&self, path: &str) -> Result<Blob> {
        // SAFETY: the host's context lives for the import.
        unsafe { (self.open)(self.context, RawSlice::of(path.as_bytes())) }.into_result()
    }
}
unsafe extern "C" fn open_for(context: *const (), path: RawSlice<u8>) -> RResult<Blob, Error> {
    guard("open_relative", || {
        // SAFETY: context is the `&dyn RelativeFiles` of `FrontendObject::import`, alive for the
        // call; paths are UTF-8.
        unsafe { (*(context as *const &dyn RelativeFiles)).open_relative(core::str::from_utf8_unchecked(path.get())) }
    })
}

abi_object! {
    /// A [`Frontend`] of a plugin.
    object FrontendObject of dyn Frontend;
    /// ABI function table of [`Frontend`].
    table FrontendTable, FrontendTableRef;
    /// Framework's name.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call framework() -> Result<String> => RResult<RString, Error> = |f| Ok(f.framework());
    /// Whether a file is of this framework.
    call recognises(file: &FileRef => *const FileRef) -> bool => bool = |f| f.recognises(file);
    /// `import`: the edits of an empty graph.
    [last_prefix_field]
    raw import(
        file: &FileRef => *const FileRef,
        options: &ImportOptions => *const ImportOptions,
        files: RawFiles => RawFiles,
    ) -> Result<Vec<Edit>> => RResult<RVec<Edit>, Error> = |f| {
        let mut b = GraphBuilder::new(Some(&files));
        f.import(file, options, &mut b)?;
        Ok(b.into_patch().into_edits().into())
    };
}

abi_object! {
    /// A [`Mapping`] of a plugin.
    object MappingObject of dyn Mapping;
    /// ABI function table of [`Mapping`].
    table MappingTable, MappingTableRef;
    /// What it maps.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call info() -> Result<MappingInfo> => RResult<MappingInfo, Error> = |m| {
        let (since, until) = m.versions();
        Ok(MappingInfo { framework: m.framework().into(), domain: m.domain().into(), op: m.op().into(), since, until })
    };
    /// `map`: edits that follow on from `next`, and the outputs' values.
    [last_prefix_field]
    raw map(node: &ForeignNode => *const ForeignNode, next: NodeId => NodeId, prefix: &str => RawSlice<u8>)
        -> Result<Mapped> => RResult<Mapped, Error> = |m| {
            let mut b = GraphBuilder::resume(Patch::starting_at(next), None);
            b.set_prefix(prefix);
            let outputs = m.map(node, &mut b)?.into();
            let patch = b.into_patch();
            let next_id = patch.next_id();
            Ok(Mapped { edits: patch.into_edits(), outputs, next_id })
        };
}

/// What a mapping maps.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct MappingInfo {
    /// Framework.
    pub framework: RString,
    /// Domain.
    pub domain: RString,
    /// Operator.
    pub op: RString,
    /// First version.
    pub since: u32,
    /// Last version.
    pub until: u32,
}

/// What a mapping made.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct Mapped {
    /// Edits.
    pub edits: RVec<Edit>,
    /// Values of the foreign node's outputs.
    pub outputs: RVec<ValueRef>,
    /// The next free id.
    pub next_id: NodeId,
}

impl MappingObject {
    /// Maps a node into a builder; the outputs' values.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        MappingRef { ptr: self.ptr(), table: self.table() }.map(node, builder)
    }
    /// Gives the mapping to the process: libraries are never unloaded, so a registered mapping
    /// lives for ever and every plugin may hold its handle.
    pub fn leak(self) -> MappingRef {
        let r = MappingRef { ptr: self.ptr(), table: self.table() };
        core::mem::forget(self);
        r
    }
}

/// A registered mapping of any plugin: a handle without a drop, for it lives as long as the
/// process.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct MappingRef {
    ptr: *const (),
    table: MappingTableRef,
}
// SAFETY: the object behind the pointer is a `Box<dyn Mapping>`, which is Send + Sync.
unsafe impl Send for MappingRef {}
// SAFETY: as above.
unsafe impl Sync for MappingRef {}
impl MappingRef {
    /// What it maps.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn info(&self) -> Result<MappingInfo> {
        // SAFETY: pointer and table belong together; the object is alive (borrowed by a
        // MappingObject, or leaked).
        unsafe { (self.table.info())(self.ptr) }.into_result()
    }
    /// Maps a node into a builder; the outputs' values.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        // SAFETY: as `info`; node and prefix live for the call.
        let made = unsafe {
            (self.table.map())(self.ptr, node, builder.patch.next_id(), RawSlice::of(builder.prefix.as_bytes()))
        }
        .into_result()?;
        builder.patch.append(made.edits.into(), made.next_id);
        Ok(made.outputs.into())
    }
}
impl core::fmt::Debug for MappingRef {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("MappingRef")
    }
}

impl FrontendObject {
    /// Imports a file: the edits that build its graphs.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn import(&self, file: &FileRef, options: &ImportOptions, files: &dyn RelativeFiles) -> Result<Vec<Edit>> {
        let files: &dyn RelativeFiles = files;
        let raw = RawFiles { context: &files as *const &dyn RelativeFiles as *const (), open: open_for };
        // SAFETY: as above; `files` lives for the call.
        unsafe { (self.table().import())(self.ptr(), file, options, raw) }.into_result().map(Vec::from)
    }
}

/// A mapping made of a function, as `map_op!` registers it.
pub struct FnMapping {
    /// Framework.
    pub framework: &'static str,
    /// Domain.
    pub domain: &'static str,
    /// Operator.
    pub op: &'static str,
    /// First version.
    pub since: u32,
    /// Last version.
    pub until: u32,
    /// Builds nodes; the outputs' values.
    pub map: fn(&ForeignNode, &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>>,
}
impl Mapping for FnMapping {
    fn framework(&self) -> String {
        self.framework.into()
    }
    fn domain(&self) -> String {
        self.domain.into()
    }
    fn op(&self) -> String {
        self.op.into()
    }
    fn versions(&self) -> (u32, u32) {
        (self.since, self.until)
    }
    fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        (self.map)(node, builder)
    }
}
