//! `ge_host`: the host's functions for C plugins. Every function checks its pointers before it uses
//! them, and none unwinds.
use super::abi::{self, Arg, Attached, Desc, Launch, MAJOR, MAX_RANK, MINOR, NO_RANK, Opaque, Text, Value, read, text};
use super::frontend::{
    builder_constant, builder_input, builder_named, builder_open, builder_result, builder_set_ints, file_bytes,
    file_path, file_shape, foreign_ints, foreign_text,
};
use super::options::{option_float, option_int, option_text};
use crate::services;
use ge_plugin_api::abi::guard_value;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::engine::{AttachedStream, KernelBinary, LoadRequest, RunningParams, SyncResource, Workspace};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::services::{Level, RangeFn};
use ge_plugin_api::task::{KernelTask, StreamSlot, Task};
use ge_plugin_api::types::{AttrMap, AttrValue, Blob, DType, NodeId, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};
use ge_plugin_api::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};

/// The error that a failing function has reported.
#[derive(Default)]
pub(super) struct Failure(Option<Error>);

impl Failure {
    /// The result of a call that returned `code`.
    pub fn result(self, code: i32) -> Result<()> {
        match (code, self.0) {
            (0, _) => Ok(()),
            (_, Some(e)) => Err(e),
            (n, None) => Err(Error::new(ErrorKind::PLUGIN, format!("it returned {n} and no reason"))),
        }
    }
}

