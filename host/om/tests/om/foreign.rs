//! Files of other producers can be opened for inspection; the fixtures are built here in the forms
//! of facts 7.1.

use ge_om::proto::{ir, task};
use ge_om::{Header, ModelType, OmError, OmFile, Origin, PartitionType};
use prost::Message as _;

/// Table and partitions of one model; the partitions are contiguous.
fn model(parts: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = (parts.len() as u64).to_le_bytes().to_vec();
    let mut offset = 0;
    for (kind, bytes) in parts {
        out.extend_from_slice(&u64::from(*kind).to_le_bytes());
        out.extend_from_slice(&(offset as u64).to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        offset += bytes.len();
    }
    parts.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
    out
}

fn file(models: &[Vec<u8>], change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let body = models.concat();
    let mut header = Header { model_num: models.len() as u32, model_length: body.len() as u64, ..Header::default() };
    header.length = body.len() as u32;
    header.set_name("root_model");
    header.set_platform_version("1.76.22.3.220");
    change(&mut header);
    [header.encode().to_vec(), body].concat()
}

fn graph(name: &str) -> Vec<u8> {
    let op = ir::OpDef { name: "data".into(), r#type: "Data".into(), ..Default::default() };
    let graph = ir::GraphDef { name: name.into(), op: vec![op], ..Default::default() };
    ir::ModelDef { name: name.into(), graph: vec![graph], ..Default::default() }.encode_to_vec()
}

fn tasks() -> Vec<u8> {
    let end = task::TaskDef { r#type: 19, ..Default::default() };
    task::ModelTaskDef { version: "1".into(), task: vec![end], ..Default::default() }.encode_to_vec()
}

#[test]
fn a_static_model_opens() {
    let bytes = file(&[model(&[(8, &[1; 140]), (0, &graph("root")), (2, &tasks())])], |_| ());
    let file = OmFile::from_bytes(bytes).unwrap();
    assert_eq!(file.origin(), Origin::Foreign);
    assert_eq!(file.header().platform_version(), "1.76.22.3.220");
    let model = &file.models()[0];
    let table: Vec<(u32, usize)> =
        model.partitions().iter().map(|entry| (entry.kind.number(), entry.range.len())).collect();
    assert_eq!(table[0], (8, 140));
    assert_eq!(table.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [8, 0, 2]);
    assert_eq!(model.model_def().graph[0].op[0].name, "data");
    assert_eq!(model.task_info().task[0].r#type, 19);
    assert!(model.verify_weights().is_err(), "a foreign file has no digests of ours");
}

#[test]
fn a_dynamic_model_with_two_submodels_opens() {
    let root = model(&[(0, &graph("root")), (3, b""), (2, &tasks())]);
    let sub = model(&[(0, &graph("sub")), (1, b"weights"), (2, &tasks())]);
    let file = OmFile::from_bytes(file(&[root, sub.clone(), sub], |header| header.is_unknow_model = 1)).unwrap();
    assert_eq!(file.models().len(), 3);
    assert_eq!(file.models()[1].model_def().name, "sub");
    assert_eq!(&file.models()[2].weights()[..], b"weights");
}

#[test]
fn a_flow_with_repeated_submodels_opens() {
    let one = file(&[model(&[(0, &graph("one")), (2, &tasks())])], |_| ());
    let two = file(&[model(&[(0, &graph("two")), (2, &tasks())])], |_| ());
    let bytes = file(&[model(&[(0, &graph("flow")), (6, b"flow"), (7, &one), (7, &two)])], |header| {
        header.model_type = ModelType::Flow;
    });
    let file = OmFile::from_bytes(bytes).unwrap();
    assert_eq!(file.header().model_type, ModelType::Flow);
    let submodels = file.models()[0].partitions_of(PartitionType::FlowSubmodel);
    let names: Vec<String> =
        submodels.map(|bytes| OmFile::from_bytes(bytes).unwrap().models()[0].model_def().name.clone()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn old_files_with_small_tables_open() {
    let (graph, tasks) = (graph("old"), tasks());
    let mut table = Vec::new();
    for word in [2, 0, 0, graph.len(), 2, graph.len(), tasks.len()] {
        table.extend_from_slice(&(word as u32).to_le_bytes());
    }
    for version in [ge_om::header::VERSION_1, ge_om::header::VERSION_2] {
        let body = [table.clone(), graph.clone(), tasks.clone()].concat();
        let bytes = file(&[body], |header| {
            header.version = version;
            header.model_length = 0;
        });
        let file = OmFile::from_bytes(bytes).unwrap();
        assert_eq!(file.models()[0].model_def().name, "old");
        assert_eq!(file.models()[0].task_info().task.len(), 1);
    }
}

/// The deepest message that is accepted can be decoded, cloned and dropped on a small stack.
#[test]
fn deep_messages_fit_a_small_stack() {
    let mut attr = ir::AttrDef::default();
    for _ in 0..32 {
        let bundle = ir::NamedAttrs { attr: [("k".to_string(), attr)].into(), ..Default::default() };
        attr = ir::AttrDef { value: Some(ir::attr_def::Value::Func(Box::new(bundle))) };
    }
    let deep = ir::ModelDef { attr: [("deep".to_string(), attr)].into(), ..Default::default() }.encode_to_vec();
    let bytes = file(&[model(&[(0, &deep), (2, &tasks())])], |_| ());
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    let open = thread.spawn(move || OmFile::from_bytes(bytes).map(|file| file.clone().models().len()));
    assert_eq!(open.unwrap().join().unwrap().unwrap(), 1);
}

#[test]
fn fields_of_newer_schemas_are_listed() {
    let mut bytes = graph("root");
    bytes.extend_from_slice(b"\xC2\x3E\x03xyz");
    let file = OmFile::from_bytes(file(&[model(&[(0, &bytes), (2, &tasks())])], |_| ())).unwrap();
    let fields = file.models()[0].unknown_fields(10);
    assert_eq!(fields.len(), 1);
    assert_eq!((fields[0].0, fields[0].1.number), (PartitionType::ModelDef, 1000));
}

#[test]
fn parts_that_cannot_be_read_are_named_and_the_rest_is_shown() {
    let bytes = file(&[model(&[(0, &graph("root")), (3, b"not a store"), (2, b"\xFF\xFF")])], |_| ());
    let file = OmFile::from_bytes(bytes).unwrap();
    let problems = file.models()[0].problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("TASK_INFO") && problems[1].contains("TBE_KERNELS"), "{problems:?}");
    assert_eq!(file.models()[0].model_def().name, "root");
}

#[test]
fn encrypted_and_cut_files_are_told_apart() {
    let body = model(&[(0, &graph("root")), (2, &tasks())]);
    let encrypted = file(std::slice::from_ref(&body), |header| header.is_encrypt = 1);
    assert!(matches!(OmFile::from_bytes(encrypted), Err(OmError::Encrypted)));
    let whole = file(&[body], |_| ());
    for len in 0..whole.len() {
        let error = OmFile::from_bytes(whole[..len].to_vec()).unwrap_err();
        assert!(matches!(error, OmError::Truncated { .. }), "{len}: {error}");
    }
}
