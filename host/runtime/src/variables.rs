//! Variables of a session: named values that outlive runs, models and rebuilds.
//!
//! All models loaded with the same [`Variables`] share them: every model that names `w` uses the
//! same `w`. A variable lies in the memory of one device context at a time and moves to where a run
//! needs it. Runs that share a variable take turns, unless all of them only read it. A run that
//! fails leaves each variable as it was. Each rank of a group has its own variables.
mod snapshot;

use crate::error::RuntimeError;
use ge_model::{CompiledModel, GraphInfo, KEPT, NodeInfo, SlotInfo};
use ge_plugin::OpenDevice;
use ge_plugin_api::device::{Base, MemoryKind};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use snapshot::Snapshot;

/// The variables shared by the models of one session.
#[derive(Default)]
pub struct Variables {
    /// Cells by rank and name.
    cells: Mutex<BTreeMap<(u32, String), Arc<Cell>>>,
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

/// Description of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableInfo {
    /// Name of the variable.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Vec<u64>,
}

/// One variable.
pub(crate) struct Cell {
    info: VariableInfo,
    /// How a compiler has changed its layout; empty if it lies as the graph says.
    layout: String,
    home: RwLock<Home>,
}

/// Where the value of a variable is.
pub(crate) enum Home {
    /// In host memory: no model has it on a device.
    Host(Vec<u8>),
    /// In the form in which a model of unknown shapes takes it and leaves it.
    Tensor(Arc<HostTensor>),
    /// In the memory of a device.
    Device { context: Arc<OpenDevice>, address: u64, bytes: u64 },
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Home::Device { context, address, .. } = self {
            // Freeing can fail only if the device is lost, and then its memory is gone too.
            let _ = context.free(*address);
        }
    }
}

impl Home {
    fn is_on(&self, at: &Arc<OpenDevice>) -> bool {
        matches!(self, Home::Device { context, .. } if Arc::ptr_eq(context, at))
    }
    fn value(&self) -> Result<Vec<u8>, RuntimeError> {
        match self {
            Home::Host(v) => Ok(v.clone()),
            Home::Tensor(t) => Ok(t.bytes().to_vec()),
            Home::Device { context, address, bytes } => {
                let mut v = vec![0u8; usize::try_from(*bytes).unwrap_or(0)];
                context.copy_out(*address, &mut v)?;
                Ok(v)
            }
        }
    }
    /// Moves the value to the memory of a device.
    fn move_to(&mut self, context: &Arc<OpenDevice>) -> Result<(), RuntimeError> {
        if self.is_on(context) {
            return Ok(());
        }
        let value = self.value()?;
        let bytes = value.len() as u64;
        let address = context.alloc(MemoryKind::HBM, bytes.max(1))?;
        let fresh = Home::Device { context: context.clone(), address, bytes };
        context.copy_in(address, &value)?;
        *self = fresh;
        Ok(())
    }
    fn base(&self) -> Base {
        match self {
            Home::Host(_) | Home::Tensor(_) => Base { address: 0, bytes: 0 },
            Home::Device { address, bytes, .. } => Base { address: *address, bytes: *bytes },
        }
    }
    /// Replaces the value. If the device does not accept the new value, it is kept on the host.
    fn set(&mut self, value: &[u8]) {
        let taken = match self {
            Home::Device { context, address, .. } => context.copy_in(*address, value).is_ok(),
            Home::Host(_) | Home::Tensor(_) => false,
        };
        if !taken {
            *self = Home::Host(value.to_vec());
        }
    }
}

impl Variables {
    /// All variables, by name; for a group, those of rank 0.
    pub fn list(&self) -> Vec<VariableInfo> {
        self.cells().iter().filter(|((rank, _), _)| *rank == 0).map(|(_, c)| c.info.clone()).collect()
    }

    /// Reads the value of a variable (of rank 0) between runs.
    ///
    /// # Errors
    /// Fails if no variable has this name, if a compiler has changed its layout, or if the device
    /// fails.
    pub fn read(&self, name: &str) -> Result<HostTensor, RuntimeError> {
        let cell = self.cells().get(&(0, name.to_owned())).cloned();
        let cell = cell.ok_or_else(|| self.unknown(name))?;
        cell.plain()?;
        let value = cell.home.read().unwrap_or_else(|e| e.into_inner()).value()?;
        Ok(HostTensor::from_bytes(cell.info.dtype, &cell.info.dims, &value)?)
    }

