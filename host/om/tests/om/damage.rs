//! No damaged or hostile file is accepted as valid, and none makes the reader panic or use much
//! memory.

use ge_om::reader::reseal;
use ge_om::{OmError, OmFile, PartitionType, PayloadProblem};

use crate::sample::{self, Random, budget};

#[test]
fn every_truncation_is_refused() {
    for bytes in [sample::file(), sample::three()] {
        for len in 0..bytes.len() {
            assert!(OmFile::from_bytes(bytes[..len].to_vec()).is_err(), "{len} of {}", bytes.len());
        }
    }
}

#[test]
fn every_appended_byte_is_refused() {
    let mut bytes = sample::file();
    bytes.push(0);
    assert!(matches!(OmFile::from_bytes(bytes), Err(OmError::Length { .. })));
}

#[test]
fn every_changed_byte_is_refused() {
    let bytes = sample::file();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(OmFile::from_bytes(changed).is_err(), "byte {at}");
    }
}

#[test]
fn random_bit_flips_are_refused() {
    let bytes = sample::three();
    let mut random = Random(0x5EED);
    for case in 0..budget(2_000) {
        let mut changed = bytes.clone();
        for _ in 0..1 + random.below(4) {
            let (at, bit) = (random.below(bytes.len()), random.below(8));
            changed[at] ^= 1 << bit;
        }
        if changed != bytes {
            assert!(OmFile::from_bytes(changed).is_err(), "case {case}");
        }
    }
}

/// Changed bytes with a correct checksum reach the decoders; any result except a panic is
/// acceptable.
#[test]
fn random_bit_flips_behind_a_right_checksum_never_panic() {
    let bytes = sample::three();
    let mut random = Random(0xBADC_0FFE);
    let mut reached = 0;
    for _ in 0..budget(2_000) {
        let mut changed = bytes.clone();
        for _ in 0..1 + random.below(8) {
            let (at, byte) = (256 + random.below(bytes.len() - 256), random.next() as u8);
            changed[at] = byte;
        }
        if reseal(&mut changed).is_ok() {
            reached += 1;
            if let Ok(file) = OmFile::from_bytes(changed) {
                for model in file.models() {
                    assert!(model.unknown_fields(100).len() <= 200);
                }
            }
        }
    }
    assert!(reached > 500, "{reached}");
}

/// Writes `value` at `at` in the table of the first model and corrects the checksum if possible.
fn with_table_word(at: usize, value: u64) -> Result<OmFile, OmError> {
    let mut bytes = sample::file();
    bytes[256 + at..256 + at + 8].copy_from_slice(&value.to_le_bytes());
    let _ = reseal(&mut bytes);
    OmFile::from_bytes(bytes)
}

#[test]
fn hostile_tables_are_refused() {
    for entry in 0..7 {
        for field in [8, 16] {
            for value in [u64::MAX, u64::MAX - 300, 1 << 63, 1 << 40, 1 << 32, 0xFFFF_FFFF, 5_000] {
                let result = with_table_word(8 + 24 * entry + field, value);
                assert!(result.is_err(), "entry {entry} field {field} value {value:#x}");
            }
        }
    }
    assert!(matches!(with_table_word(0, 0xFFFF_FFFF), Err(OmError::TooMany { .. })));
    assert!(matches!(with_table_word(0, 4_000), Err(OmError::Truncated { .. })));
    assert!(matches!(with_table_word(0, 0), Err(OmError::Length { .. })));
}

#[test]
fn hostile_model_counts_are_refused() {
    for (count, many) in [(u32::MAX, true), (65_536, false), (2, false), (0, false)] {
        let mut bytes = sample::file();
        bytes[156..160].copy_from_slice(&count.to_le_bytes());
        let _ = reseal(&mut bytes);
        match OmFile::from_bytes(bytes) {
            Err(error) => assert_eq!(matches!(error, OmError::TooMany { .. }), many, "{error}"),
            // A count of 0 means 1.
            Ok(file) => assert_eq!((count, file.models().len()), (0, 1)),
        }
    }
}

#[test]
fn duplicate_and_missing_partitions_are_refused() {
    let table = OmFile::from_bytes(sample::file()).unwrap().models()[0].partitions().to_vec();
    let entry = |kind| table.iter().position(|partition| partition.kind == kind).unwrap() * 24 + 8;
    let renamed = |from: PartitionType, to: PartitionType| with_table_word(entry(from), to.number().into());
    let error = renamed(PartitionType::StaticTaskDesc, PartitionType::TbeKernels).unwrap_err();
    assert!(matches!(error, OmError::DuplicatePartition { kind: PartitionType::TbeKernels, .. }), "{error}");
    let error = renamed(PartitionType::TaskInfo, PartitionType::TilingData).unwrap_err();
    assert!(matches!(error, OmError::MissingPartition { kind: PartitionType::TaskInfo, .. }), "{error}");
    let error = renamed(PartitionType::TbeKernels, PartitionType::WeightsData).unwrap_err();
    assert!(matches!(error, OmError::DuplicatePartition { .. }), "{error}");
    let error = renamed(PartitionType::WeightsData, PartitionType::TilingData).unwrap_err();
    assert!(matches!(error, OmError::Mark { .. }), "{error}");
    let error = renamed(PartitionType::StaticTaskDesc, PartitionType::Other(99)).map(|_| ());
    assert!(error.is_ok(), "{error:?}");
}

#[test]
fn weights_at_an_odd_place_are_refused() {
    let weights = OmFile::from_bytes(sample::file()).unwrap().models()[0].partitions()[2].clone();
    assert_eq!(weights.kind, PartitionType::WeightsData);
    let base = 256 + 8 + 7 * 24;
    let error = with_table_word(8 + 2 * 24 + 8, (weights.range.start - base - 8) as u64).unwrap_err();
    assert!(matches!(error, OmError::Misaligned { align: 4096, .. }), "{error}");
}

#[test]
fn a_payload_that_would_take_far_more_memory_than_its_size_is_refused() {
    // Operators of two bytes each, in a graph that fills the whole CUSTOM_OPS partition.
    let ops: Vec<u8> = [0x32, 0x00].repeat(300_000);
    let mut graph = vec![0x3A];
    prost::encoding::encode_varint(ops.len() as u64, &mut graph);
    graph.extend_from_slice(&ops);
    let parts = ge_om::ModelParts { extra: vec![(PartitionType::CustomOps, graph.into())], ..sample::parts("main") };
    let mut bytes = ge_om::OmWriter::new("main").model(parts).to_vec().unwrap();
    // CUSTOM_OPS is the first row, MODEL_DEF the second: swap their types.
    bytes[256 + 8] = PartitionType::ModelDef.number() as u8;
    bytes[256 + 8 + 24] = PartitionType::CustomOps.number() as u8;
    reseal(&mut bytes).unwrap();
    let error = OmFile::from_bytes(bytes).unwrap_err();
    let refused = matches!(error, OmError::Payload { problem: PayloadProblem::TooLarge { .. }, .. });
    assert!(refused, "{error}");
}

#[test]
fn other_format_versions_ask_for_a_new_compile() {
    let mut bytes = sample::file();
    let mark = bytes[120..152].iter().position(|byte| *byte == b'=').unwrap() + 121;
    bytes[mark] = b'2';
    let error = OmFile::from_bytes(bytes).unwrap_err();
    assert!(error.to_string().contains("compile the model again"), "{error}");
    assert!(!error.is_damage());
}
