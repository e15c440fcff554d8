//! An open device: memory, copies, models, counters.
use crate::careful::Shared;
use crate::counters::DeviceCounters;
use crate::launch::crew::Crew;
use crate::memory::Memory;
use crate::model::Model;
use crate::options::Options;
use ge_kernels::peak::{self, Peak};
use ge_kernels::simd::{self, Level};
use ge_plugin_api::device::{Counter, DeviceContext, DeviceModel, MemoryKind, ModelSpec, SocSpec};
use ge_plugin_api::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// State shared by the context and its models.
pub struct Inner {
    /// The simulated SoC.
    pub soc: SocSpec,
    /// The options that the device was opened with.
    pub options: Options,
    /// The device memory.
    pub memory: Memory,
    /// Counters since the device was opened.
    pub counters: DeviceCounters,
    /// State of injected faults.
    pub shared: Arc<Shared>,
    /// Threads that may help its runs.
    pub crew: Crew,
    /// Peak performance of the machine with these threads, if it was measured.
    peak: Option<Peak>,
}

/// An open device.
pub struct Context(Arc<Inner>);

impl Context {
    /// Opens a device that simulates `soc`.
    pub fn open(soc: SocSpec, options: Options) -> Context {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or_else(cores);
        let crew = Crew::new(threads);
        let level = options.isa.and_then(Level::named).unwrap_or_else(simd::level);
        let peak = options.roofline.then(|| simd::with_level(level, || peak::measure(threads)));
        Context(Arc::new(Inner {
            memory: Memory::new(soc.memory_bytes),
            counters: DeviceCounters::default(),
            shared: Arc::default(),
            soc,
            options,
            crew,
            peak,
        }))
    }
    fn alive(&self) -> Result<&Inner> {
        if self.0.shared.lost.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::DEVICE, "the device is lost: it must be opened again"));
        }
        Ok(&self.0)
    }
}

impl DeviceContext for Context {
    fn alloc(&self, kind: MemoryKind, bytes: u64) -> Result<u64> {
        self.alive()?.memory.alloc(kind, bytes)
    }
    fn free(&self, address: u64) -> Result<()> {
        self.0.memory.free(address)
    }
    fn register_host_memory(&self, address: u64, bytes: u64, read_only: bool) -> Result<Option<u64>> {
        self.alive()?.memory.register(address, bytes, read_only).map(Some)
    }
    fn unregister_host_memory(&self, address: u64) -> Result<()> {
        self.0.memory.unregister(address)
    }
    fn copy_in(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let d = self.alive()?;
        d.counters.copied_in(bytes.len() as u64);
        d.memory.copy_in(address, bytes)
    }
    fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        let d = self.alive()?;
        d.counters.copied_out(bytes.len() as u64);
        d.memory.copy_out(address, bytes)
    }
    fn create_model(&self, spec: ModelSpec) -> Result<Box<dyn DeviceModel>> {
        self.alive()?;
        Ok(Box::new(Model::new(self.0.clone(), spec)?))
    }
    fn counters(&self) -> Vec<Counter> {
        let rate = |name: &str, value: f64| Counter { name: name.into(), value: value as u64 };
        let peak = self.0.peak.iter().flat_map(|p| {
            [
                rate("peak_operations_a_second", p.singles),
                rate("peak_byte_operations_a_second", p.bytes),
                rate("peak_bf16_operations_a_second", p.bf16),
                rate("peak_bytes_copied_a_second", p.copied),
                rate("peak_bytes_read_a_second", p.read),
            ]
        });
        self.0.counters.get().list().into_iter().chain(peak).collect()
    }
}
