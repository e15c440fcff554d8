//! Tests that a file is written completely or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use bytes::Bytes;
use ge_om::{KernelRecord, ModelParts, OmError, OmFile, OmWriter, PartitionType, WeightSegment, WriteProblem};

use crate::sample;

fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_existing_file_is_replaced_and_its_map_stays_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.om");
    OmWriter::new("one").model(sample::parts("one")).write_atomic(&path).unwrap();
    let one = OmFile::open(&path).unwrap();
    OmWriter::new("two").model(ModelParts::default()).write_atomic(&path).unwrap();
    assert_eq!(one.models()[0].model_def().name, "one");
    one.models()[0].verify_weights().unwrap();
    assert_eq!(OmFile::open(&path).unwrap().header().name(), "two");
    assert_eq!(names(folder.path()), ["a.om"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
}

#[test]
fn a_path_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no").join("a.om");
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    for path in [&missing, &taken] {
        let error = OmWriter::new("a").model(sample::parts("a")).write_atomic(path).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, OmError::Write { .. }) && text.contains(path.to_str().unwrap()), "{text}");
        assert!(!text.contains(".ge-om-"), "{text}");
        assert!(text.contains("directory"), "{text}");
    }
    assert_eq!(names(folder.path()), ["taken"]);
}

#[test]
fn a_device_is_written_to_and_never_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let error = OmWriter::new("a").model(sample::parts("a")).write_atomic("/dev/full").unwrap_err();
    assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device (os error 28)");
    OmWriter::new("a").model(sample::parts("a")).write_atomic("/dev/null").unwrap();
    for path in ["/dev/full", "/dev/null"] {
        assert!(fs::metadata(path).unwrap().file_type().is_char_device(), "{path}");
    }
}

#[test]
fn a_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("real.om"), folder.path().join("link.om"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink("real.om", &link).unwrap();
    OmWriter::new("main").model(sample::parts("main")).write_atomic(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&file).unwrap(), sample::file());
}

/// Runs `full_disk_child` with a limit of 64 KiB for each file, which behaves like a full disk.
#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.om");
    fs::write(&path, "old").unwrap();
    let child = std::env::current_exe().unwrap();
    let status = Command::new("sh")
        // A write above the limit sends SIGXFSZ; if that is ignored, the write fails with EFBIG.
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" writing::full_disk_child --exact --nocapture"])
        .arg(child)
        .env("GE_OM_FULL_DISK", &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&status.stdout).into_owned() + &String::from_utf8_lossy(&status.stderr);
    assert!(status.status.success(), "{text}");
    assert!(text.contains("refused as expected"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(folder.path()), ["a.om"]);
}

/// Does its work only when started by the test above.
#[test]
fn full_disk_child() {
    let Some(path) = std::env::var_os("GE_OM_FULL_DISK") else { return };
    let data = Bytes::from(vec![7; 4 << 20]);
    let parts = ModelParts { weights: vec![WeightSegment { offset: 0, data }], ..Default::default() };
    let error = OmWriter::new("a").model(parts).write_atomic(&path).unwrap_err();
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    println!("refused as expected: {error}");
}

#[test]
fn what_no_file_can_hold_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.om");
    let refused = |writer: OmWriter| match writer.write_atomic(&path).unwrap_err() {
        OmError::Unwritable { model, problem } => (model, problem),
        other => panic!("{other}"),
    };
    assert_eq!(refused(OmWriter::new("a")), (0, WriteProblem::NoModel));
    let segment = |offset| WeightSegment { offset, data: Bytes::from_static(b"four") };
    let parts = ModelParts { weights: vec![segment(0), segment(3)], ..Default::default() };
    let writer = OmWriter::new("a").model(ModelParts::default()).model(parts);
    assert_eq!(refused(writer), (1, WriteProblem::WeightOrder { index: 1, offset: 3, end: 4 }));
    let parts = ModelParts { weights: vec![segment(u64::MAX - 1)], ..Default::default() };
    assert!(matches!(refused(OmWriter::new("a").model(parts)), (0, WriteProblem::TooLarge { .. })));
    for kind in [PartitionType::TaskInfo, PartitionType::WeightsData] {
        let parts = ModelParts { extra: vec![(kind, Bytes::from_static(b"x"))], ..Default::default() };
        assert_eq!(refused(OmWriter::new("a").model(parts)), (0, WriteProblem::ReservedPartition { kind }));
    }
    assert_eq!(names(folder.path()), [] as [&str; 0]);
}

#[test]
fn empty_parts_have_no_partition() {
    let parts = ModelParts {
        extra: vec![(PartitionType::TilingData, Bytes::new())],
        kernels: vec![KernelRecord { name: "only a name".into(), bin: Bytes::new() }],
        ..Default::default()
    };
    let bytes = OmWriter::new("a").model(parts).to_vec().unwrap();
    let file = OmFile::from_bytes(bytes).unwrap();
    let kinds: Vec<u32> = file.models()[0].partitions().iter().map(|partition| partition.kind.number()).collect();
    assert_eq!(kinds, [0, 3, 2]);
    assert!(file.models()[0].partitions().iter().all(|partition| !partition.range.is_empty()));
}
