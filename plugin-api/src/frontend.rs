//! Front ends, which turn a model file into a graph, and mappings of single operators, which any
//! plugin may add.
use crate::abi::erase::RawSlice;
use crate::abi::table::abi_object;
use crate::abi::{ROption, RResult, RString, RVec, StableAbi, guard};
use crate::diagnostic::{Diagnostic, Error, Result};
use crate::patch::{Edit, NamedValue, Patch};
use crate::types::{Attr, AttrMap, AttrValue, Blob, ConstTensor, Key, NodeId, TensorDesc, ValueRef};

mod provenance;
pub use provenance::Provenance;

/// A model file, memory-mapped by the host.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct FileRef {
    /// Path as the user named it.
    pub path: RString,
    /// Contents, mapped and shared: slices of it become constants without a copy.
    pub bytes: Blob,
}

/// Opens files that a model refers to, by paths relative to the model. The host refuses paths that
/// leave the model's folder.
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
    /// Maps the whole file.
    /// # Errors
    /// Returns `damaged` if the path leaves the model's folder, and `usage` if the file cannot be
    /// read.
    fn open_relative(&self, path: &str) -> Result<Blob>;
}

/// What the user asked for in the import.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct ImportOptions {
    /// Shapes of inputs by name (`--input-shape`).
    pub input_shapes: RVec<InputShape>,
}

/// A shape that the user gave for an input.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct InputShape {
    /// Name of the input.
    pub name: RString,
    /// Sizes; -1 means unknown.
    pub dims: RVec<i64>,
    /// Whether the user gave only `?`, which means unknown rank.
    pub unranked: bool,
}

/// A front end: reads the model files of one framework.
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
    /// Name of the framework (`onnx`).
    fn framework(&self) -> String;
    /// Whether a file belongs to this framework, judged by its content. The whole file is given,
    /// but the front end should look at as little of it as needed.
    fn recognises(&self, file: &FileRef) -> bool;
    /// Builds the graph. Problems of the same kind are collected and reported together.
    /// # Errors
    /// Returns `damaged` if the file is invalid, and `unsupported` if operators have no mapping;
    /// the error then lists all of them.
    fn import(&self, file: &FileRef, options: &ImportOptions, builder: &mut GraphBuilder<'_>) -> Result<()>;
}

/// A node of a foreign model, as a mapping sees it.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct ForeignNode {
    /// Name; the front end makes one up if the model has none.
    pub name: RString,
    /// Operator type.
    pub op: RString,
    /// Domain of the operator (`ai.onnx` for the default domain).
    pub domain: RString,
    /// Version of the domain's operator set that the model imports.
    pub version: u32,
    /// Attributes. A subgraph is an `AttrValue::Graph` with the name of the graph that was built
    /// for it.
    pub attrs: AttrMap,
    /// Inputs; absent ones are `ValueRef::ABSENT`.
    pub inputs: RVec<ValueRef>,
    /// Names of the inputs in the model.
    pub input_names: RVec<RString>,
    /// What is known of each input during the import; an unknown descriptor if nothing is known.
    pub input_descs: RVec<TensorDesc>,
    /// The constant behind each input; `None` if the input is not a constant.
    pub constants: RVec<ROption<ConstTensor>>,
    /// Names of the outputs; empty if an output is not used.
    pub output_names: RVec<RString>,
}