    /// Sets the value of a variable (of rank 0). If no loaded model names it, the value is kept for
    /// the first model that does.
    ///
    /// # Errors
    /// Fails if the variable has another type or shape, or if a compiler has changed its layout.
    pub fn write(&self, name: &str, value: &TensorView<'_>) -> Result<(), RuntimeError> {
        self.write_all(std::iter::once((name, *value)))
    }

    /// Sets the values of several variables (of rank 0), as [`Variables::write`] does. If one value
    /// does not fit, no variable is changed.
    ///
    /// # Errors
    /// Fails in the same cases.
    pub fn write_all<'v>(&self, values: impl Iterator<Item = (&'v str, TensorView<'v>)>) -> Result<(), RuntimeError> {
        let (mut known, mut new) = (Vec::new(), Vec::new());
        let mut cells = self.cells();
        for (name, value) in values {
            let given = VariableInfo { name: name.to_owned(), dtype: value.dtype, dims: value.dims.to_vec() };
            match cells.get(&(0, name.to_owned())) {
                Some(cell) => {
                    cell.plain()?;
                    cell.fits(&given)?;
                    known.push((cell.clone(), value));
                }
                None => new.push((given, value)),
            }
        }
        for (info, value) in new {
            let home = RwLock::new(Home::Host(value.bytes.to_vec()));
            cells.insert((0, info.name.clone()), Arc::new(Cell { info, layout: String::new(), home }));
        }
        // A variable may be in use by a run, which is waited for without the lock of all of them.
        drop(cells);
        known.iter().for_each(|(cell, value)| cell.set(value.bytes));
        Ok(())
    }

    /// Forgets all variables: the next model that names one starts with a new one. Models that are
    /// already loaded keep theirs.
    pub fn clear(&self) {
        self.cells().clear();
    }

    /// All variables with their values, by name.
    ///
    /// # Errors
    /// Fails like [`Variables::read`].
    pub fn values(&self) -> Result<Vec<(String, HostTensor)>, RuntimeError> {
        self.list().into_iter().map(|i| Ok((i.name.clone(), self.read(&i.name)?))).collect()
    }

    fn unknown(&self, name: &str) -> RuntimeError {
        let known: Vec<String> = self.list().into_iter().map(|i| format!("`{}`", i.name)).collect();
        RuntimeError::Variable {
            name: name.to_owned(),
            found: "no variable of this name".into(),
            expected: if known.is_empty() { "no model with variables is loaded".into() } else { known.join(", ") },
        }
    }

    fn cells(&self) -> MutexGuard<'_, BTreeMap<(u32, String), Arc<Cell>>> {
        self.cells.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The variables of a model, by name. New variables start with their `init_value`, or with
    /// zeros.
    pub(crate) fn bind(&self, m: &CompiledModel, rank: u32) -> Result<Vec<Bound>, RuntimeError> {
        let mut out = Vec::new();
        for s in spans(m)? {
            let info = s.info()?;
            let layout = s.node.attrs.str("_variable_layout").unwrap_or_default().to_owned();
            let cell = match self.cells().entry((rank, info.name.clone())) {
                Entry::Occupied(e) => e.get().clone(),
                Entry::Vacant(e) => {
                    let home = RwLock::new(Home::Host(s.start(&info)?));
                    e.insert(Arc::new(Cell { info: info.clone(), layout: layout.clone(), home })).clone()
                }
            };
            cell.fits(&info)?;
            if cell.layout != layout {
                let lies =
                    |l: &str| if l.is_empty() { "as the graph says".to_owned() } else { format!("as {l} has it") };
                return Err(RuntimeError::Variable {
                    name: info.name,
                    found: format!("{}{:?}, {}", info.dtype, info.dims, lies(&layout)),
                    expected: format!(
                        "the layout of the other models of the session, {}: compile with \
                         --set ge.optimizationSwitch=VariableOpPass:off",
                        lies(&cell.layout)
                    ),
                });
            }
            out.push(Bound { cell, index: s.index, writes: s.writes });
        }
        out.sort_by(|a, b| a.cell.info.name.cmp(&b.cell.info.name));
        Ok(out)
    }
}

impl Cell {
    /// Waits for runs in progress and replaces the value.
    fn set(&self, value: &[u8]) {
        self.home.write().unwrap_or_else(|e| e.into_inner()).set(value);
    }
    fn fits(&self, other: &VariableInfo) -> Result<(), RuntimeError> {
        if (self.info.dtype, &self.info.dims) == (other.dtype, &other.dims) {
            return Ok(());
        }
        Err(RuntimeError::Variable {
            name: other.name.clone(),
            found: format!("{}{:?}", other.dtype, other.dims),
            expected: format!("{}{:?}", self.info.dtype, self.info.dims),
        })
    }
    /// Checks that the bytes lie as the graph says; in another layout they have no meaning outside
    /// of the model.
    fn plain(&self) -> Result<(), RuntimeError> {
        if self.layout.is_empty() {
            return Ok(());
        }
        Err(RuntimeError::Variable {
            name: self.info.name.clone(),
            found: format!("the layout of {}", self.layout),
            expected: "the graph's own: compile with --set ge.optimizationSwitch=VariableOpPass:off".into(),
        })
    }
}

