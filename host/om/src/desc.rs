//! Tensor descriptors: element types above the published numbers, names of types, and references
//! "node:index".
//!
//! Readers in use know the element types up to [`LAST_PUBLIC_DTYPE`] and refuse a file with others.
//! A descriptor of another type therefore has the type `DT_UNDEFINED`, and the number is in the
//! attribute [`ATTR_DTYPE`].

use std::fmt;

pub use crate::attr::LAST_PUBLIC_DTYPE;
use crate::attr::{AttrError, AttrMap as _};
use crate::proto::ir::{DataType, ShapeDef, TensorDescriptor};

/// Descriptor attribute that holds the number of a type above [`LAST_PUBLIC_DTYPE`].
pub const ATTR_DTYPE: &str = "ge_rs.dtype";

/// Size that marks an unknown dimension.
pub const UNKNOWN_DIM: i64 = -1;
/// The only size of a shape with unknown rank.
pub const UNKNOWN_RANK: i64 = -2;

/// Makes a descriptor with type, shape and format; the other fields are zero. In `shape`, -1 marks
/// an unknown size.
#[must_use]
pub fn tensor_desc(dtype: DataType, shape: &[i64], format: &str) -> TensorDescriptor {
    let mut desc = TensorDescriptor {
        shape: Some(ShapeDef { dim: shape.to_vec() }),
        layout: format.to_string(),
        ..Default::default()
    };
    set_dtype(&mut desc, dtype);
    desc
}

/// Sets the element type of a descriptor.
pub fn set_dtype(desc: &mut TensorDescriptor, dtype: DataType) {
    let number = dtype as i32;
    if number <= LAST_PUBLIC_DTYPE {
        desc.dtype = number;
        desc.attr.remove(ATTR_DTYPE);
    } else {
        desc.dtype = DataType::DtUndefined as i32;
        desc.attr.set(ATTR_DTYPE, i64::from(number));
    }
}

/// The element type of a descriptor; `DT_UNDEFINED` for unknown numbers.
///
/// # Errors
/// Fails if [`ATTR_DTYPE`] is not an integer.
pub fn dtype(desc: &TensorDescriptor) -> Result<DataType, AttrError> {
    let number = match desc.attr.int(ATTR_DTYPE)? {
        Some(number) => i32::try_from(number).unwrap_or(0),
        None => desc.dtype,
    };
    Ok(DataType::try_from(number).unwrap_or(DataType::DtUndefined))
}

/// The sizes of a descriptor; empty for a scalar or a missing shape.
#[must_use]
pub fn shape(desc: &TensorDescriptor) -> &[i64] {
    desc.shape.as_ref().map_or(&[], |shape| &shape.dim)
}

/// The published name of an element type, such as `DT_FLOAT16`.
#[must_use]
pub fn dtype_name(dtype: DataType) -> &'static str {
    dtype.as_str_name()
}

/// The element type with a published name; `None` for any other name.
#[must_use]
pub fn dtype_from_name(name: &str) -> Option<DataType> {
    DataType::from_str_name(name)
}

/// An entry of `OpDef.input`: a node with one of its outputs, or with its control output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueName<'a> {
    /// Name of the node; it may contain colons.
    pub node: &'a str,
    /// Index of the output; `None` for a control edge.
    pub output: Option<u32>,
}

impl<'a> ValueName<'a> {
    /// Parses "node:index" or "node:-1"; returns `None` for any other form, including the empty
    /// text that stands for no input.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (node, index) = text.rsplit_once(':')?;
        if index == "-1" {
            return Some(Self { node, output: None });
        }
        let digits = index.bytes().all(|byte| byte.is_ascii_digit());
        let output = index.parse().ok().filter(|_| digits)?;
        Some(Self { node, output: Some(output) })
    }
}

impl fmt::Display for ValueName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.output {
            Some(output) => write!(f, "{}:{output}", self.node),
            None => write!(f, "{}:-1", self.node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_and_no_descriptor_has_a_number_above_31() {
        for number in 0..=42 {
            let expected = DataType::try_from(number).unwrap();
            let mut desc = tensor_desc(DataType::DtHifloat4, &[2, UNKNOWN_DIM], "ND");
            set_dtype(&mut desc, expected);
            assert_eq!(dtype(&desc), Ok(expected));
            assert!(desc.dtype <= LAST_PUBLIC_DTYPE, "{number}");
            assert_eq!(desc.attr.is_empty(), number <= LAST_PUBLIC_DTYPE);
            assert_eq!(dtype_from_name(dtype_name(expected)), Some(expected));
        }
        assert_eq!(shape(&TensorDescriptor::default()), &[] as &[i64]);
    }

    #[test]
    fn unknown_numbers_are_undefined() {
        let desc = TensorDescriptor { dtype: 4_000, ..Default::default() };
        assert_eq!(dtype(&desc), Ok(DataType::DtUndefined));
        let mut desc = TensorDescriptor::default();
        desc.attr.set(ATTR_DTYPE, i64::MIN);
        assert_eq!(dtype(&desc), Ok(DataType::DtUndefined));
        desc.attr.set(ATTR_DTYPE, "f16");
        assert!(dtype(&desc).is_err());
    }

    #[test]
    fn references_are_read_and_written() {
        for (text, node, output) in [("a:0", "a", Some(0)), ("a:b:12", "a:b", Some(12)), ("x:-1", "x", None)] {
            let name = ValueName::parse(text).unwrap();
            assert_eq!((name.node, name.output), (node, output));
            assert_eq!(name.to_string(), text);
        }
        for text in ["", "a", "a:", "a:-2", "a:+1", "a:4294967296", "a:x"] {
            assert_eq!(ValueName::parse(text), None, "{text}");
        }
    }
}
