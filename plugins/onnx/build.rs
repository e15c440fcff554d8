//! Compiles the ONNX messages with protox (no protoc on the machine is needed).
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/onnx.proto");
    let set = protox::compile(["proto/onnx.proto"], ["proto"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(set)?;
    Ok(())
}
