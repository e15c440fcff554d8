//! The ONNX front end.