impl ForeignNode {
    /// Input `i`.
    /// # Errors
    /// Returns `damaged` if the node has no input `i`.
    pub fn input(&self, i: usize) -> Result<ValueRef> {
        self.opt_input(i).ok_or_else(|| {
            Diagnostic::error(format!("input {i} of {} is missing", self.op))
                .node(self.name.as_str(), self.op.as_str())
                .found(format!("{} inputs", self.inputs.len()), format!("at least {}", i + 1))
                .help("export the model again: the operator does not work without this input")
                .raise(crate::diagnostic::BROKEN_MODEL)
        })
    }
    /// Input `i`, or `None` if it is absent.
    pub fn opt_input(&self, i: usize) -> Option<ValueRef> {
        self.inputs.get(i).copied().filter(|v| !v.is_absent())
    }
    /// The constant behind input `i`; `None` if the input is not a constant.
    pub fn constant(&self, i: usize) -> Option<&ConstTensor> {
        match self.constants.get(i)? {
            ROption::RSome(t) => Some(t),
            ROption::RNone => None,
        }
    }
    /// What is known of input `i`; `None` if there is no input `i`.
    pub fn desc(&self, i: usize) -> Option<&TensorDesc> {
        self.input_descs.get(i)
    }
    /// Number of outputs without the trailing unused ones.
    pub fn output_count(&self) -> usize {
        self.output_names.iter().rposition(|n| !n.is_empty()).map_or(0, |p| p + 1)
    }
    /// The value of an integer attribute, or `default`.
    pub fn int_or(&self, name: &str, default: i64) -> i64 {
        self.attrs.int(name).unwrap_or(default)
    }
    /// The value of a float attribute, or `default`.
    pub fn float_or(&self, name: &str, default: f64) -> f64 {
        self.attrs.float(name).unwrap_or(default)
    }
    /// The value of a string attribute, or `default`.
    pub fn str_or<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.attrs.str(name).unwrap_or(default)
    }
    /// An error that says why this node cannot be imported (kind `unsupported`).
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

/// The mapping of one foreign operator: it adds nodes and returns the values of the foreign node's
/// outputs, in order. [`map_op!`](crate::map_op) makes a mapping from a function.
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
    /// Name of the framework (`onnx`).
    fn framework(&self) -> String;
    /// Domain of the operator (`ai.onnx` for the default domain).
    fn domain(&self) -> String;
    /// Operator type.
    fn op(&self) -> String;
    /// First and last operator set version that the mapping applies to, both included.
    fn versions(&self) -> (u32, u32);
    /// Adds nodes and returns the values of the foreign node's outputs.
    /// # Errors
    /// Returns `unsupported` if the mapping cannot translate an attribute, type or form of the
    /// node, and `damaged` if an input is missing.
    fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>>;
}

