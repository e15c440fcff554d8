//! The graph: nodes, values, attributes, patches, text form and verifier.
