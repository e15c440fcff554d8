//! Counters: what a device has done since it was opened.
use ge_plugin_api::device::Counter;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$m:meta])* $field:ident $name:literal),+ $(,)?) => {
        /// Counters of one run.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct RunCounters { $($(#[$m])* pub $field: u64),+ }
        /// Counters of a device.
        #[derive(Debug, Default)]
        pub struct DeviceCounters { $($field: AtomicU64),+ }
        impl RunCounters {
            /// The counters in the form of the plugin interface.
            pub fn list(&self) -> Vec<Counter> {
                vec![$(Counter { name: $name.into(), value: self.$field }),+]
            }
        }
        impl DeviceCounters {
            /// Adds the counters of a run.
            pub fn add(&self, run: &RunCounters) {
                $(if run.$field != 0 { self.$field.fetch_add(run.$field, Ordering::Relaxed); })+
            }
            /// The current values of all counters.
            pub fn get(&self) -> RunCounters {
                RunCounters { $($field: self.$field.load(Ordering::Relaxed)),+ }
            }
        }
    };
}
counters! {
    /// Runs of models.
    runs "runs",
    /// Tasks of any type.
    tasks "tasks",
    /// Kernels launched.
    kernels "kernel_launches",
    /// Kernel blocks run.
    blocks "kernel_blocks",
    /// Events recorded.
    records "event_records",
    /// Waits for events.
    waits "event_waits",
    /// Notifies recorded.
    notifies "notify_records",
    /// Copies and reductions.
    copies "copies",
    /// Bytes moved by copies and reductions.
    copy_bytes "copy_bytes",
    /// Tasks updated on the device.
    updates "task_updates",
    /// Tiling functions run on the device.
    device_tiling "device_tiling",
    /// Tiling functions run on the host within a run; a sunk model has none.
    host_tiling "host_tiling",
    /// Streams activated.
    activations "stream_activations",
    /// Jumps taken to a label.
    jumps "label_jumps",
    /// Arguments that got a new address.
    refreshed "arguments_refreshed",
    /// Bytes copied in by the host.
    copy_in_bytes "copy_in_bytes",
    /// Bytes copied out by the host.
    copy_out_bytes "copy_out_bytes",
}

impl DeviceCounters {
    /// Adds bytes that the host copied to the device.
    pub fn copied_in(&self, bytes: u64) {
        self.copy_in_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    /// Adds bytes that the host copied from the device.
    pub fn copied_out(&self, bytes: u64) {
        self.copy_out_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
