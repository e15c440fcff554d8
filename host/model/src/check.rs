//! Errors of reading a compiled model.

/// Why an OM's content is not a model of ours, or not a sound one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file was written by another product.
    #[error("this OM was not written by ge: it can be inspected, but ge cannot run it")]
    Foreign,
    /// The file holds several models or none.
    #[error("the OM holds {found} models, expected one of a static graph")]
    ModelCount {
        /// How many.
        found: usize,
    },
    /// A field is missing or of the wrong kind.
    #[error("{what} is missing or not what it should be")]
    Field {
        /// Which.
        what: String,
    },
    /// A number points outside of what it indexes.
    #[error("{what} is {value}, which is beyond {limit}")]
    OutOfRange {
        /// Which.
        what: String,
        /// Its value.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// The container's error.
    #[error("{0}")]
    Container(String),
}

impl ModelError {
    /// A missing field.
    pub(crate) fn field(what: impl Into<String>) -> ModelError {
        ModelError::Field { what: what.into() }
    }
}