/// A graph lent to a C function: its nodes in order, and the position of each id.
pub(super) struct Lent<'g> {
    graph: Graph<'g>,
    nodes: Vec<Node<'g>>,
    at: BTreeMap<u32, usize>,
}
impl<'g> Lent<'g> {
    pub fn new(graph: Graph<'g>) -> Lent<'g> {
        let nodes: Vec<Node<'g>> = graph.nodes().collect();
        let at = nodes.iter().enumerate().map(|(k, n)| (n.id().0, k)).collect();
        Lent { graph, nodes, at }
    }
}

/// A mapping or import in progress.
pub(super) struct Building<'b, 'a> {
    pub builder: &'b mut GraphBuilder<'a>,
    /// Name for the first node.
    pub name: String,
    pub outputs: Vec<ValueRef>,
    /// Only for front ends: number of graph inputs so far, and the graph outputs.
    pub inputs: u32,
    pub results: Vec<(String, ValueRef)>,
    /// Opened files, kept for the duration of the import.
    pub opened: Vec<Blob>,
}
impl<'b, 'a> Building<'b, 'a> {
    pub fn new(builder: &'b mut GraphBuilder<'a>, name: String) -> Self {
        Building { builder, name, outputs: Vec::new(), inputs: 0, results: Vec::new(), opened: Vec::new() }
    }
}

/// What `supports` reports besides yes or no.
#[derive(Default)]
pub(super) struct Answer {
    pub why: String,
    pub cost: Option<u32>,
}

/// The tasks that an engine has recorded, or what was wrong with one of them.
#[derive(Default)]
pub(super) struct Tasks {
    pub list: Vec<Task>,
    pub wrong: Option<String>,
}

/// Lends something of the host to the plugin for the duration of a call.
pub(super) fn lend<T>(x: &mut T) -> Opaque {
    x as *mut T as Opaque
}
/// Lends something that the plugin only reads.
pub(super) fn show<T>(x: &T) -> Opaque {
    x as *const T as Opaque
}
/// The object behind a pointer from `lend` or `show`.
///
/// # Safety
/// The pointer is null, or came from `lend` of a T in the current call (or from `show`, if it is
/// only read).
pub(super) unsafe fn of<'a, T>(p: Opaque) -> Option<&'a mut T> {
    // SAFETY: by contract.
    unsafe { (p as *mut T).as_mut() }
}

pub(super) fn desc_to_c(d: &TensorDesc) -> Desc {
    let mut out = Desc { dtype: u32::from(d.dtype.code()), rank: NO_RANK, dims: [-1; MAX_RANK] };
    let Some(rank) = d.shape.rank().filter(|r| *r <= MAX_RANK) else { return out };
    out.rank = rank as u32;
    for (to, from) in out.dims.iter_mut().zip(d.shape.dims()) {
        *to = from.size().and_then(|s| i64::try_from(s).ok()).unwrap_or(-1);
    }
    out
}
pub(super) fn desc_of(d: &Desc) -> TensorDesc {
    let dtype = u8::try_from(d.dtype).ok().and_then(DType::from_code).unwrap_or(DType::UNKNOWN);
    match d.rank as usize {
        r if r <= MAX_RANK => TensorDesc::new(dtype, Shape::from_i64(&d.dims[..r])),
        _ => TensorDesc::new(dtype, Shape::unranked()),
    }
}

/// Writes `found` to `out` if both exist; returns 1 if it was written, otherwise 0.
pub(super) unsafe fn put<T>(found: Option<T>, out: *mut T) -> i32 {
    match found {
        // SAFETY: the caller passes space for one value, or null.
        Some(v) if !out.is_null() => unsafe {
            out.write(v);
            1
        },
        _ => 0,
    }
}

// SAFETY of all functions below: the header says what each pointer is. Data of the plugin is as the
// header requires, and pointers that it passes back were lent in the current call.
unsafe extern "C" fn fail(error: Opaque, kind: u32, why: *const c_char) -> i32 {
    guard_value(1, || {
        let kind = match kind {
            1 => ErrorKind::USAGE,
            2 => ErrorKind::UNSUPPORTED,
            3 => ErrorKind::DAMAGED,
            4 => ErrorKind::PLUGIN,
            _ => ErrorKind::FAILED,
        };
        // SAFETY: see above.
        if let Some(to) = unsafe { of::<Failure>(error) } {
            // SAFETY: see above.
            to.0 = Some(Error::new(kind, unsafe { text(why) }));
        }
        1
    })
}
unsafe extern "C" fn log(level: u32, line: *const c_char) {
    // SAFETY: see above.
    let line = unsafe { text(line) };
    let level = u8::try_from(level).ok().and_then(Level::from_code).unwrap_or(Level::INFO);
    (services::table().log())(level, line.as_ptr(), line.len());
}
extern "C" fn cancelled() -> i32 {
    i32::from((services::table().cancelled())())
}
unsafe extern "C" fn parallel_for(
    n: usize,
    grain: usize,
    part: Option<unsafe extern "C" fn(*mut c_void, usize, usize) -> i32>,
    context: *mut c_void,
) -> i32 {
    part.map_or(-1, |part| (services::table().parallel_for())(n, grain.max(1), RangeFn(part), context))
}

unsafe extern "C" fn node_id(n: Opaque) -> u32 {
    // SAFETY: see above.
    unsafe { of::<Node<'_>>(n) }.map_or(u32::MAX, |n| n.id().0)
}
unsafe extern "C" fn node_op(n: Opaque) -> Text {
    // SAFETY: see above.
    Text::of(unsafe { of::<Node<'_>>(n) }.map_or("", |n| n.op()))
}
unsafe extern "C" fn node_name(n: Opaque) -> Text {
    // SAFETY: see above.
    Text::of(unsafe { of::<Node<'_>>(n) }.map_or("", |n| n.name()))
}
unsafe extern "C" fn node_inputs(n: Opaque) -> usize {
    // SAFETY: see above.
    unsafe { of::<Node<'_>>(n) }.map_or(0, |n| n.inputs().len())
}
unsafe extern "C" fn node_outputs(n: Opaque) -> usize {
    // SAFETY: see above.
    unsafe { of::<Node<'_>>(n) }.map_or(0, |n| n.outputs().len())
}
pub(super) fn value_to_c(v: ValueRef) -> Value {
    Value { node: v.node.0, output: v.output }
}
pub(super) fn value_of(v: Value) -> ValueRef {
    if v.node == u32::MAX { ValueRef::ABSENT } else { ValueRef::new(NodeId(v.node), v.output) }
}
unsafe extern "C" fn node_input(n: Opaque, i: usize, out: *mut Value) -> i32 {
    // SAFETY: see above.
    unsafe { put(of::<Node<'_>>(n).and_then(|n| n.input(i)).map(value_to_c), out) }
}
unsafe extern "C" fn node_input_desc(n: Opaque, i: usize, out: *mut Desc) -> i32 {
    // SAFETY: see above.
    unsafe { put(of::<Node<'_>>(n).and_then(|n| n.input_desc(i)).map(desc_to_c), out) }
}
unsafe extern "C" fn node_output_desc(n: Opaque, i: usize, out: *mut Desc) -> i32 {
    // SAFETY: see above.
    unsafe { put(of::<Node<'_>>(n).and_then(|n| n.outputs().get(i)).map(desc_to_c), out) }
}
unsafe fn attr<'a>(n: Opaque, key: *const c_char) -> Option<&'a AttrValue> {
    // SAFETY: see above; the node lives for the call.
    unsafe { of::<Node<'a>>(n)?.attr(text(key).as_str()) }
}
unsafe extern "C" fn node_int(n: Opaque, key: *const c_char, out: *mut i64) -> i32 {
    // SAFETY: see above.
    unsafe { put(attr(n, key).and_then(AttrValue::as_int), out) }
}
unsafe extern "C" fn node_float(n: Opaque, key: *const c_char, out: *mut f64) -> i32 {
    // SAFETY: see above.
    unsafe { put(attr(n, key).and_then(AttrValue::as_float), out) }
}
unsafe extern "C" fn node_text(n: Opaque, key: *const c_char, out: *mut Text) -> i32 {
    // SAFETY: see above.
    unsafe { put(attr(n, key).and_then(AttrValue::as_str).map(Text::of), out) }
}
unsafe extern "C" fn node_ints(n: Opaque, key: *const c_char, out: *mut *const i64, count: *mut usize) -> i32 {
    // SAFETY: see above.
    unsafe {
        let Some(list) = attr(n, key).and_then(AttrValue::as_ints) else { return 0 };
        put(Some(list.len()), count) & put(Some(list.as_ptr()), out)
    }
}

unsafe extern "C" fn graph_size(g: Opaque) -> usize {
    // SAFETY: see above.
    unsafe { of::<Lent<'_>>(g) }.map_or(0, |g| g.nodes.len())
}
unsafe extern "C" fn graph_node(g: Opaque, position: usize) -> Opaque {
    // SAFETY: see above.
    unsafe { of::<Lent<'_>>(g) }.and_then(|g| g.nodes.get(position)).map_or(std::ptr::null_mut(), show)
}
unsafe extern "C" fn graph_find(g: Opaque, id: u32) -> Opaque {
    // SAFETY: see above.
    let g = unsafe { of::<Lent<'_>>(g) };
    g.and_then(|g| g.nodes.get(*g.at.get(&id)?)).map_or(std::ptr::null_mut(), show)
}
unsafe extern "C" fn graph_users(g: Opaque, v: Value) -> usize {
    // SAFETY: see above.
    unsafe { of::<Lent<'_>>(g) }.map_or(0, |g| g.graph.users(value_of(v)).len())
}

pub(super) unsafe fn values(at: *const Value, n: usize) -> Vec<ValueRef> {
    if at.is_null() {
        return Vec::new();
    }
    // SAFETY: see above.
    unsafe { std::slice::from_raw_parts(at, n) }.iter().map(|v| value_of(*v)).collect()
}
unsafe extern "C" fn patch_add(
    p: Opaque,
    op: *const c_char,
    name: *const c_char,
    inputs: *const Value,
    n_inputs: usize,
    outputs: *const Desc,
    n_outputs: usize,
) -> u32 {
    // SAFETY: see above.
    unsafe {
        let Some(p) = of::<Patch>(p) else { return u32::MAX };
        let outputs = if outputs.is_null() { &[] } else { std::slice::from_raw_parts(outputs, n_outputs) };
        let descs = outputs.iter().map(desc_of).collect();
        p.add(&text(op), &text(name), &values(inputs, n_inputs), descs, AttrMap::default()).0
    }
}
unsafe extern "C" fn patch_remove(p: Opaque, node: u32) {
    // SAFETY: see above.
    if let Some(p) = unsafe { of::<Patch>(p) } {
        p.remove(NodeId(node));
    }
}
unsafe extern "C" fn patch_replace_uses(p: Opaque, from: Value, to: Value) {
    // SAFETY: see above.
    if let Some(p) = unsafe { of::<Patch>(p) } {
        p.replace_uses(value_of(from), value_of(to));
    }
}
unsafe fn set(p: Opaque, node: u32, key: *const c_char, value: impl Into<AttrValue>) {
    // SAFETY: see above.
    if let Some(p) = unsafe { of::<Patch>(p) } {
        // SAFETY: see above.
        p.set_attr(NodeId(node), &unsafe { text(key) }, value);
    }
}
unsafe extern "C" fn patch_set_int(p: Opaque, node: u32, key: *const c_char, value: i64) {
    // SAFETY: see above.
    unsafe { set(p, node, key, value) }
}
unsafe extern "C" fn patch_set_float(p: Opaque, node: u32, key: *const c_char, value: f64) {
    // SAFETY: see above.
    unsafe { set(p, node, key, value) }
}
unsafe extern "C" fn patch_set_text(p: Opaque, node: u32, key: *const c_char, value: *const c_char) {
    // SAFETY: see above.
    unsafe { set(p, node, key, AttrValue::Str(text(value).into())) }
}

unsafe extern "C" fn foreign_inputs(n: Opaque) -> usize {
    // SAFETY: see above.
    unsafe { of::<ForeignNode>(n) }.map_or(0, |n| n.inputs.len())
}
unsafe extern "C" fn foreign_input(n: Opaque, i: usize, out: *mut Value) -> i32 {
    // SAFETY: see above.
    unsafe { put(of::<ForeignNode>(n).and_then(|n| n.opt_input(i)).map(value_to_c), out) }
}
unsafe extern "C" fn foreign_int(n: Opaque, key: *const c_char, otherwise: i64) -> i64 {
    // SAFETY: see above.
    unsafe { of::<ForeignNode>(n).map_or(otherwise, |n| n.int_or(&text(key), otherwise)) }
}
unsafe extern "C" fn foreign_float(n: Opaque, key: *const c_char, otherwise: f64) -> f64 {
    // SAFETY: see above.
    unsafe { of::<ForeignNode>(n).map_or(otherwise, |n| n.float_or(&text(key), otherwise)) }
}
unsafe extern "C" fn builder_node(b: Opaque, op: *const c_char, inputs: *const Value, n: usize) -> Value {
    // SAFETY: see above.
    let v = unsafe { of::<Building<'_, '_>>(b) }.map_or(ValueRef::ABSENT, |b| {
        let name = std::mem::take(&mut b.name);
        // SAFETY: see above.
        let (op, inputs) = unsafe { (text(op), values(inputs, n)) };
        let node = b.builder.node(&op).inputs(&inputs);
        if name.is_empty() { node.build() } else { node.name(&name).build() }
    });
    value_to_c(v)
}
pub(super) unsafe fn builder_set(b: Opaque, of_: Value, key: *const c_char, value: impl Into<AttrValue>) {
    // SAFETY: see above.
    if let Some(b) = unsafe { of::<Building<'_, '_>>(b) } {
        // SAFETY: see above.
        b.builder.patch().set_attr(NodeId(of_.node), &unsafe { text(key) }, value);
    }
}
unsafe extern "C" fn builder_set_int(b: Opaque, of: Value, key: *const c_char, value: i64) {
    // SAFETY: see above.
    unsafe { builder_set(b, of, key, value) }
}
unsafe extern "C" fn builder_set_float(b: Opaque, of: Value, key: *const c_char, value: f64) {
    // SAFETY: see above.
    unsafe { builder_set(b, of, key, value) }
}
unsafe extern "C" fn builder_set_text(b: Opaque, of: Value, key: *const c_char, value: *const c_char) {
    // SAFETY: see above.
    unsafe { builder_set(b, of, key, AttrValue::Str(text(value).into())) }
}
unsafe extern "C" fn builder_output(b: Opaque, v: Value) {
    // SAFETY: see above.
    if let Some(b) = unsafe { of::<Building<'_, '_>>(b) } {
        b.outputs.push(value_of(v));
    }
}

unsafe extern "C" fn refuse(answer: Opaque, why: *const c_char) {
    // SAFETY: see above.
    if let Some(a) = unsafe { of::<Answer>(answer) } {
        // SAFETY: see above.
        a.why = unsafe { text(why) };
    }
}
unsafe extern "C" fn answer_cost(answer: Opaque, cost: u32) {
    // SAFETY: see above.
    if let Some(a) = unsafe { of::<Answer>(answer) } {
        a.cost = Some(cost);
    }
}
unsafe extern "C" fn infer_output(outputs: Opaque, d: *const Desc) {
    // SAFETY: see above.
    if let (Some(o), Some(d)) = unsafe { (of::<Vec<TensorDesc>>(outputs), d.as_ref()) } {
        o.push(desc_of(d));
    }
}
unsafe extern "C" fn params_workspace(p: Opaque, bytes: u64, zeroed: i32) {
    // SAFETY: see above.
    if let Some(p) = unsafe { of::<RunningParams>(p) } {
        p.workspaces.push(Workspace { bytes, zeroed: zeroed != 0, ..Workspace::default() });
    }
}
unsafe extern "C" fn params_attached(p: Opaque, stream: *const Attached) {
    // SAFETY: see above. A structure that is too short requests nothing; a task on that stream is
    // then rejected by its rule.
    unsafe {
        let (Some(p), Ok(s)) = (of::<RunningParams>(p), read(stream)) else { return };
        let Ok(inputs) = abi::list(s.depend_value_inputs, s.n_depend_value_inputs, "inputs") else { return };
        p.attached.push(AttachedStream {
            name: text(s.name).into(),
            reuse_key: text(s.reuse_key).into(),
            depend_value_inputs: inputs.into(),
            required: s.required != 0,
            force_reuse: s.force_reuse != 0,
        });
    }
}
unsafe extern "C" fn params_sync(p: Opaque, name: *const c_char, notify: i32, reuse_key: *const c_char) {
    // SAFETY: see above.
    if let Some(p) = unsafe { of::<RunningParams>(p) } {
        // SAFETY: see above.
        let (name, reuse_key) = unsafe { (text(name).into(), text(reuse_key).into()) };
        p.sync.push(SyncResource { name, notify: notify != 0, reuse_key });
    }
}
unsafe extern "C" fn params_tasks(p: Opaque, count: u32) {
    // SAFETY: see above.
    if let Some(p) = unsafe { of::<RunningParams>(p) } {
        p.task_count = count;
    }
}
pub(super) unsafe fn bytes(at: *const u8, n: usize) -> Vec<u8> {
    // SAFETY: see above.
    if at.is_null() || n == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(at, n) }.to_vec() }
}
unsafe extern "C" fn binary_set(b: Opaque, name: *const c_char, at: *const u8, n: usize) {
    // SAFETY: see above.
    if let Some(b) = unsafe { of::<Option<KernelBinary>>(b) } {
        // SAFETY: see above.
        *b = Some(unsafe { KernelBinary::new(text(name), bytes(at, n)) });
    }
}
/// A stream of a node from its number in the header, where 0 is the node's own stream.
fn slot(stream: u32) -> StreamSlot {
    StreamSlot(i32::try_from(i64::from(stream) - 1).unwrap_or(i32::MAX))
}
unsafe extern "C" fn tasks_sync(t: Opaque, what: u32, resource: u32, stream: u32) {
    // SAFETY: see above.
    let Some(t) = (unsafe { of::<Tasks>(t) }) else { return };
    let task = match what {
        0 => Task::record(resource),
        1 => Task::wait(resource),
        2 => Task::notify(resource),
        3 => Task::wait_notify(resource),
        other => return t.wrong = Some(format!("tasks_sync is asked for {other}, which is none of GE_SYNC_*")),
    };
    t.list.push(task.on(slot(stream)));
}
unsafe extern "C" fn tasks_launch(t: Opaque, launch: *const Launch) {
    // SAFETY: see above.
    let Some(t) = (unsafe { of::<Tasks>(t) }) else { return };
    // SAFETY: see above.
    match unsafe { read(launch) } {
        // SAFETY: see above.
        Ok(l) => t.list.push(unsafe {
            Task::kernel(KernelTask {
                kernel_type: l.r#type,
                tiling_key: l.tiling_key,
                tiling: bytes(l.tiling, l.tiling_size).into(),
                ..KernelTask::new(&text(l.kernel), l.blocks, &text(l.args))
            })
            .on(slot(l.stream))
        }),
        Err(why) => t.wrong = Some(why),
    }
}
unsafe extern "C" fn tasks_copy(t: Opaque, from: *const c_char, to: *const c_char) {
    // SAFETY: see above.
    if let Some(t) = unsafe { of::<Tasks>(t) } {
        // SAFETY: see above.
        t.list.push(unsafe { Task::memcpy(&text(from), &text(to)) });
    }
}

unsafe extern "C" fn load_node(l: Opaque) -> Text {
    // SAFETY: see above.
    Text::of(unsafe { of::<LoadRequest>(l) }.map_or("", |l| l.node.as_str()))
}
unsafe extern "C" fn load_binary(l: Opaque, size: *mut usize) -> *const u8 {
    // SAFETY: see above.
    let Some(l) = (unsafe { of::<LoadRequest>(l) }) else { return std::ptr::null() };
    // SAFETY: see above.
    unsafe { put(Some(l.binary.len()), size) };
    l.binary.as_ptr()
}
unsafe extern "C" fn load_tiling_key(l: Opaque) -> u64 {
    // SAFETY: see above.
    unsafe { of::<LoadRequest>(l) }.and_then(|l| Some(l.launch().ok()?.tiling_key)).unwrap_or(0)
}
unsafe extern "C" fn load_args(l: Opaque) -> usize {
    // SAFETY: see above.
    unsafe { of::<LoadRequest>(l) }.map_or(0, |l| l.args.len())
}
unsafe extern "C" fn load_arg(l: Opaque, k: usize, out: *mut Arg) -> i32 {
    // SAFETY: see above.
    let found = unsafe { of::<LoadRequest>(l) }.and_then(|l| {
        let a = l.args.get(k)?;
        let kind = if matches!(a.kind.as_str(), "i" | "o" | "w") { u32::from(a.kind.as_bytes()[0]) } else { 0 };
        let bytes = l.arg_bytes().ok().and_then(|all| all.get(k).copied()).unwrap_or(0);
        let none = Desc { dtype: 0, rank: NO_RANK, dims: [-1; MAX_RANK] };
        Some(Arg { kind, index: a.index, bytes, desc: a.desc.as_ref().into_option().map_or(none, desc_to_c) })
    });
    // SAFETY: see above.
    unsafe { put(found, out) }
}

macro_rules! table {
    ($($field:ident: $t:ty,)*) => {
        /// The structure `ge_host`.
        #[repr(C)]
        pub(super) struct Host {
            pub size: usize,
            pub major: u32,
            pub minor: u32,
            $(pub $field: $t,)*
        }
        /// The host table of this process.
        pub(super) static HOST: Host =
            Host { size: size_of::<Host>(), major: MAJOR, minor: MINOR, $($field,)* };
        #[cfg(test)]
        pub(super) fn layout() -> (&'static str, usize, Vec<(&'static str, usize)>) {
            ("ge_host", size_of::<Host>(), vec![$((stringify!($field), std::mem::offset_of!(Host, $field)),)*])
        }
    };
}
pub(super) type Key = *const c_char;
table! {
    fail: unsafe extern "C" fn(Opaque, u32, Key) -> i32,
    log: unsafe extern "C" fn(u32, Key),
    cancelled: extern "C" fn() -> i32,
    parallel_for: unsafe extern "C" fn(usize, usize, Option<unsafe extern "C" fn(*mut c_void, usize, usize) -> i32>, *mut c_void) -> i32,
    node_id: unsafe extern "C" fn(Opaque) -> u32,
    node_op: unsafe extern "C" fn(Opaque) -> Text,
    node_name: unsafe extern "C" fn(Opaque) -> Text,
    node_inputs: unsafe extern "C" fn(Opaque) -> usize,
    node_outputs: unsafe extern "C" fn(Opaque) -> usize,
    node_input: unsafe extern "C" fn(Opaque, usize, *mut Value) -> i32,
    node_input_desc: unsafe extern "C" fn(Opaque, usize, *mut Desc) -> i32,
    node_output_desc: unsafe extern "C" fn(Opaque, usize, *mut Desc) -> i32,
    node_int: unsafe extern "C" fn(Opaque, Key, *mut i64) -> i32,
    node_float: unsafe extern "C" fn(Opaque, Key, *mut f64) -> i32,
    node_text: unsafe extern "C" fn(Opaque, Key, *mut Text) -> i32,
    node_ints: unsafe extern "C" fn(Opaque, Key, *mut *const i64, *mut usize) -> i32,
    graph_size: unsafe extern "C" fn(Opaque) -> usize,
    graph_node: unsafe extern "C" fn(Opaque, usize) -> Opaque,
    graph_find: unsafe extern "C" fn(Opaque, u32) -> Opaque,
    graph_users: unsafe extern "C" fn(Opaque, Value) -> usize,
    patch_add: unsafe extern "C" fn(Opaque, Key, Key, *const Value, usize, *const Desc, usize) -> u32,
    patch_remove: unsafe extern "C" fn(Opaque, u32),
    patch_replace_uses: unsafe extern "C" fn(Opaque, Value, Value),
    patch_set_int: unsafe extern "C" fn(Opaque, u32, Key, i64),
    patch_set_float: unsafe extern "C" fn(Opaque, u32, Key, f64),
    patch_set_text: unsafe extern "C" fn(Opaque, u32, Key, Key),
    foreign_inputs: unsafe extern "C" fn(Opaque) -> usize,
    foreign_input: unsafe extern "C" fn(Opaque, usize, *mut Value) -> i32,
    foreign_int: unsafe extern "C" fn(Opaque, Key, i64) -> i64,
    foreign_float: unsafe extern "C" fn(Opaque, Key, f64) -> f64,
    builder_node: unsafe extern "C" fn(Opaque, Key, *const Value, usize) -> Value,
    builder_set_int: unsafe extern "C" fn(Opaque, Value, Key, i64),
    builder_set_float: unsafe extern "C" fn(Opaque, Value, Key, f64),
    builder_set_text: unsafe extern "C" fn(Opaque, Value, Key, Key),
    builder_output: unsafe extern "C" fn(Opaque, Value),
    refuse: unsafe extern "C" fn(Opaque, Key),
    infer_output: unsafe extern "C" fn(Opaque, *const Desc),
    params_workspace: unsafe extern "C" fn(Opaque, u64, i32),
    params_tasks: unsafe extern "C" fn(Opaque, u32),
    binary_set: unsafe extern "C" fn(Opaque, Key, *const u8, usize),
    tasks_launch: unsafe extern "C" fn(Opaque, *const Launch),
    tasks_copy: unsafe extern "C" fn(Opaque, Key, Key),
    load_node: unsafe extern "C" fn(Opaque) -> Text,
    load_binary: unsafe extern "C" fn(Opaque, *mut usize) -> *const u8,
    load_tiling_key: unsafe extern "C" fn(Opaque) -> u64,
    load_args: unsafe extern "C" fn(Opaque) -> usize,
    load_arg: unsafe extern "C" fn(Opaque, usize, *mut Arg) -> i32,
    answer_cost: unsafe extern "C" fn(Opaque, u32),
    params_attached: unsafe extern "C" fn(Opaque, *const Attached),
    params_sync: unsafe extern "C" fn(Opaque, Key, i32, Key),
    tasks_sync: unsafe extern "C" fn(Opaque, u32, u32, u32),
    option_int: unsafe extern "C" fn(Opaque, Key, *mut i64) -> i32,
    option_float: unsafe extern "C" fn(Opaque, Key, *mut f64) -> i32,
    option_text: unsafe extern "C" fn(Opaque, Key, *mut Text) -> i32,
    foreign_text: unsafe extern "C" fn(Opaque, Key, *mut Text) -> i32,
    foreign_ints: unsafe extern "C" fn(Opaque, Key, *mut *const i64, *mut usize) -> i32,
    builder_set_ints: unsafe extern "C" fn(Opaque, Value, Key, *const i64, usize),
    builder_named: unsafe extern "C" fn(Opaque, Key, Key, *const Value, usize, u32) -> Value,
    builder_constant: unsafe extern "C" fn(Opaque, Key, *const Desc, *const u8, usize) -> Value,
    builder_input: unsafe extern "C" fn(Opaque, Key, *const Desc) -> Value,
    builder_result: unsafe extern "C" fn(Opaque, Key, Value),
    file_bytes: unsafe extern "C" fn(Opaque, *mut usize) -> *const u8,
    file_path: unsafe extern "C" fn(Opaque) -> Text,
    file_shape: unsafe extern "C" fn(Opaque, Key, *mut Desc) -> i32,
    builder_open: unsafe extern "C" fn(Opaque, Key, *mut usize) -> *const u8,
}
