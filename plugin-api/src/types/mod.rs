//! Plain types that cross the ABI boundary: element types, formats, shapes, attributes, tensors,
//! ids.
pub mod attr;
pub mod blob;
pub mod code;
pub mod dtype;
pub mod expr;
pub mod format;
pub mod id;
pub mod key;
pub mod numbers;
pub mod shape;
pub mod strings;
pub mod tensor;

pub use attr::{Attr, AttrMap, AttrValue, DictEntry};
pub use blob::Blob;
pub use dtype::DType;
pub use expr::Expr;
pub use format::Format;
pub use id::{NodeId, Use, ValueRef};
pub use key::Key;
pub use numbers::{NumberMap, NumberSet};
pub use shape::{Dim, Shape};
pub use strings::{bytes_of_strings, strings_in};
pub use tensor::{ConstData, ConstTensor, Constant, Container, FileRange, Origin, Scalar, TensorDesc};
