//! Walks a protobuf payload before it is decoded and checks bounds, depth, and the memory that
//! decoding would take.
//!
//! The decoder allocates as it goes: two bytes in the file can become a struct of hundreds of
//! bytes. The walk uses an explicit stack and a table made from `proto/` by `build.rs`. It passes
//! over the keys once and refuses a payload that needs too much memory for its size.

use std::ops::Range;

use crate::error::PayloadProblem;

/// The content of a field, as far as the walk needs to know.
enum Kind {
    /// A message, given by its index in `MESSAGES`.
    Message(usize),
    /// A string; the decoder copies it.
    Text,
    /// Bytes; they stay slices of the file.
    Blob,
    /// A number, boolean or enum; a packed field holds many of them.
    Number,
}

struct Field {
    number: u32,
    name: &'static str,
    kind: Kind,
}

pub(crate) struct Message {
    name: &'static str,
    /// Upper bound of the size of the Rust struct, in bytes.
    size: u64,
    fields: &'static [Field],
}

/// The messages of `proto/`, generated together with their Rust types.
#[rustfmt::skip]
mod schema;
use schema::{MESSAGES, MODEL_DEF, MODEL_TASK_DEF};

/// The nesting limit of the decoder itself.
const MAX_DEPTH: usize = 100;
/// Memory in bytes that any payload may take, however small it is.
const FLOOR: u64 = 16 << 20;
/// Memory in bytes that a payload may take for each of its bytes; short tasks, which expand most,
/// need less than half of this.
const PER_BYTE: u64 = 160;
/// Memory in bytes that all payloads of a file together may take: half of the address space that
/// DESIGN 4 grants.
const CEILING: u64 = 4 << 30;

/// The memory that the remaining payloads of one file may take.
pub(crate) struct Budget {
    left: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: CEILING }
    }
}

/// A field that is not in the schema. Its bytes stay in the partition; see [`unknown_fields`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Names of the fields from the root to the message that contains it, joined by dots.
    pub path: String,
    /// Number of the field.
    pub number: u32,
    /// Range of its bytes in the partition, key included.
    pub range: Range<usize>,
}

/// The payloads that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// `ge.proto.ModelDef`
    ModelDef,
    /// `domi.ModelTaskDef`
    TaskInfo,
}

impl Payload {
    fn root(self) -> usize {
        match self {
            Self::ModelDef => MODEL_DEF,
            Self::TaskInfo => MODEL_TASK_DEF,
        }
    }
}

/// Reads a varint at `at`; returns its value and the position after it.
fn varint(bytes: &[u8], at: usize, end: usize) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (i, byte) in bytes.get(at..end)?.iter().take(10).enumerate() {
        if i == 9 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, at + i + 1));
        }
    }
    None
}

/// A message that the walk is currently inside.
struct Level {
    message: usize,
    end: usize,
    field: &'static str,
}

/// One field found by the walk.
struct Item<'a> {
    levels: &'a [Level],
    message: &'static Message,
    field: Option<&'static Field>,
    number: u32,
    range: Range<usize>,
    /// Number of bytes after the length; 0 for numbers.
    len: usize,
}