/// Builds a graph node by node. It records into a patch and adds names and scopes.
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
    /// An empty builder; `files` opens files that the model refers to (`None`: there are none).
    pub fn new(files: Option<&'a dyn RelativeFiles>) -> GraphBuilder<'a> {
        GraphBuilder { patch: Patch::for_new_graph(), files, prefix: String::new(), controls: Vec::new() }
    }
    /// Continues to record into an existing patch (used for mappings across the ABI).
    pub fn resume(patch: Patch, files: Option<&'a dyn RelativeFiles>) -> GraphBuilder<'a> {
        GraphBuilder { patch, files, prefix: String::new(), controls: Vec::new() }
    }
    /// Sets the prefix (`conv1/`) of generated names: names of new nodes that the model does not
    /// name, and of constants that mappings make.
    pub fn set_prefix(&mut self, prefix: &str) {
        self.prefix = prefix.to_owned();
    }
    /// Adds a graph input: a `Data` node with attribute `index`.
    pub fn data(&mut self, name: &str, index: u32, desc: TensorDesc) -> ValueRef {
        let mut a = AttrMap::default();
        a.set("index", i64::from(index));
        ValueRef::new(self.patch.add("Data", name, &[], vec![desc], a), 0)
    }
    /// Adds a constant.
    pub fn constant(&mut self, name: &str, tensor: ConstTensor) -> ValueRef {
        self.patch.constant(name, tensor)
    }
    /// Adds a small 1-D i64 constant for a mapping. Its name is the prefix followed by `name`.
    pub fn ints(&mut self, name: &str, values: &[i64]) -> ValueRef {
        let t = ConstTensor::of(&[values.len() as u64], values);
        let full = format!("{}{name}", self.prefix);
        match t {
            Some(t) => self.patch.constant(&full, t),
            None => ValueRef::ABSENT,
        }
    }
    /// Adds a constant for a mapping. Its name is the prefix followed by `name`.
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
    /// Sets the graph's outputs, with their names, in order.
    pub fn outputs(&mut self, outputs: &[(String, ValueRef)]) {
        let v = outputs.iter().map(|(n, v)| NamedValue { name: n.as_str().into(), value: *v }).collect();
        self.patch.push(Edit::SetGraphOutputs(v));
    }
    /// Sets an attribute of the graph.
    pub fn graph_attr(&mut self, key: &str, value: impl Into<AttrValue>) {
        self.patch.push(Edit::SetGraphAttr(Attr { key: Key::new(key), value: value.into() }));
    }
    /// Switches to graph `to`, which is created if it does not exist; `from` is the current graph.
    pub fn enter(&mut self, from: &str, to: &str) {
        self.patch.remember(from);
        self.patch.in_graph(to, NodeId(0));
    }
    /// Opens a file that the model refers to, by its path relative to the model.
    /// # Errors
    /// Returns `damaged` if the model came without a folder, so that it cannot refer to other files,
    /// and otherwise the errors of [`RelativeFiles::open_relative`].
    pub fn open_relative(&self, path: &str) -> Result<Blob> {
        match self.files {
            Some(f) => f.open_relative(path),
            None => Err(Diagnostic::error(format!("the model refers to the file `{path}`, but came without a folder"))
                .help("give the model by its path, with its data files beside it")
                .raise(crate::diagnostic::NO_EXTERNAL_DATA)),
        }
    }
    /// The patch that is being recorded, for edits that the builder has no method for.
    pub fn patch(&mut self) -> &mut Patch {
        &mut self.patch
    }
    /// The recorded patch.
    pub fn into_patch(self) -> Patch {
        self.patch
    }
    /// Adds a control edge from each of `controls` to every node made from now on.
    pub fn set_controls(&mut self, controls: Vec<NodeId>) {
        self.controls = controls;
    }
}

/// A node under construction. [`GraphBuilder::node`] starts it (see the example there), and
/// [`build`](Self::build) or [`build_n`](Self::build_n) adds it to the graph.
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
    /// Sets the name. The node that makes a foreign node's output should have the foreign node's
    /// name.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }
    /// Appends an input.
    pub fn input(mut self, v: ValueRef) -> Self {
        self.inputs.push(v);
        self
    }
    /// Appends an optional input; `None` leaves the input absent.
    pub fn opt_input(mut self, v: Option<ValueRef>) -> Self {
        self.inputs.push(v.unwrap_or(ValueRef::ABSENT));
        self
    }
    /// Appends several inputs.
    pub fn inputs(mut self, v: &[ValueRef]) -> Self {
        self.inputs.extend_from_slice(v);
        self
    }
    /// Sets an attribute.
    pub fn attr(mut self, key: &str, value: impl Into<AttrValue>) -> Self {
        self.attrs.set(key, value);
        self
    }
    /// Appends an output with a known descriptor.
    pub fn output(mut self, desc: TensorDesc) -> Self {
        self.outputs.push(desc);
        self
    }
    /// Adds a control edge from `node` to this node.
    pub fn after(mut self, node: NodeId) -> Self {
        self.controls.push(node);
        self
    }
    /// Adds the node with at least `n` outputs and returns the first `n`. Outputs without a
    /// descriptor are inferred.
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
    /// Adds the node with one output and returns that output.
    pub fn build(self) -> ValueRef {
        self.build_n(1).first().copied().unwrap_or(ValueRef::ABSENT)
    }
}

/// The function by which a plugin asks the host for files that the model refers to.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RawFiles {
    /// Context of the host, to be passed to `open`.
    pub context: *const (),
    /// Opens a file by its path relative to the model.
    pub open: unsafe extern "C" fn(*const (), RawSlice<u8>) -> RResult<Blob, Error>,
}
impl RelativeFiles for RawFiles {
    fn open_relative(&self, path: &str) -> Result<Blob> {
        // SAFETY: the host's context lives until the import ends.
        unsafe { (self.open)(self.context, RawSlice::of(path.as_bytes())) }.into_result()
    }
}
unsafe extern "C" fn open_for(context: *const (), path: RawSlice<u8>) -> RResult<Blob, Error> {
    guard("open_relative", || {
        // SAFETY: `context` is the `&dyn RelativeFiles` of `FrontendObject::import`, which outlives
        // the call; paths are UTF-8.
        unsafe { (*(context as *const &dyn RelativeFiles)).open_relative(core::str::from_utf8_unchecked(path.get())) }
    })
}

