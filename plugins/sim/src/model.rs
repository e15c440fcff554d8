//! A model on the device: building, sealing, running.
use crate::context::Inner;
use crate::group::{Group, Part};
use crate::launch::kernel::Kernel;
use crate::plan::{Builder, Plan};
use crate::run::{Idle, Launch};
use ge_plugin_api::device::{Base, DeviceModel, DeviceTask, ModelSpec, RunReport};
use ge_plugin_api::kernel::LoadedKernel;
use ge_plugin_api::{Error, Result};
use std::sync::{Arc, Mutex, OnceLock};

struct Sealed {
    plan: Arc<Plan>,
    group: Option<Arc<Group>>,
    idle: Idle,
}

/// A model on the device.
pub struct Model {
    device: Arc<Inner>,
    builder: Mutex<Option<Builder>>,
    sealed: OnceLock<Sealed>,
}

impl Model {
    /// Makes a model from its specification on an open device.
    pub fn new(device: Arc<Inner>, spec: ModelSpec) -> Result<Model> {
        Ok(Model { device, builder: Mutex::new(Some(Builder::new(spec)?)), sealed: OnceLock::new() })
    }
    fn building<T>(&self, f: impl FnOnce(&mut Builder) -> Result<T>) -> Result<T> {
        match &mut *self.builder.lock().unwrap_or_else(|p| p.into_inner()) {
            Some(b) => f(b),
            None => Err(Error::internal("the model is sealed: nothing more can be bound")),
        }
    }
}

impl DeviceModel for Model {
    fn register(&self, kernel: LoadedKernel) -> Result<u32> {
        let kernel = Kernel::new(kernel);
        self.building(|b| b.register(kernel))
    }
    fn bind(&self, task: DeviceTask) -> Result<u32> {
        self.building(|b| b.bind(task))
    }
    fn seal(&self) -> Result<()> {
        let builder = self.builder.lock().unwrap_or_else(|p| p.into_inner()).take();
        let plan = Arc::new(builder.ok_or_else(|| Error::internal("the model is sealed already"))?.seal()?);
        let group = if plan.rank_size > 1 { Some(Group::enter(&plan)?) } else { None };
        let _ = self.sealed.set(Sealed { plan, group, idle: Idle::default() });
        Ok(())
    }
    fn execute(&self, bases: &[Base], profile: bool) -> Result<RunReport> {
        let s = self.sealed.get().ok_or_else(|| Error::internal("the model is not sealed"))?;
        if let Some(g) = &s.group {
            return g.run(Part { plan: s.plan.clone(), bases: bases.to_vec(), profile }, &self.device);
        }
        let mut state = s.idle.take(&s.plan);
        let result = Launch::alone(&mut state, bases, profile, &self.device);
        s.idle.put(state);
        result
    }
}
