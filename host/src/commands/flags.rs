//! Flags of every command, and those of commands that compile.
use crate::Result;
use crate::options::OptionMap;
use crate::render::ProgressMode;
use crate::session::gears::Asked as Gears;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// When colour is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Flags of every command, also after the subcommand.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Configuration of the plugins [default: $GE_PLUGINS, then plugins.toml here, then beside the executable]
    #[arg(long, global = true, value_name = "FILE")]
    pub plugins: Option<PathBuf>,
    /// More talk on stderr; twice for every refusal
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// No talk on success
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Colour on stderr
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
    /// Progress on stderr
    #[arg(long, global = true, value_name = "HOW", default_value = "auto")]
    pub progress: ProgressMode,
    /// One JSON document on stdout
    #[arg(long, global = true)]
    pub json: bool,
}

/// Options of a compilation, on compile, run, bench, opt and plan.
#[derive(Args, Clone, Debug, Default)]
pub struct CompileFlags {
    /// An option; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// JSON file of options
    #[arg(long, value_name = "FILE")]
    pub options: Option<PathBuf>,
    /// SoC by name, or a SoC file
    #[arg(long, value_name = "NAME|FILE")]
    pub soc: Option<String>,
    /// Shapes of inputs, "x:1,3,224,224;y:?"
    #[arg(long, value_name = "SHAPES")]
    pub input_shape: Option<String>,
    /// Sizes that the model gets a static plan for each, by the name of an open size: `b=1,4,8`; several give each combination
    #[arg(long = "dim", value_name = "NAME=SIZES")]
    pub dims: Vec<String>,
    /// As --dim, for the first dimension where it is open: `1,4,8`
    #[arg(long, alias = "dynamic_batch_size", value_name = "SIZES")]
    pub dynamic_batch_size: Option<String>,
    /// As --dim, for height and width where they are open: `224,224;448,448`
    #[arg(long, alias = "dynamic_image_size", value_name = "H,W;H,W")]
    pub dynamic_image_size: Option<String>,
    /// As --dim, one size for each open one in each gear: `1,20;4,40`
    #[arg(long, alias = "dynamic_dims", value_name = "SIZES;SIZES")]
    pub dynamic_dims: Option<String>,
}

impl CompileFlags {
    /// Shapes of the inputs: from the flag, else from the option of that name.
    pub fn shapes(&self) -> Result<String> {
        if let Some(s) = &self.input_shape {
            return Ok(s.clone());
        }
        Ok(OptionMap::gather(&self.sets, self.options.as_deref())?.resolved()?.input_shape)
    }
    /// The requested gears: from the flags, else from the option.
    pub fn gears(&self) -> Result<Gears> {
        let mut asked = Gears {
            by_name: self.dims.clone(),
            batch: self.dynamic_batch_size.clone(),
            image: self.dynamic_image_size.clone(),
            dims: self.dynamic_dims.clone(),
        };
        if asked.is_empty() {
            let options = OptionMap::gather(&self.sets, self.options.as_deref())?;
            asked.dims = Some(options.resolved()?.dynamic_dims).filter(|d| !d.is_empty());
        }
        Ok(asked)
    }
    /// All sources of options as one map.
    pub fn gather(&self) -> Result<OptionMap> {
        let options = OptionMap::gather(&self.sets, self.options.as_deref())?;
        crate::render::watch::warn_after(options.resolved()?.plugin_call_warn_s);
        Ok(options)
    }
}
