//! Errors of reading a compiled model.

/// Why the content of an OM is not a model written by ge, or is not a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file was written by another product.
    #[error("this OM was not written by ge: it can be inspected, but ge cannot run it")]
    Foreign,
    /// The file holds several models or none.
    #[error("the OM holds {found} models, expected one of a static graph")]
    ModelCount {
        /// Number of models in the file.
        found: usize,
    },
    /// A field is missing or has the wrong kind.
    #[error("{what} is missing or not what it should be")]
    Field {
        /// Name of the field.
        what: String,
    },
    /// An index or offset is out of range.
    #[error("{what} is {value}, which is beyond {limit}")]
    OutOfRange {
        /// What the value stands for.
        what: String,
        /// The value found.
        value: u64,
        /// The limit that it exceeds.
        limit: u64,
    },
    /// Text of an error of the container.
    #[error("{0}")]
    Container(String),
}

impl ModelError {
    /// An error for a missing or wrong field.
    pub(crate) fn field(what: impl Into<String>) -> ModelError {
        ModelError::Field { what: what.into() }
    }
}
