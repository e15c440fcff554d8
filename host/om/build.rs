//! Compiles `proto/*.proto` to Rust types and to the table that `guard.rs` walks; needs no `protoc`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use prost_build::Config;
use protox::prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

const FILES: [&str; 2] = ["proto/ge_ir.proto", "proto/task.proto"];

/// Fields behind a `Box`: large bodies of which a parent holds at most a few.
fn boxed_paths(pool: &DescriptorPool) -> Vec<String> {
    let mut paths = Vec::new();
    for name in ["ge.proto.AttrDef", "domi.TaskDef", "domi.FftsPlusCtxDef"] {
        let message = pool.get_message_by_name(name).expect("the message is declared in proto/");
        for field in message.fields().filter(is_single_message) {
            match field.containing_oneof() {
                Some(oneof) => paths.push(format!(".{name}.{}.{}", oneof.name(), field.name())),
                None => paths.push(format!(".{name}.{}", field.name())),
            }
        }
    }
    paths
}

fn is_single_message(field: &FieldDescriptor) -> bool {
    matches!(field.kind(), Kind::Message(_)) && field.cardinality() != Cardinality::Repeated
}

/// An upper bound of `size_of` of the Rust type of a message.
fn size_bound(message: &MessageDescriptor, boxed: &[String], open: &mut Vec<String>) -> usize {
    let key = message.full_name().to_string();
    if open.contains(&key) {
        return 8;
    }
    open.push(key);
    let mut plain = 8;
    let mut oneofs: BTreeMap<String, usize> = BTreeMap::new();
    for field in message.fields() {
        let in_oneof = field.containing_oneof().map(|oneof| oneof.name().to_string());
        let path = match &in_oneof {
            Some(oneof) => format!(".{}.{oneof}.{}", message.full_name(), field.name()),
            None => format!(".{}.{}", message.full_name(), field.name()),
        };
        let size = match field.kind() {
            _ if field.cardinality() == Cardinality::Repeated => 24,
            Kind::Message(_) if boxed.contains(&path) => 8,
            Kind::Message(child) => 8 + size_bound(&child, boxed, open),
            Kind::Bytes => 32,
            Kind::String => 24,
            _ => 8,
        };
        match in_oneof {
            Some(oneof) => {
                let largest = oneofs.entry(oneof).or_default();
                *largest = (*largest).max(size + 8);
            }
            None => plain += size,
        }
    }
    open.pop();
    plain + oneofs.values().sum::<usize>()
}

/// `static MESSAGES`: for each message its name, size bound and fields in order of their numbers.
fn schema_table(pool: &DescriptorPool, boxed: &[String]) -> String {
    let messages: Vec<MessageDescriptor> = pool.all_messages().collect();
    let index = |name: &str| messages.iter().position(|m| m.full_name() == name).expect("a listed message");
    let mut out = String::from("pub(crate) static MESSAGES: &[Message] = &[\n");
    for message in &messages {
        let size = size_bound(message, boxed, &mut Vec::new());
        let _ = writeln!(out, "Message {{ name: {:?}, size: {size}, fields: &[", message.full_name());
        let mut fields: Vec<FieldDescriptor> = message.fields().collect();
        fields.sort_by_key(FieldDescriptor::number);
        for field in fields {
            let kind = match field.kind() {
                Kind::Message(child) => format!("Kind::Message({})", index(child.full_name())),
                Kind::String => "Kind::Text".to_string(),
                Kind::Bytes => "Kind::Blob".to_string(),
                _ => "Kind::Number".to_string(),
            };
            let _ = writeln!(out, "Field {{ number: {}, name: {:?}, kind: {kind} }},", field.number(), field.name());
        }
        out.push_str("] },\n");
    }
    out.push_str("];\n");
    for (constant, name) in [("MODEL_DEF", "ge.proto.ModelDef"), ("MODEL_TASK_DEF", "domi.ModelTaskDef")] {
        let _ = writeln!(out, "pub(crate) const {constant}: usize = {};", index(name));
    }
    out
}

fn main() {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"]).unwrap_or_else(|error| panic!("proto/: {error}"));
    let pool = DescriptorPool::from_file_descriptor_set(files.clone()).expect("a checked descriptor set");
    let boxed = boxed_paths(&pool);
    let mut config = Config::new();
    config.bytes(["."]).btree_map(["."]);
    for path in &boxed {
        config.boxed(path);
    }
    config.compile_fds(files).expect("Rust types of proto/");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("schema.rs"), schema_table(&pool, &boxed)).expect("a writable OUT_DIR");
}
