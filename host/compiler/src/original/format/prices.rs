//! What layout changes cost: the time in nanoseconds that the executing engine states, or nothing
//! for constants that are folded.
use super::in_format;
use crate::prepare::fold::{folding_engine, keeps};
use crate::toolbox::{EngineRanks, Toolbox};
use ge_ir::{DType, Format, Graph, Key, Model, Shape, TensorDesc, ValueRef};
use ge_plugin_api::types::AttrMap;
use std::cell::RefCell;
use std::collections::HashMap;

/// Elements that a layout change handles per nanosecond, assumed if no engine states a time.
const ELEMENTS_A_NS: u64 = 16;

/// A layout change: element type, format and shape before, and the format after.
type Change = (DType, Format, Shape, Format);

/// Prices for one graph. Each layout change is priced once.
pub struct Prices<'m> {
    g: &'m Graph,
    toolbox: &'m Toolbox,
    ranks: &'m EngineRanks,
    folds: bool,
    asked: RefCell<HashMap<Change, u64>>,
}

impl<'m> Prices<'m> {
    /// Prices for graph `g`.
    pub fn new(toolbox: &'m Toolbox, ranks: &'m EngineRanks, g: &'m Graph) -> Prices<'m> {
        let folds = folding_engine(toolbox).is_some_and(|e| e.object.has_host_kernel("TransData"));
        Prices { g, toolbox, ranks, folds, asked: RefCell::default() }
    }

    /// Cost of one additional launch in nanoseconds.
    pub fn launch(&self) -> u64 {
        self.toolbox.target.soc.task_launch_ns.max(1)
    }

    /// Cost in nanoseconds of a value in another format; `None` if that is not defined.
    pub fn of(&self, v: ValueRef, to: Format) -> Option<u64> {
        let (d, n) = (self.g.desc(v)?, self.g.get(v.node)?);
        let other = in_format(d, to)?;
        if n.is_const() && self.folds && keeps(other.data_bytes()?, d.data_bytes()?) {
            return Some(0);
        }
        let change = (d.dtype, d.format, d.shape.clone(), to);
        if let Some(known) = self.asked.borrow().get(&change) {
            return Some(*known);
        }
        let price = match self.asks(d, &other) {
            Some(time) => time,
            None => self.launch() + other.shape.count()?.max(d.shape.count()?) / ELEMENTS_A_NS,
        };
        self.asked.borrow_mut().insert(change, price);
        Some(price)
    }

    /// The time that the cheapest engine states for the change; `None` if no engine does.
    fn asks(&self, before: &TensorDesc, after: &TensorDesc) -> Option<u64> {
        let mut model = Model::new("change");
        let plain = TensorDesc { attrs: AttrMap::default(), ..before.clone() };
        let g = model.root_mut();
        let x = g.push_node(Key::new("Data"), "x".into(), vec![], vec![], vec![plain], AttrMap::default())?;
        let mut attrs = AttrMap::default();
        attrs.set("src_format", before.format.name());
        attrs.set("dst_format", after.format.name());
        let op = Key::new("TransData");
        let id = g.push_node(op, "y".into(), vec![ValueRef::new(x, 0)], vec![], vec![after.clone()], attrs)?;
        let context = self.toolbox.lend(&model, 0);
        let view = context.graph();
        let node = view.node(id);
        let soc = &self.toolbox.target.soc;
        let engines = self.ranks.of(op).iter().copied().filter(|id| self.toolbox.engine(*id).excluded.is_none());
        let (taker, _) = self.toolbox.cheapest(engines, &node, |_, _| {}).ok()??;
        Some(self.toolbox.engine(taker))
            .map(|e| e.object.time_ns(&node, soc))
            .filter(|t| *t > 0)
            .map(|t| t.max(self.launch()))
    }
}
