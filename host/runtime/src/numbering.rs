//! Maps task numbers between the OM and the device. They differ because an engine may bind one task
//! of the OM as several device tasks (a collective is a series of copies, records and waits), and
//! because the loader binds copies of its own.
use ge_plugin::OpenModel;
use ge_plugin_api::device::{Base, DeviceModel, DeviceTask, RunReport};
use ge_plugin_api::kernel::LoadedKernel;
use ge_plugin_api::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A device model that counts the tasks bound to it.
#[derive(Clone)]
pub(crate) struct Counted {
    device: Arc<OpenModel>,
    bound: Arc<AtomicU32>,
}

impl Counted {
    pub(crate) fn new(device: Arc<OpenModel>) -> Counted {
        Counted { device, bound: Arc::default() }
    }
    /// Number of tasks bound so far.
    pub(crate) fn bound(&self) -> u32 {
        self.bound.load(Ordering::Relaxed)
    }
}

impl DeviceModel for Counted {
    fn register(&self, kernel: LoadedKernel) -> Result<u32> {
        self.device.register(kernel)
    }
    fn bind(&self, task: DeviceTask) -> Result<u32> {
        let id = self.device.bind(task)?;
        self.bound.store(id.saturating_add(1), Ordering::Relaxed);
        Ok(id)
    }
    fn seal(&self) -> Result<()> {
        Err(Error::internal("the loader seals the device's own model"))
    }
    fn execute(&self, _: &[Base], _: bool) -> Result<RunReport> {
        Err(Error::internal("the loader runs the device's own model"))
    }
}

/// Maps each task of the device to its task of the OM.
#[derive(Default)]
pub(crate) struct Numbering {
    /// By device number: the number in the OM, or `None` for a copy of the loader.
    of: Vec<Option<u32>>,
    /// By number in the OM: the last of its device tasks.
    last: Vec<Option<u32>>,
    /// Whether the numbers differ.
    differs: bool,
}

impl Numbering {
    /// Records that task `index` of the OM was bound; the device has `bound` tasks now.
    pub(crate) fn bound(&mut self, index: usize, bound: u32) {
        let before = self.of.len();
        self.of.resize(before.max(bound as usize), u32::try_from(index).ok());
        self.differs |= before != index || self.of.len() != before + 1;
        self.last.resize(index, None);
        self.last.push((self.of.len() > before).then(|| bound - 1));
    }
    /// Records that copies of the loader were bound; the device has `bound` tasks now.
    pub(crate) fn copied(&mut self, bound: u32) {
        self.of.resize(self.of.len().max(bound as usize), None);
    }
    /// Whether the device's numbers differ from those of the OM.
    pub(crate) fn differs(&self) -> bool {
        self.differs || self.of.len() != self.last.len()
    }
    /// The device number of a task of the OM. If it became several device tasks, the last of them.
    pub(crate) fn on_device(&self, task: usize) -> Option<u32> {
        *self.last.get(task)?
    }
    /// The task of the OM that a device task belongs to.
    pub(crate) fn in_model(&self, device: u32) -> Option<u32> {
        *self.of.get(device as usize)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_skip_copies_and_count_what_became_several() {
        let mut n = Numbering::default();
        for (index, bound, copies) in [(0, 1, 1), (1, 3, 0), (2, 6, 2), (3, 9, 0)] {
            n.bound(index, bound);
            n.copied(bound + copies);
        }
        assert!(n.differs());
        assert_eq!([0, 1, 2, 3, 4].map(|t| n.on_device(t)), [Some(0), Some(2), Some(5), Some(8), None]);
        let back = [Some(0), None, Some(1), Some(2), Some(2), Some(2), None, None, Some(3)];
        assert_eq!((0..9).map(|d| n.in_model(d)).collect::<Vec<_>>(), back);
    }

    #[test]
    fn one_task_each_keeps_its_number() {
        let mut n = Numbering::default();
        (0..5).for_each(|i| n.bound(i as usize, i + 1));
        assert!(!n.differs());
    }
}