/// A variable as a model uses it.
pub(crate) struct Bound {
    cell: Arc<Cell>,
    /// Index of the model's allocation for this variable.
    pub(crate) index: u32,
    writes: bool,
}

impl Bound {
    /// Description of the variable.
    pub(crate) fn info(&self) -> &VariableInfo {
        &self.cell.info
    }
    /// Locks the variable for a run and returns its value as a host tensor.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated or if the device that holds the value fails.
    pub(crate) fn on_host(&self) -> Result<(Guard<'_>, Arc<HostTensor>), RuntimeError> {
        let as_tensor = |home: &mut Home| -> Result<Arc<HostTensor>, RuntimeError> {
            if let Home::Tensor(t) = home {
                return Ok(t.clone());
            }
            let t = Arc::new(HostTensor::from_bytes(self.cell.info.dtype, &self.cell.info.dims, &home.value()?)?);
            *home = Home::Tensor(t.clone());
            Ok(t)
        };
        loop {
            if self.writes {
                let mut home = self.cell.home.write().unwrap_or_else(|e| e.into_inner());
                let t = as_tensor(&mut home)?;
                return Ok((Guard::Write(home), t));
            }
            let home = self.cell.home.read().unwrap_or_else(|e| e.into_inner());
            if let Home::Tensor(t) = &*home {
                let t = t.clone();
                return Ok((Guard::Read(home), t));
            }
            drop(home);
            as_tensor(&mut self.cell.home.write().unwrap_or_else(|e| e.into_inner()))?;
        }
    }
}

/// The variables that a model holds during a run.
pub(crate) struct Held<'b> {
    guards: Vec<(u32, Guard<'b>)>,
    /// The earlier values of the variables that the run may write.
    before: Vec<Vec<u8>>,
}

pub(crate) enum Guard<'b> {
    Read(RwLockReadGuard<'b, Home>),
    Write(RwLockWriteGuard<'b, Home>),
}

impl Guard<'_> {
    /// Replaces the value with a tensor, if the run may write the variable.
    pub(crate) fn put(&mut self, t: Arc<HostTensor>) {
        if let Guard::Write(home) = self {
            **home = Home::Tensor(t);
        }
    }
}

impl<'b> Held<'b> {
    /// Waits for other runs, in the order of names, and moves each variable to the device.
    pub(crate) fn take(bound: &'b [Bound], context: &Arc<OpenDevice>) -> Result<Held<'b>, RuntimeError> {
        let mut held = Held { guards: Vec::with_capacity(bound.len()), before: Vec::new() };
        for b in bound {
            let guard = loop {
                if b.writes {
                    let mut home = b.cell.home.write().unwrap_or_else(|e| e.into_inner());
                    held.before.push(home.value()?);
                    home.move_to(context)?;
                    break Guard::Write(home);
                }
                let home = b.cell.home.read().unwrap_or_else(|e| e.into_inner());
                if home.is_on(context) {
                    break Guard::Read(home);
                }
                drop(home);
                b.cell.home.write().unwrap_or_else(|e| e.into_inner()).move_to(context)?;
            };
            held.guards.push((b.index, guard));
        }
        Ok(held)
    }

    /// Where the variables lie: index of the allocation, and its memory.
    pub(crate) fn bases(&self) -> impl Iterator<Item = (u32, Base)> + '_ {
        self.guards.iter().map(|(index, g)| match g {
            Guard::Read(home) => (*index, home.base()),
            Guard::Write(home) => (*index, home.base()),
        })
    }

    /// Restores all variables to the values that they had when the run began.
    pub(crate) fn give_back(&mut self) {
        let written = self.guards.iter_mut().filter_map(|(_, g)| match g {
            Guard::Write(home) => Some(home),
            Guard::Read(_) => None,
        });
        written.zip(&self.before).for_each(|(home, value)| home.set(value));
    }
}

/// The range of one variable in a model's variable memory.
pub(crate) struct Span<'m> {
    node: &'m NodeInfo,
    /// Index among the model's variables.
    pub(crate) index: u32,
    /// Offset of the first byte.
    pub(crate) begin: u64,
    /// Size of the value in bytes.
    pub(crate) bytes: u64,
    writes: bool,
}