abi_object! {
    /// Handle by which the host calls a plugin's [`Frontend`].
    object FrontendObject of dyn Frontend;
    /// ABI function table of [`Frontend`].
    table FrontendTable, FrontendTableRef;
    /// Name of the framework.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    call framework() -> Result<String> => RResult<RString, Error> = |f| Ok(f.framework());
    /// Whether a file belongs to this framework.
    call recognises(file: &FileRef => *const FileRef) -> bool => bool = |f| f.recognises(file);
    /// [`Frontend::import`]: returns edits that start from an empty graph.
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
    /// Handle by which the host calls a plugin's [`Mapping`].
    object MappingObject of dyn Mapping;
    /// ABI function table of [`Mapping`].
    table MappingTable, MappingTableRef;
    /// Operator and versions that the mapping applies to.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    call info() -> Result<MappingInfo> => RResult<MappingInfo, Error> = |m| {
        let (since, until) = m.versions();
        Ok(MappingInfo { framework: m.framework().into(), domain: m.domain().into(), op: m.op().into(), since, until })
    };
    /// [`Mapping::map`]: returns edits whose new nodes have ids from `next` on, and the output
    /// values.
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

/// The operator and versions that a mapping applies to.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct MappingInfo {
    /// Name of the framework.
    pub framework: RString,
    /// Domain of the operator.
    pub domain: RString,
    /// Operator type.
    pub op: RString,
    /// First operator set version, included.
    pub since: u32,
    /// Last operator set version, included.
    pub until: u32,
}

/// Result of a mapping.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct Mapped {
    /// Edits that add the nodes.
    pub edits: RVec<Edit>,
    /// Values of the foreign node's outputs.
    pub outputs: RVec<ValueRef>,
    /// The next free node id after the edits.
    pub next_id: NodeId,
}

impl MappingObject {
    /// Maps a node into a builder and returns the values of the node's outputs.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    pub fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        MappingRef { ptr: self.ptr(), table: self.table() }.map(node, builder)
    }
    /// Keeps the mapping until the process ends. Libraries are never unloaded, so a registered
    /// mapping stays valid and every plugin may hold its handle.
    pub fn leak(self) -> MappingRef {
        let r = MappingRef { ptr: self.ptr(), table: self.table() };
        core::mem::forget(self);
        r
    }
}

/// A handle to a registered mapping of any plugin. It has no destructor, because the mapping lives
/// as long as the process.
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
    /// Operator and versions that the mapping applies to.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    pub fn info(&self) -> Result<MappingInfo> {
        // SAFETY: pointer and table belong together; the object is alive (borrowed from a
        // MappingObject, or leaked).
        unsafe { (self.table.info())(self.ptr) }.into_result()
    }
    /// Maps a node into a builder and returns the values of the node's outputs.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    pub fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        // SAFETY: as `info`; node and prefix outlive the call.
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
    /// Imports a file and returns the edits that build its graphs.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    pub fn import(&self, file: &FileRef, options: &ImportOptions, files: &dyn RelativeFiles) -> Result<Vec<Edit>> {
        let files: &dyn RelativeFiles = files;
        let raw = RawFiles { context: &files as *const &dyn RelativeFiles as *const (), open: open_for };
        // SAFETY: pointer and table belong together; `files` outlives the call.
        unsafe { (self.table().import())(self.ptr(), file, options, raw) }.into_result().map(Vec::from)
    }
}

/// A mapping made from a function; see `map_op!`.
pub struct FnMapping {
    /// Name of the framework.
    pub framework: &'static str,
    /// Domain of the operator.
    pub domain: &'static str,
    /// Operator type.
    pub op: &'static str,
    /// First operator set version, included.
    pub since: u32,
    /// Last operator set version, included.
    pub until: u32,
    /// Adds nodes and returns the values of the foreign node's outputs.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{BROKEN_MODEL, NO_EXTERNAL_DATA};

    #[test]
    fn errors_have_the_code_of_their_page() {
        let node = ForeignNode { name: "conv1".into(), op: "Conv".into(), ..ForeignNode::default() };
        let e = node.input(0).expect_err("no input");
        let d = &e.diagnostics[0];
        assert_eq!((d.code.as_str(), e.kind), (BROKEN_MODEL.text(), BROKEN_MODEL.kind()));
        assert!(d.message.contains("input 0 of Conv is missing") && !d.help.is_empty(), "{e}");
        let Err(e) = GraphBuilder::new(None).open_relative("w.bin") else { panic!("opened") };
        let d = &e.diagnostics[0];
        assert_eq!((d.code.as_str(), e.kind), (NO_EXTERNAL_DATA.text(), NO_EXTERNAL_DATA.kind()));
        assert!(d.message.contains("`w.bin`") && !d.help.is_empty(), "{e}");
    }
}
