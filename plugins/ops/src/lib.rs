//! Operator prototypes: inputs, outputs, attributes, types and shape inference.
