//! Small models with content in every part.

use bytes::Bytes;
use ge_om::attr::{AttrMap as _, Value};
use ge_om::desc::tensor_desc;
use ge_om::proto::ir::{self, DataType};
use ge_om::proto::task;
use ge_om::{KernelRecord, ModelParts, OmWriter, PartitionType, TaskType, WeightSegment};

/// `y = Add(x, Const)` with its kernel, its tasks and its weight.
pub fn parts(name: &str) -> ModelParts {
    let shape = tensor_desc(DataType::DtFloat, &[2, 3], "ND");
    let mut data = ir::OpDef { name: "x".into(), r#type: "Data".into(), ..Default::default() };
    data.output_desc.push(shape.clone());
    data.attr.set("index", 0_i64);
    let mut weight = ir::OpDef { name: "w".into(), r#type: "Const".into(), id: 1, ..Default::default() };
    let mut stored = ir::TensorDescriptor { weight_size: 24, data_offset: 64, ..shape.clone() };
    stored.attr.set("merged_offset", 64_i64);
    weight.attr.set("value", ir::TensorDef { desc: Some(stored), data: Bytes::new() });
    weight.output_desc.push(shape.clone());
    let mut add = ir::OpDef { name: "add".into(), r#type: "Add".into(), id: 2, ..Default::default() };
    add.input = vec!["x:0".into(), "w:0".into(), "x:-1".into()];
    add.input_desc = vec![shape.clone(), shape.clone()];
    add.output_desc.push(shape);
    add.workspace_bytes = vec![0, 512];
    add.attr.set("_stream_label", "main");
    add.attr.set("axes", vec![1_i64, -1]);
    add.attr.set("to", DataType::DtFloat8E4m3fn);
    add.attr.set("scales", Value::FloatLists(vec![vec![0.5]]));
    add.attr.set("raw", Bytes::from_static(b"\x00\xFF\x01"));
    let mut out = ir::OpDef { name: "out".into(), r#type: "NetOutput".into(), id: 3, ..Default::default() };
    out.input = vec!["add:0".into()];
    out.input_desc = add.output_desc.clone();
    let mut graph = ir::GraphDef { name: name.into(), ..Default::default() };
    graph.input = vec!["x:0".into()];
    graph.output = vec!["out:0".into()];
    graph.op = vec![data, weight, add, out];
    graph.attr.set("session", 3_i64);
    let empty = ir::GraphDef { name: "sub".into(), ..Default::default() };
    let mut model_def = ir::ModelDef { name: name.into(), version: 2, ..Default::default() };
    model_def.graph = vec![graph, empty];
    model_def.attr.set("stream_num", 1_i64);
    model_def.attr.set("memory_size", 1024_i64);

    let context = task::KernelContext { op_index: 2, args_format: "{i0}{i1}{o0}".into(), ..Default::default() };
    let kernel = task::KernelDef {
        context: Some(context),
        block_dim: 8,
        kernel_name: "add_f32".into(),
        args: Bytes::from_static(&[1, 2, 3]),
        args_size: 3,
        ..Default::default()
    };
    let add = task::TaskDef { r#type: TaskType::Kernel.number(), kernel: Some(Box::new(kernel)), ..Default::default() };
    let end = task::TaskDef { id: 1, r#type: TaskType::EndGraph.number(), ..Default::default() };
    let tasks = task::ModelTaskDef { stream_num: 1, task: vec![add, end], ..Default::default() };
    let floats: Vec<u8> = (0..6_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    ModelParts {
        model_def,
        weights: vec![
            WeightSegment { offset: 0, data: Bytes::from_static(b"first") },
            WeightSegment { offset: 64, data: floats.into() },
        ],
        kernels: vec![
            KernelRecord { name: "add_f32".into(), bin: Bytes::from_static(b"\x7FELF no, but a kernel") },
            KernelRecord { name: "mul_f32".into(), bin: Bytes::from_static(b"other") },
        ],
        cust_aicpu_kernels: vec![KernelRecord { name: "cpu".into(), bin: Bytes::from_static(b"cpu kernel") }],
        tasks,
        extra: vec![
            (PartitionType::StaticTaskDesc, Bytes::from_static(b"behind")),
            (PartitionType::ModelInoutInfo, Bytes::from_static(b"in front")),
        ],
        ..ModelParts::default()
    }
}

/// A file with one model.
pub fn file() -> Vec<u8> {
    OmWriter::new("main").model(parts("main")).to_vec().unwrap()
}

/// A file with a root model and two others, one of which is empty.
pub fn three() -> Vec<u8> {
    let writer = OmWriter::new("main").unknown_shapes().model(parts("main")).model(ModelParts::default());
    writer.model(parts("sub")).to_vec().unwrap()
}

/// Pseudo-random numbers without a dependency (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Number of cases that a random test runs.
pub fn budget(short: usize) -> usize {
    if std::env::var_os("GE_LONG").is_some() { short * 50 } else { short }
}
