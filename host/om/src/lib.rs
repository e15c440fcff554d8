//! The OM file: header, partitions, payloads and checksum, with a reader and a writer.
//!
//! An OM file holds one compiled model or several: a header of 256 bytes ([`header`]), then for
//! each model a table of partitions ([`table`]) and the partitions themselves: the graph
//! (MODEL_DEF), the constants (WEIGHTS_DATA), the kernels ([`kernel_store`]) and the tasks
//! (TASK_INFO). Graph and tasks are protobuf messages ([`proto`]) with the field numbers of the
//! published schema, so that other readers can open our files; [`attr`] and [`desc`] wrap the parts
//! of the schema that are awkward to use.
//!
//! - [`OmWriter`] writes the file as a stream; the file appears complete or not at all.
//! - [`OmFile`] maps a file. Our own files carry a mark in the header and in each graph, a SHA-256
//!   of everything except the weights, and digests of the weights; a file with any changed byte is
//!   refused. Files of other producers can be opened for inspection ([`Origin::Foreign`]).
//! - Nothing in a file is trusted: offsets and sizes are checked against the file, counts are
//!   bounded, and the memory for the messages is estimated before they are decoded ([`guard`]).
//!
//! ```
//! use ge_om::{ModelParts, OmFile, OmWriter, Origin, proto::ir};
//!
//! # fn main() -> Result<(), ge_om::OmError> {
//! let model_def = ir::ModelDef { name: "main".into(), ..Default::default() };
//! let bytes = OmWriter::new("main").model(ModelParts { model_def, ..Default::default() }).to_vec()?;
//! let file = OmFile::from_bytes(bytes)?;
//! assert_eq!(file.origin(), Origin::Ours { format_version: 1 });
//! assert_eq!(file.models()[0].model_def().name, "main");
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

pub mod attr;
pub mod checksum;
pub mod desc;
pub mod error;
pub mod guard;
pub mod header;
pub mod kernel_store;
mod map;
mod pages;
pub mod reader;
mod stream;
pub mod table;
pub mod task_type;
pub mod writer;

pub use error::{KernelProblem, OmError, PayloadProblem, WriteProblem};
pub use header::{Header, ModelType};
pub use kernel_store::KernelRecord;
pub use map::map_file;
pub use pages::{to_large_pages, zeroed};
pub use reader::{OmFile, OmModel, Origin, WeightCheck};
pub use stream::Encoded;
pub use table::{Partition, PartitionType};
pub use task_type::TaskType;
pub use writer::{ModelParts, OmWriter, WeightSegment, WriteReport, temporary_in};

/// Version of our content in the container. A file of another version is refused with the advice to
/// compile again.
pub const FORMAT_VERSION: u32 = 1;
/// Prefix of attributes of models, nodes and descriptors that only we write.
pub const OWN_ATTR_PREFIX: &str = "ge_rs.";
/// Model attribute that holds [`FORMAT_VERSION`] as an integer.
pub const ATTR_FORMAT_VERSION: &str = "ge_rs.format_version";
/// Model attribute that holds the XXH3-128 of each 4 MiB of the weights: 16 bytes each, little
/// endian.
pub const ATTR_WEIGHTS_XXH3: &str = "ge_rs.weights_xxh3";
/// Alignment of WEIGHTS_DATA in the file, in bytes. It is a page, so that a device can use the
/// mapped file directly.
pub const WEIGHTS_ALIGN: u64 = 4096;

mod partition;
pub mod proto;