fn walk<F>(bytes: &[u8], payload: Payload, mut visit: F) -> Result<(), PayloadProblem>
where
    F: FnMut(&Item<'_>) -> Result<(), PayloadProblem>,
{
    let mut levels = vec![Level { message: payload.root(), end: bytes.len(), field: "" }];
    let mut at = 0;
    while let Some(&Level { message: index, end, .. }) = levels.last() {
        if at == end {
            levels.pop();
            continue;
        }
        let message = &MESSAGES[index];
        let malformed = PayloadProblem::Malformed { message: message.name, at: at as u64 };
        let Some((key, behind_key)) = varint(bytes, at, end) else {
            return Err(malformed);
        };
        let number = match u32::try_from(key >> 3) {
            Ok(number) if number > 0 && key <= u64::from(u32::MAX) => number,
            _ => return Err(malformed),
        };
        let body = match key & 7 {
            0 => varint(bytes, behind_key, end).map(|(_, behind)| behind..behind),
            1 => behind_key.checked_add(8).map(|behind| behind..behind),
            2 => varint(bytes, behind_key, end).and_then(|(len, start)| {
                let len = usize::try_from(len).ok()?;
                Some(start..start.checked_add(len)?)
            }),
            5 => behind_key.checked_add(4).map(|behind| behind..behind),
            _ => None,
        };
        let Some(body) = body.filter(|body| body.end <= end) else {
            return Err(malformed);
        };
        let field = message.fields.binary_search_by_key(&number, |field| field.number).ok();
        let field = field.map(|field| &message.fields[field]);
        visit(&Item { levels: &levels, message, field, number, range: at..body.end, len: body.len() })?;
        match field {
            Some(Field { kind: Kind::Message(child), name, .. }) if key & 7 == 2 => {
                if levels.len() >= MAX_DEPTH {
                    return Err(PayloadProblem::TooDeep { limit: MAX_DEPTH });
                }
                levels.push(Level { message: *child, end: body.end, field: name });
                at = body.start;
            }
            _ => at = body.end,
        }
    }
    Ok(())
}

/// Checks that decoding `bytes` stays within bounds, depth and memory, and deducts the memory from
/// the budget.
///
/// # Errors
/// Fails if the payload is malformed, too deep or needs too much memory.
pub(crate) fn check(bytes: &[u8], payload: Payload, budget: &mut Budget) -> Result<(), PayloadProblem> {
    let limit = PER_BYTE.saturating_mul(bytes.len() as u64).saturating_add(FLOOR).min(budget.left);
    let mut needed = 0_u64;
    walk(bytes, payload, |item| {
        let cost = match item.field.map(|field| &field.kind) {
            // A vector may have grown to twice its length, and a map keeps its nodes at least half
            // full.
            Some(Kind::Message(child)) => 2 * MESSAGES[*child].size,
            Some(Kind::Text) => 64 + item.len as u64,
            Some(Kind::Blob) => 64,
            Some(Kind::Number) => 16 * (item.len as u64).max(1),
            None => 0,
        };
        needed = needed.saturating_add(cost);
        if needed > limit {
            return Err(PayloadProblem::TooLarge { bytes: bytes.len() as u64, needed, limit });
        }
        Ok(())
    })?;
    budget.left -= needed;
    Ok(())
}

/// Lists the fields that are not in the schema, at most `limit` of them, in file order.
///
/// # Errors
/// Fails if the payload is damaged.
pub fn unknown_fields(bytes: &[u8], payload: Payload, limit: usize) -> Result<Vec<UnknownField>, PayloadProblem> {
    let mut found = Vec::new();
    walk(bytes, payload, |item| {
        if item.field.is_none() && found.len() < limit {
            let mut path: Vec<&str> = vec![item.levels.first().map_or("", |root| MESSAGES[root.message].name)];
            path.extend(item.levels.iter().skip(1).map(|level| level.field));
            debug_assert!(item.message.fields.iter().all(|field| field.number != item.number));
            found.push(UnknownField { path: path.join("."), number: item.number, range: item.range.clone() });
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use prost::Message as _;

    use super::*;
    use crate::proto::{ir, task};

    fn size_of_message(name: &str) -> u64 {
        MESSAGES.iter().find(|message| message.name == name).map(|message| message.size).unwrap()
    }

    #[test]
    fn size_bounds_are_no_less_than_the_structs() {
        for (name, real) in [
            ("ge.proto.ModelDef", size_of::<ir::ModelDef>()),
            ("ge.proto.GraphDef", size_of::<ir::GraphDef>()),
            ("ge.proto.OpDef", size_of::<ir::OpDef>()),
            ("ge.proto.AttrDef", size_of::<ir::AttrDef>()),
            ("ge.proto.AttrDef.ListValue", size_of::<ir::attr_def::ListValue>()),
            ("ge.proto.TensorDescriptor", size_of::<ir::TensorDescriptor>()),
            ("ge.proto.TensorDef", size_of::<ir::TensorDef>()),
            ("ge.proto.NamedAttrs", size_of::<ir::NamedAttrs>()),
            ("ge.proto.ShapeEnvAttrGroupsDef", size_of::<ir::ShapeEnvAttrGroupsDef>()),
            ("domi.TaskDef", size_of::<task::TaskDef>()),
            ("domi.KernelDef", size_of::<task::KernelDef>()),
            ("domi.KernelDefWithHandle", size_of::<task::KernelDefWithHandle>()),
            ("domi.FftsPlusCtxDef", size_of::<task::FftsPlusCtxDef>()),
            ("domi.FftsPlusMixAicAivCtxDef", size_of::<task::FftsPlusMixAicAivCtxDef>()),
            ("domi.FusionTaskDef", size_of::<task::FusionTaskDef>()),
        ] {
            let bound = size_of_message(name);
            assert!(bound >= real as u64, "{name}: {bound} < {real}");
            assert!(bound <= 4 * real as u64 + 64, "{name}: {bound} is far above {real}");
        }
    }

    #[test]
    fn a_bomb_of_empty_messages_is_refused() {
        // graph { op {} op {} ... }: two bytes each in the file, hundreds in memory.
        let ops: Vec<u8> = [0x32, 0x00].repeat(200_000);
        let mut bytes = vec![0x3A];
        prost::encoding::encode_varint(ops.len() as u64, &mut bytes);
        bytes.extend_from_slice(&ops);
        assert!(matches!(
            check(&bytes, Payload::ModelDef, &mut Budget::default()),
            Err(PayloadProblem::TooLarge { .. })
        ));
    }

    #[test]
    fn short_tasks_are_well_within_the_limit_and_the_budget_is_shared() {
        let event = task::EventExDef { op_index: 9, event_type: 1 };
        let record = task::TaskDef { r#type: 1, event_id: 3, event_ex: Some(Box::new(event)), ..Default::default() };
        let end = task::TaskDef { r#type: 19, ..Default::default() };
        let task = std::iter::repeat_n([record, end], 200_000).flatten().collect();
        let tasks = task::ModelTaskDef { task, ..Default::default() }.encode_to_vec();
        let mut budget = Budget::default();
        check(&tasks, Payload::TaskInfo, &mut budget).unwrap();
        assert!(budget.left < CEILING);
        budget.left = 1 << 20;
        assert!(matches!(check(&tasks, Payload::TaskInfo, &mut budget), Err(PayloadProblem::TooLarge { .. })));
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion() {
        // attr value func attr value func ..., nested far deeper than any stack allows.
        let wrap = |key: u8, inner: Vec<u8>| {
            let mut outer = vec![key];
            prost::encoding::encode_varint(inner.len() as u64, &mut outer);
            outer.extend_from_slice(&inner);
            outer
        };
        let mut attr = Vec::new();
        for _ in 0..300 {
            attr = wrap(0x52, wrap(0x12, wrap(0x12, attr)));
        }
        let model = wrap(0x5A, wrap(0x12, attr));
        assert!(matches!(
            check(&model, Payload::ModelDef, &mut Budget::default()),
            Err(PayloadProblem::TooDeep { limit: 100 })
        ));
    }

    #[test]
    fn unknown_fields_are_listed_and_not_an_error() {
        let mut op = ir::OpDef { name: "a".into(), ..Default::default() }.encode_to_vec();
        op.extend_from_slice(b"\xC2\x3E\x03xyz"); // field 1000, three bytes
        let mut graph = vec![0x32];
        prost::encoding::encode_varint(op.len() as u64, &mut graph);
        graph.extend_from_slice(&op);
        let mut model = vec![0x3A];
        prost::encoding::encode_varint(graph.len() as u64, &mut model);
        model.extend_from_slice(&graph);
        assert!(check(&model, Payload::ModelDef, &mut Budget::default()).is_ok());
        assert_eq!(ir::ModelDef::decode(model.as_slice()).unwrap().graph[0].op[0].name, "a");
        let found = unknown_fields(&model, Payload::ModelDef, 10).unwrap();
        let expected = UnknownField { path: "ge.proto.ModelDef.graph.op".into(), number: 1000, range: 7..13 };
        assert_eq!(found, [expected]);
        assert_eq!(unknown_fields(&model, Payload::ModelDef, 0).unwrap(), []);
    }

    #[test]
    fn cut_payloads_are_refused() {
        let model = ir::ModelDef { name: "abc".into(), version: 300, ..Default::default() }.encode_to_vec();
        for len in 1..model.len() {
            let cut = check(&model[..len], Payload::ModelDef, &mut Budget::default());
            assert_eq!(cut.is_ok(), len == 5, "{len}: {cut:?}");
        }
    }
}
