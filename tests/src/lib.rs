//! End-to-end, golden and conformance tests over the real binary and the real libraries.
