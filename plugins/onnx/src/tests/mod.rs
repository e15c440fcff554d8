//! Tests with small models built in code: mappings, structure, and files with false claims.
mod contradictions;
mod hostile;
mod known;
mod loops;
mod mappings;
mod structure;

use crate::OnnxFrontend;
use crate::proto::*;
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use ge_plugin_api::frontend::{FileRef, Frontend, GraphBuilder, ImportOptions, RelativeFiles};
use ge_plugin_api::patch::{Edit, NewNode};
use ge_plugin_api::types::{AttrValue, Blob};
use prost::Message;

/// A value with a type and sizes; -1 is open, a name is symbolic.
pub fn value(name: &str, elem: i32, dims: &[&str]) -> ValueInfoProto {
    use tensor_shape_proto::{Dimension, dimension::Value};
    let dim = dims
        .iter()
        .map(|d| Dimension {
            value: Some(d.parse().map_or_else(|_| Value::DimParam((*d).to_owned()), Value::DimValue)),
        })
        .collect();
    let t = type_proto::Tensor { elem_type: elem, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(t)) }) }
}
pub fn node(op: &str, ins: &[&str], outs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: op.into(),
        input: ins.iter().map(|s| s.to_string()).collect(),
        output: outs.iter().map(|s| s.to_string()).collect(),
        name: format!("n_{}", outs[0]),
        ..NodeProto::default()
    }
}
pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: 2, i, ..AttributeProto::default() }
}
pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: 1, f, ..AttributeProto::default() }
}
pub fn ints(name: &str, v: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: 7, ints: v.to_vec(), ..AttributeProto::default() }
}
pub fn graph_attr(name: &str, g: GraphProto) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: 5, g: Some(g), ..AttributeProto::default() }
}
pub fn with(mut n: NodeProto, attrs: Vec<AttributeProto>) -> NodeProto {
    n.attribute = attrs;
    n
}
pub fn i64s(name: &str, dims: &[i64], v: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: 7,
        dims: dims.to_vec(),
        int64_data: v.to_vec(),
        ..TensorProto::default()
    }
}
pub fn f32s(name: &str, dims: &[i64], v: &[f32]) -> TensorProto {
    let raw: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
    TensorProto { name: name.into(), data_type: 1, dims: dims.to_vec(), raw_data: raw.into(), ..TensorProto::default() }
}
pub fn graph(ins: Vec<ValueInfoProto>, nodes: Vec<NodeProto>, inits: Vec<TensorProto>, outs: &[&str]) -> GraphProto {
    GraphProto {
        name: "g".into(),
        input: ins,
        node: nodes,
        initializer: inits,
        output: outs.iter().map(|o| ValueInfoProto { name: o.to_string(), r#type: None }).collect(),
        ..GraphProto::default()
    }
}
pub fn model(opset: i64, g: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 8,
        graph: Some(g),
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: opset }],
        ..ModelProto::default()
    }
}

/// In-memory files by name.
pub struct Files(pub Vec<(&'static str, Vec<u8>)>);
impl RelativeFiles for Files {
    fn open_relative(&self, path: &str) -> Result<Blob> {
        match self.0.iter().find(|f| f.0 == path) {
            Some(f) => Ok(Blob::copy_of(&f.1)),
            None => Err(Error::usage(format!("`{path}` is missing"))),
        }
    }
}
pub fn import_bytes(bytes: Vec<u8>, options: &ImportOptions, files: &Files) -> Result<Vec<Edit>> {
    let file = FileRef { path: "m.onnx".into(), bytes: Blob::from_owner(bytes) };
    let mut b = GraphBuilder::new(Some(files));
    OnnxFrontend.import(&file, options, &mut b)?;
    refused(b.into_patch().into_edits().into())
}
/// What the host does with placeholder nodes: their reasons become the error.
fn refused(edits: Vec<Edit>) -> Result<Vec<Edit>> {
    let mut all = Vec::new();
    for e in &edits {
        let Edit::AddNode(n) = e else { continue };
        let Some(AttrValue::List(list)) = n.attrs.get("_refused") else { continue };
        for d in list.iter().filter_map(AttrValue::as_strs) {
            let mut out = Diagnostic::error(d[1]).code(d[0]).node(n.name.as_str(), d[2]).help(d[6]);
            (out.subject, out.found, out.expected) = (d[3].into(), d[4].into(), d[5].into());
            out.notes = d[7..].iter().map(|t| (*t).into()).collect::<Vec<_>>().into();
            all.push(out);
        }
    }
    if all.is_empty() { Ok(edits) } else { Err(Error::all(ErrorKind::UNSUPPORTED, all)) }
}
pub fn import(m: &ModelProto) -> Result<Vec<Edit>> {
    import_bytes(m.encode_to_vec(), &ImportOptions::default(), &Files(Vec::new()))
}
/// Nodes of one graph (`""` is the main one), in order.
pub fn nodes<'e>(edits: &'e [Edit], graph: &str) -> Vec<&'e NewNode> {
    let mut at = String::new();
    let mut v = Vec::new();
    for e in edits {
        match e {
            Edit::InGraph(n) => at = n.to_string(),
            Edit::AddNode(n) if at == graph => v.push(n),
            _ => {}
        }
    }
    v
}
/// `name=Type` of each node except Data and Const.
pub fn said(edits: &[Edit], graph: &str) -> String {
    let v: Vec<String> = nodes(edits, graph)
        .iter()
        .filter(|n| n.op != "Data" && n.op != "Const")
        .map(|n| format!("{}={}", n.name, n.op))
        .collect();
    v.join(" ")
}
