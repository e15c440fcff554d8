//! A device that has memory but runs nothing. It only says of the first node whose output the host
//! captures that it has run, so that the host fetches that output. It fails in the call that its
//! mode names: `dev_HOW_CALL`.
use crate::mode;
use ge_plugin_api::device::{
    Allocation, AllocationKind, Base, Counter, Device, DeviceContext, DeviceInfo, DeviceModel, DeviceTask, MemoryKind, ModelSpec, RunReport, SocSpec,
};
use ge_plugin_api::kernel::LoadedKernel;
use ge_plugin_api::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Fails in the way that the mode says, if the mode names this call.
fn enter(call: &str) -> Result<()> {
    let is = |how: &str| mode(&format!("dev_{how}_{call}"));
    if is("panic") {
        panic!("out of mind");
    }
    if is("error") {
        return Err(Error::internal("the board is on fire"));
    }
    // SAFETY: unsound on purpose: this mode must crash.
    if is("segv") {
        unsafe { std::ptr::null_mut::<u8>().write_volatile(1) }
    }
    if is("abort") {
        std::process::abort();
    }
    if is("exit") {
        std::process::exit(0);
    }
    while is("hang") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(())
}

pub struct BadDevice;
impl Device for BadDevice {
    fn info(&self) -> DeviceInfo {
        let soc = if mode("lie_soc") { "Moon" } else { "bad" };
        DeviceInfo {
            name: "baddev".into(),
            default_soc: soc.into(),
            socs: vec!["bad".into()].into(),
            options: vec!["speed".into(), "how fast it does nothing".into()].into(),
            unified_address: !mode("own_addresses"),
        }
    }
    fn soc(&self, name: &str) -> Result<SocSpec> {
        if name == "bad" || name == "bad1" { Ok(SocSpec { name: name.into(), ..SocSpec::default() }) } else { Err(Error::usage("no such SoC")) }
    }
    fn soc_from_text(&self, file: &str, text: &str) -> Result<SocSpec> {
        if text.contains("bad") { self.soc("bad") } else { Err(Error::usage(format!("`{file}` describes no bad SoC"))) }
    }
    fn open(&self, _: u32, _: &SocSpec, _: &[(String, String)]) -> Result<Box<dyn DeviceContext>> {
        enter("open")?;
        Ok(Box::new(BadContext(Mutex::default())))
    }
}

/// Allocations by address.
struct BadContext(Mutex<BTreeMap<u64, Box<[u8]>>>);
impl Drop for BadContext {
    fn drop(&mut self) {
        if mode("panic_drop") {
            panic!("I will not go");
        }
        let _ = enter("close");
    }
}
impl BadContext {
    fn within<T>(&self, address: u64, len: usize, f: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let found = all.range_mut(..=address).next_back();
        let part = found.and_then(|(at, b)| b.get_mut((address - at) as usize..)?.get_mut(..len));
        part.map(f).ok_or_else(|| Error::failed("no such memory"))
    }
}
impl DeviceContext for BadContext {
    fn alloc(&self, _: MemoryKind, bytes: u64) -> Result<u64> {
        enter("alloc")?;
        let b = vec![0u8; bytes.max(1) as usize].into_boxed_slice();
        let at = b.as_ptr() as u64;
        self.0.lock().unwrap_or_else(|e| e.into_inner()).insert(at, b);
        Ok(at)
    }
    fn free(&self, address: u64) -> Result<()> {
        enter("free")?;
        let found = self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(&address);
        found.map(drop).ok_or_else(|| Error::failed("no such memory"))
    }
    fn register_host_memory(&self, _: u64, _: u64, _: bool) -> Result<Option<u64>> {
        enter("register_host_memory")?;
        Ok(None)
    }
    fn unregister_host_memory(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn copy_in(&self, address: u64, bytes: &[u8]) -> Result<()> {
        enter("copy_in")?;
        self.within(address, bytes.len(), |to| to.copy_from_slice(bytes))?;
        if mode("forgets") { self.within(address, bytes.len(), |to| to.fill(0)) } else { Ok(()) }
    }
    fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        enter("copy_out")?;
        self.within(address, bytes.len(), |from| bytes.copy_from_slice(from))
    }
    fn create_model(&self, spec: ModelSpec) -> Result<Box<dyn DeviceModel>> {
        enter("create_model")?;
        let is_marks = |a: &Allocation| a.kind == AllocationKind::INPUT && a.index == u32::MAX;
        Ok(Box::new(BadModel { marks: spec.allocations.iter().position(is_marks) }))
    }
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

struct BadModel {
    /// The allocation of the marks of captured outputs; a mark begins with a count of 64 bits.
    marks: Option<usize>,
}
impl DeviceModel for BadModel {
    fn register(&self, _: LoadedKernel) -> Result<u32> {
        enter("register")?;
        Ok(0)
    }
    fn bind(&self, _: DeviceTask) -> Result<u32> {
        enter("bind")?;
        Ok(0)
    }
    fn seal(&self) -> Result<()> {
        enter("seal")
    }
    fn execute(&self, bases: &[Base], _: bool) -> Result<RunReport> {
        enter("execute")?;
        if let Some(b) = self.marks.and_then(|k| bases.get(k)).filter(|b| b.bytes >= 8) {
            // SAFETY: the host brings this memory along for the run, aligned for words.
            unsafe { (b.address as *mut u64).write(1) }
        }
        Ok(RunReport::default())
    }
}
