//! What is written is read back.

use bytes::Bytes;
use ge_om::checksum::CHUNK;
use ge_om::{Encoded, ModelParts, OmFile, OmWriter, Origin, PartitionType, WEIGHTS_ALIGN, WeightCheck, WeightSegment};

use crate::sample;

fn same(read: &ge_om::OmModel, written: &ModelParts) {
    let mut model_def = read.model_def().clone();
    assert!(model_def.attr.remove(ge_om::ATTR_FORMAT_VERSION).is_some());
    assert!(model_def.attr.remove(ge_om::ATTR_WEIGHTS_XXH3).is_some());
    assert_eq!(model_def, written.model_def);
    let mut tasks = read.task_info().clone();
    assert_eq!(std::mem::take(&mut tasks.version), "1");
    assert_eq!(tasks, written.tasks);
    assert_eq!(read.kernels(), written.kernels);
    assert_eq!(read.cust_aicpu_kernels(), written.cust_aicpu_kernels);
    for (kind, bytes) in &written.extra {
        assert_eq!(read.partition(*kind).as_ref(), Some(bytes));
    }
    for segment in &written.weights {
        let at = segment.offset as usize;
        assert_eq!(&read.weights()[at..at + segment.data.len()], &segment.data);
    }
    assert_eq!(read.problems(), &[] as &[String]);
}

#[test]
fn one_model_comes_back() {
    let file = OmFile::from_bytes(sample::file()).unwrap();
    assert_eq!(file.origin(), Origin::Ours { format_version: 1 });
    assert_eq!(file.header().name(), "main");
    assert_eq!(file.header().model_length, file.bytes().len() as u64 - 256);
    assert_eq!(file.models().len(), 1);
    let model = &file.models()[0];
    same(model, &sample::parts("main"));
    assert_eq!(&model.weights()[5..64], &[0; 59]);
    let kinds: Vec<PartitionType> = model.partitions().iter().map(|partition| partition.kind).collect();
    use PartitionType as P;
    let expected = [
        P::ModelInoutInfo,
        P::ModelDef,
        P::WeightsData,
        P::TbeKernels,
        P::CustAicpuKernels,
        P::TaskInfo,
        P::StaticTaskDesc,
    ];
    assert_eq!(kinds, expected);
    let weights = model.partitions().iter().find(|partition| partition.kind == P::WeightsData).unwrap();
    assert_eq!(weights.range.start as u64 % WEIGHTS_ALIGN, 0);
    assert!(model.unknown_fields(10).is_empty());
}

#[test]
fn several_models_come_back() {
    let file = OmFile::from_bytes(sample::three()).unwrap();
    assert_eq!((file.header().model_num, file.header().is_unknow_model), (3, 1));
    same(&file.models()[0], &sample::parts("main"));
    same(&file.models()[1], &ModelParts::default());
    same(&file.models()[2], &sample::parts("sub"));
}

#[test]
fn constants_and_kernels_are_slices_of_the_file() {
    let bytes = Bytes::from(sample::file());
    let file = OmFile::from_bytes(bytes.clone()).unwrap();
    let inside = |part: &[u8]| bytes.as_ptr_range().contains(&part.as_ptr());
    let model = &file.models()[0];
    assert!(inside(model.weights()));
    assert!(inside(&model.kernels()[0].bin));
    assert!(inside(&model.task_info().task[0].kernel.as_ref().unwrap().args));
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    assert_eq!(sample::file(), sample::file());
    assert_eq!(sample::three(), sample::three());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.om");
    OmWriter::new("main").model(sample::parts("main")).write_atomic(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), sample::file());
}

#[test]
fn a_file_written_again_from_what_was_read_is_the_same() {
    let first = sample::three();
    let mut writer = OmWriter::new("main").unknown_shapes();
    for mut model in OmFile::from_bytes(first.clone()).unwrap().into_models() {
        let extra = model.partitions().iter().map(|partition| partition.kind);
        let extra = extra.filter(|kind| [8, 9].contains(&kind.number()));
        let extra = extra.map(|kind| (kind, model.partition(kind).unwrap())).collect();
        let weights = match model.weights().clone() {
            data if data.is_empty() => Vec::new(),
            data => vec![WeightSegment { offset: 0, data }],
        };
        let (kernels, cust_aicpu_kernels) = (model.kernels().to_vec(), model.cust_aicpu_kernels().to_vec());
        let (model_def, tasks) = model.take_messages();
        writer = writer.model(ModelParts {
            model_def,
            weights,
            kernels,
            cust_aicpu_kernels,
            tasks,
            extra,
            ..ModelParts::default()
        });
    }
    assert_eq!(writer.to_vec().unwrap(), first);
}

#[test]
fn weights_of_many_chunks_are_checked_at_open_or_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.om");
    let data: Vec<u8> = (0..2 * CHUNK + 1_000).map(|i| (i / 7) as u8).collect();
    let weights = vec![
        WeightSegment { offset: 0, data: Bytes::from(data.clone()) },
        WeightSegment { offset: (3 * CHUNK + 5) as u64, data: Bytes::from_static(b"end") },
    ];
    let parts = ModelParts { weights, ..Default::default() };
    let report = OmWriter::new("big").model(parts).write_atomic(&path).unwrap();
    let file = OmFile::open(&path).unwrap();
    assert_eq!(report.file_len, file.bytes().len() as u64);
    assert_eq!(report.checksum, file.header().checksum());
    let model = &file.models()[0];
    assert_eq!(model.weights().len(), 3 * CHUNK + 8);
    assert_eq!(&model.weights()[..data.len()], &data);
    assert_eq!(&model.weights()[3 * CHUNK + 5..], b"end");
    drop(file);

    let mut bytes = std::fs::read(&path).unwrap();
    let place = report.models[0].iter().find(|(kind, _)| *kind == PartitionType::WeightsData).unwrap().1.start;
    bytes[place as usize + CHUNK] ^= 0x10;
    std::fs::write(&path, bytes).unwrap();
    let error = OmFile::open(&path).unwrap_err();
    assert_eq!(error.to_string(), "model 0: weights are damaged between byte 4194304 and 8388608");
    assert!(error.is_damage());
    let file = OmFile::open_with(&path, WeightCheck::Later).unwrap();
    assert!(file.models()[0].verify_weights().is_err());
}

#[test]
fn operators_and_tasks_encoded_in_pieces_give_the_same_file() {
    let plain = OmWriter::new("sample").model(sample::parts("sample")).to_vec().unwrap();
    let mut parts = sample::parts("sample");
    let graphs: Vec<Vec<_>> = parts.model_def.graph.iter_mut().map(|g| std::mem::take(&mut g.op)).collect();
    assert!(graphs.iter().any(|g| g.len() > 1) && parts.tasks.task.len() > 1);
    parts.ops = graphs.iter().map(|g| Encoded::ops(&g.chunks(2).collect::<Vec<_>>(), |c| c.to_vec())).collect();
    let tasks = std::mem::take(&mut parts.tasks.task);
    parts.more_tasks = Encoded::tasks(&tasks.chunks(1).collect::<Vec<_>>(), |c| c.to_vec());
    assert_eq!(OmWriter::new("sample").model(parts).to_vec().unwrap(), plain);
}
