//! OM files as containers: header, partitions, and graphs and tasks as read with the published
//! schemas, plus fields that the schemas do not have. Used for files of other products, and by
//! `--header` for all files.
use ge_om::OmFile;
use ge_om::reader::{OmModel, Origin};
use serde_json::{Value, json};

/// Maximum number of fields listed that are not in the schema.
const UNKNOWN_LIMIT: usize = 1000;

/// The header, the product that wrote the file, and its partitions.
pub fn header(file: &OmFile) -> Value {
    let h = file.header();
    let origin = match file.origin() {
        Origin::Ours { format_version } => json!({"writer": "ge", "format": format_version}),
        Origin::Foreign => json!({"writer": "other", "format": Value::Null}),
    };
    json!({
        "container_version": h.version, "name": h.name(), "platform_version": h.platform_version(), "platform_type": h.platform_type,
        "om_ir_version": h.om_ir_version, "models": file.models().len(), "model_length": h.model_length, "checksum": h.checksum(),
        "encrypted": h.is_encrypt != 0, "unknown_shapes": h.is_unknow_model != 0, "origin": origin,
    })
}

/// The JSON document for a file written by another product.
pub fn document(file: &OmFile) -> Value {
    json!({
        "schema": 1, "kind": "om", "name": file.header().name(), "origin": "foreign", "runs": false, "header": header(file),
        "models": file.models().iter().map(model).collect::<Vec<_>>(),
    })
}

fn model(m: &OmModel) -> Value {
    let def = m.model_def();
    let graphs: Vec<Value> = def
        .graph
        .iter()
        .map(|g| {
            let nodes: Vec<Value> = g
                .op
                .iter()
                .map(|o| {
                    let outputs: Vec<Value> = o
                        .output_desc
                        .iter()
                        .map(|d| {
                            let dtype = ge_om::desc::dtype(d).map_or("DT_UNDEFINED", ge_om::desc::dtype_name);
                            json!({"dtype": dtype, "shape": ge_om::desc::shape(d), "format": d.layout})
                        })
                        .collect();
                    let mut attrs: Vec<&str> = o.attr.keys().map(String::as_str).collect();
                    attrs.sort_unstable();
                    json!({"id": o.id, "name": o.name, "type": o.r#type, "stream_id": o.stream_id, "inputs": o.input, "outputs": outputs, "attrs": attrs, "subgraphs": o.subgraph_name})
                })
                .collect();
            json!({"name": g.name, "inputs": g.input, "outputs": g.output, "nodes": nodes})
        })
        .collect();
    let t = m.task_info();
    let tasks: Vec<Value> = t
        .task
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let kind =
                ge_om::TaskType::from_number(t.r#type).map_or_else(|| t.r#type.to_string(), |k| k.name().to_owned());
            json!({"index": i, "type": kind, "stream_id": t.stream_id})
        })
        .collect();
    let unknown: Vec<Value> = m
        .unknown_fields(UNKNOWN_LIMIT)
        .into_iter()
        .map(|(p, f)| json!({"partition": p.to_string(), "path": f.path, "number": f.number, "bytes": f.range.len()}))
        .collect();
    json!({
        "name": def.name, "version": def.version, "graphs": graphs, "tasks": tasks,
        "streams": t.stream_num, "events": t.event_num, "memory_size": t.memory_size, "weight_size": m.weights().len(),
        "partitions": m.partitions().iter().map(|p| json!({"type": p.kind.to_string(), "offset": p.range.start, "size": p.range.len()})).collect::<Vec<_>>(),
        "kernels": m.kernels().iter().map(|k| json!({"name": k.name, "bytes": k.bin.len()})).collect::<Vec<_>>(),
        "problems": m.problems(), "unknown_fields": unknown,
    })
}

/// Formats the document as text.
pub fn text(doc: &Value) -> String {
    let s = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    let mut out = String::from("an OM file of another product: it can be looked into, not run\n");
    out.push_str(&header_text(&doc["header"]));
    for m in doc["models"].as_array().into_iter().flatten() {
        out.push_str(&format!(
            "model {}: {} tasks, {} bytes of weights\n",
            s(&m["name"]),
            m["tasks"].as_array().map_or(0, Vec::len),
            m["weight_size"]
        ));
        for p in m["partitions"].as_array().into_iter().flatten() {
            out.push_str(&format!("  {:<20} {:>12} bytes at {}\n", s(&p["type"]), p["size"], p["offset"]));
        }
        for g in m["graphs"].as_array().into_iter().flatten() {
            out.push_str(&format!("  graph {}\n", s(&g["name"])));
            for n in g["nodes"].as_array().into_iter().flatten() {
                out.push_str(&format!("    {}\n", super::source::node_line(n)));
            }
        }
        for u in m["unknown_fields"].as_array().into_iter().flatten() {
            out.push_str(&format!(
                "  field that the schema does not have: {} {} number {} ({} bytes)\n",
                s(&u["partition"]),
                s(&u["path"]),
                u["number"],
                u["bytes"]
            ));
        }
        for p in m["problems"].as_array().into_iter().flatten() {
            out.push_str(&format!("  problem: {}\n", s(p)));
        }
    }
    out
}

/// Formats the header as text.
pub fn header_text(h: &Value) -> String {
    let mut out = String::new();
    for (k, v) in h.as_object().into_iter().flatten() {
        out.push_str(&format!("  {k:<18} {}\n", v.as_str().map_or_else(|| v.to_string(), str::to_owned)));
    }
    out
}
