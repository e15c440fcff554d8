//! The device library: its description, the SoCs it knows, and opening a device.
use crate::context::Context;
use crate::options::{HELP, Options};
use crate::soc;
use ge_plugin_api::Result;
use ge_plugin_api::device::{Device, DeviceContext, DeviceInfo, SocSpec};

/// The simulator.
pub struct Sim;

impl Device for Sim {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "sim".into(),
            default_soc: soc::DEFAULT.into(),
            socs: soc::names().map(Into::into).collect(),
            options: HELP.iter().flat_map(|(name, help)| [(*name).into(), (*help).into()]).collect(),
            unified_address: true,
        }
    }
    fn soc(&self, name: &str) -> Result<SocSpec> {
        soc::by_name(name)
    }
    fn soc_from_text(&self, file: &str, text: &str) -> Result<SocSpec> {
        soc::from_text(file, text)
    }
    fn open(&self, _id: u32, soc: &SocSpec, options: &[(String, String)]) -> Result<Box<dyn DeviceContext>> {
        Ok(Box::new(Context::open(soc.clone(), Options::parse(options)?)))
    }
}
