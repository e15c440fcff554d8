//! Choice of the session's device: by its name if given, else by the requested SoC.
use super::Session;
use crate::{Diagnostic, Result};
use ge_plugin::{DeviceHandle, OpenDevice};
use ge_plugin_api::device::{Counter, SocSpec};
use std::sync::Arc;

impl Session {
    /// The options of the device: those that were given, plus the thread count of `--threads`.
    pub(super) fn device_options(&self) -> Vec<(String, String)> {
        let mut options = self.options.device_options.clone();
        if let Some(n) = ge_plugin::services::jobs()
            && options.iter().all(|(name, _)| name != "threads")
        {
            options.push(("threads".to_owned(), n.to_string()));
        }
        options
    }

    /// The device library: the requested one, else the first that describes the requested SoC, else
    /// the first.
    pub fn device(&self) -> Result<&DeviceHandle> {
        match self.named_device()? {
            Some(d) => Ok(d),
            None => Ok(self.device_and_soc()?.0),
        }
    }

    /// The SoC: by name, from a file, or the device's default.
    pub fn soc(&self) -> Result<SocSpec> {
        Ok(self.device_and_soc()?.1)
    }

    /// The device that was requested by name, if any.
    fn named_device(&self) -> Result<Option<&DeviceHandle>> {
        let Some((name, _)) = &self.options.device else { return Ok(None) };
        let all = || self.registry.devices().iter().map(|d| d.name());
        let found = self.registry.device(name);
        found.map(Some).ok_or_else(|| crate::options::unknown_name("device", name, all()))
    }

    /// The candidate devices: the requested one, else all of them.
    fn candidates(&self) -> Result<Vec<&DeviceHandle>> {
        let all: Vec<&DeviceHandle> = match self.named_device()? {
            Some(d) => vec![d],
            None => self.registry.devices().iter().collect(),
        };
        if all.is_empty() {
            return Err(Diagnostic::error("no enabled plugin brings a device")
                .help("enable plugin `sim` in plugins.toml")
                .raise(ge_codes::NO_DEVICE));
        }
        Ok(all)
    }

    fn device_and_soc(&self) -> Result<(&DeviceHandle, SocSpec)> {
        let all = self.candidates()?;
        let Some(name) = &self.options.soc else {
            let first = all[0];
            return Ok((first, first.soc(&first.info.default_soc)?));
        };
        if name.ends_with(".toml") || name.contains('/') {
            let text = std::fs::read_to_string(name).map_err(|e| {
                Diagnostic::error(format!("cannot read SoC file `{name}`: {e}")).raise(ge_codes::UNREADABLE)
            })?;
            return first_that(&all, |d| d.soc_from_text(name, &text)).map_err(|mut said| said.swap_remove(0));
        }
        described(&all, name)
    }

    /// Opens the device for a SoC: the requested device, else the one that describes the SoC. If
    /// none describes it, the SoC came from a file; that works only if there is exactly one device.
    pub fn open_device(&self, soc: &SocSpec) -> Result<Arc<OpenDevice>> {
        Ok(Arc::new(self.open_with(soc, None)?.1))
    }

    /// The counters of a device that measures its machine when it is opened with its option
    /// `roofline`; `None` if the device has no such option.
    pub fn measured(&self, soc: &SocSpec) -> Result<Option<Vec<Counter>>> {
        let (known, device) = self.open_with(soc, Some("roofline"))?;
        if known { Ok(Some(device.counters()?)) } else { Ok(None) }
    }

    /// Opens the device with option `on` turned on if the device has it, and returns whether it
    /// has.
    fn open_with(&self, soc: &SocSpec, on: Option<&str>) -> Result<(bool, OpenDevice)> {
        let all = self.candidates()?;
        let device = match all.as_slice() {
            [one] => *one,
            _ => {
                described(&all, &soc.name)
                    .map_err(|e| e.with(|d| d.help("`--device NAME` says which of them runs it")))?
                    .0
            }
        };
        let id = self.options.device.as_ref().map_or(0, |(_, id)| *id);
        // Checked here because a device may ignore options that it does not know.
        let known = || device.info.options.chunks(2).filter_map(|o| o.first()).map(|o| o.as_str());
        if let Some((k, _)) = self.options.device_options.iter().find(|(k, _)| known().all(|o| o != k)) {
            let d = Diagnostic::error(format!("device `{}` has no option `{k}`", device.name()))
                .note(format!("known: {}", known().collect::<Vec<_>>().join(", ")));
            let d = match crate::options::nearest(k, known()) {
                Some(n) => d.help(format!("did you mean `{n}`?")),
                None => d,
            };
            return Err(d.raise(ge_codes::UNKNOWN_NAME));
        }
        if !device.info.unified_address {
            return Err(Diagnostic::error(format!(
                "device `{}` of {} has addresses of its own (`unified_address` is false), and models cannot be run on such a device",
                device.name(),
                device.owner()
            ))
            .note("inputs and outputs of a run are the caller's memory, and kernels are functions of this process")
            .help("run the model on another device (`--device NAME`); the maker of the device: map its memory into the process and say `unified_address: true`")
            .raise(ge_codes::OWN_ADDRESSES));
        }
        let mut options = self.device_options();
        options.retain(|(name, _)| known().any(|o| o == name.as_str()));
        let on = on.filter(|name| known().any(|o| o == *name));
        options.extend(on.map(|name| (name.to_owned(), "true".to_owned())));
        Ok((on.is_some(), device.open(id, soc, &options)?))
    }
}

/// The first device that describes a SoC by name. The lists of the devices are searched first; then
/// each device is asked, since it may describe more names than it lists.
fn described<'d>(all: &[&'d DeviceHandle], name: &str) -> Result<(&'d DeviceHandle, SocSpec)> {
    if let Some(d) = all.iter().find(|d| d.info.socs.iter().any(|n| n.as_str() == name)) {
        return Ok((d, d.soc(name)?));
    }
    first_that(all, |d| d.soc(name)).map_err(|mut said| match all {
        [_] => said.swap_remove(0),
        _ => {
            let names = || all.iter().flat_map(|d| d.info.socs.iter()).map(|n| n.as_str());
            let e = crate::options::unknown_name("SoC", name, names());
            let devices: Vec<&str> = all.iter().map(|d| d.name()).collect();
            e.with(|d| d.note(format!("asked: {}", devices.join(", "))))
        }
    })
}

/// The first device that answers, with its answer; otherwise all the errors.
fn first_that<'d, T>(
    all: &[&'d DeviceHandle],
    ask: impl Fn(&DeviceHandle) -> Result<T>,
) -> std::result::Result<(&'d DeviceHandle, T), Vec<crate::Error>> {
    let mut said = Vec::new();
    for d in all {
        match ask(d) {
            Ok(t) => return Ok((d, t)),
            Err(e) => said.push(e),
        }
    }
    Err(said)
}
