//! The library's exports.
#![allow(unsafe_code, missing_docs)]
ge_plugin_api::ge_plugin! { name: "ffts", kinds: ["engine"], provides: ["ffts_plus", "FFTEngine"] }
ge_plugin_api::register_engine!(|| Box::new(crate::composite::FftsPlus));
ge_plugin_api::register_engine!(|| Box::new(crate::fourier::FftEngine));