impl Span<'_> {
    fn info(&self) -> Result<VariableInfo, RuntimeError> {
        let d = self.node.outputs.first();
        let dims = d.and_then(|d| d.shape.sizes()).ok_or_else(|| damaged(self.node, "has no shape"))?;
        let dtype = d.map(|d| d.dtype).unwrap_or_default();
        Ok(VariableInfo { name: self.node.name.clone(), dtype, dims: dims.to_vec() })
    }
    /// The initial value.
    fn start(&self, info: &VariableInfo) -> Result<Vec<u8>, RuntimeError> {
        let bytes = usize::try_from(self.bytes).map_err(|_| damaged(self.node, "is too large"))?;
        let Some(value) = self.node.attrs.tensor("init_value").and_then(|t| t.bytes()) else {
            let mut zeros = Vec::new();
            zeros.try_reserve_exact(bytes).map_err(|_| damaged(self.node, "is too large"))?;
            zeros.resize(bytes, 0);
            return Ok(zeros);
        };
        if value.len() != bytes {
            return Err(damaged(self.node, &format!("has an initial value of another size than {}", info.dtype)));
        }
        Ok(value.to_vec())
    }
}

fn damaged(n: &NodeInfo, what: &str) -> RuntimeError {
    RuntimeError::Damaged { what: format!("variable `{}` {what}", n.name) }
}

/// The variable, or the caller's writable input, into which a node (an `Assign` marked as kept)
/// stores what it reads.
pub(crate) fn kept_in<'g>(g: &'g GraphInfo, n: &NodeInfo) -> Option<&'g NodeInfo> {
    if n.op != "Assign" || !n.attrs.flag(KEPT) {
        return None;
    }
    g.nodes.get(n.inputs.first()?.as_ref()?.node as usize)
}

/// The variables of a model, sorted by position.
pub(crate) fn spans(m: &CompiledModel) -> Result<Vec<Span<'_>>, RuntimeError> {
    let mut out: Vec<Span<'_>> = Vec::new();
    let all = m.graphs.iter().flat_map(|g| &g.nodes);
    for n in all.filter(|n| n.op == "Variable") {
        let Some(slot) = n.slots.first().filter(|s| s.space == SlotInfo::VARIABLES) else { continue };
        let bytes = n.outputs.first().and_then(|d| d.data_bytes()).unwrap_or(0);
        if slot.offset.checked_add(bytes).is_none_or(|end| end > m.memory.variables) {
            return Err(damaged(n, "lies beyond the variables"));
        }
        out.push(Span { node: n, index: 0, begin: slot.offset, bytes, writes: false });
    }
    // Several graphs may name the same variable.
    out.sort_by(|a, b| (a.begin, &a.node.name).cmp(&(b.begin, &b.node.name)));
    out.dedup_by(|b, a| a.begin == b.begin && a.node.name == b.node.name && a.bytes == b.bytes);
    for pair in out.windows(2) {
        if pair[0].begin.saturating_add(pair[0].bytes) > pair[1].begin || pair[0].begin == pair[1].begin {
            return Err(damaged(pair[1].node, &format!("lies over variable `{}`", pair[0].node.name)));
        }
    }
    if m.graphs.iter().flat_map(|g| &g.nodes).flat_map(|n| &n.slots).all(|s| s.space != SlotInfo::VARIABLES) {
        return Ok(out);
    }
    // A node that only names a variable has no task of its own.
    let own = m.tasks.iter().filter(|t| t.args_format.contains("{o")).filter_map(|t| m.node(t.graph, t.node));
    let joint: HashSet<&str> = m.tasks.iter().flat_map(|t| &t.nodes).map(String::as_str).collect();
    let joint = m.graphs.iter().flat_map(|g| &g.nodes).filter(|n| joint.contains(n.name.as_str()));
    // Where each run determines the shapes, a mark shows which nodes write variables.
    let kept = m.graphs.iter().take(1).flat_map(|g| g.nodes.iter().filter_map(|n| kept_in(g, n)));
    let written = own.chain(joint).chain(kept).flat_map(|n| &n.slots);
    for slot in written.filter(|s| s.space == SlotInfo::VARIABLES) {
        let at = out.partition_point(|s| s.begin <= slot.offset);
        if let Some(s) = at.checked_sub(1).and_then(|k| out.get_mut(k)) {
            s.writes = true;
        }
    }
    for (k, s) in out.iter_mut().enumerate() {
        s.index = u32::try_from(k).unwrap_or(u32::MAX);
    }
    Ok(out)
}
