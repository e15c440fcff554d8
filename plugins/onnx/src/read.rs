//! From bytes to messages: checks whether a file is ONNX and whether its sizes are plausible, then
//! decodes it so that tensors share the file's bytes.
use crate::proto::{ModelProto, NodeProto, ValueInfoProto};
use bytes::Bytes;
use ge_plugin_api::diagnostic::{Diagnostic, Error, Result};
use ge_plugin_api::types::Blob;
use prost::{DecodeError, Message};
use std::marker::PhantomData;
use std::ops::Range;

/// Number of the field of a model that holds its graph.
const GRAPH: u64 = 7;
/// Maximum number of nodes in the main graph, and of entries in any other list of it.
const MOST_ENTRIES: u64 = 4_000_000;

/// A blob as an owner of bytes.
struct Owner(Blob);
impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// One field of a message.
struct Field<'a> {
    number: u64,
    kind: u8,
    value: u64,
    body: &'a [u8],
}

/// Iterates over the fields of a message. An error means that it does not parse; it tells whether
/// the message merely ends too early.
struct Fields<'a> {
    rest: &'a [u8],
}

enum Broken {
    Short,
    Wrong,
}

fn varint(b: &mut &[u8]) -> Result<u64, Broken> {
    let mut v = 0u64;
    for i in 0..10 {
        let Some((&x, rest)) = b.split_first() else { return Err(Broken::Short) };
        *b = rest;
        if i == 9 && x > 1 {
            return Err(Broken::Wrong);
        }
        v |= u64::from(x & 0x7f) << (7 * i);
        if x < 0x80 {
            return Ok(v);
        }
    }
    Err(Broken::Wrong)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Broken>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let r = self.field();
        if r.is_err() {
            self.rest = &[];
        }
        Some(r)
    }
}
impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>, Broken> {
        let tag = varint(&mut self.rest)?;
        let (number, kind) = (tag >> 3, (tag & 7) as u8);
        let mut f = Field { number, kind, value: 0, body: &[] };
        let take = match kind {
            0 => {
                f.value = varint(&mut self.rest)?;
                0
            }
            1 => 8,
            2 => varint(&mut self.rest)?,
            5 => 4,
            _ => return Err(Broken::Wrong),
        };
        let take = usize::try_from(take).map_err(|_| Broken::Short)?;
        let rest = self.rest;
        let (body, after) = rest.split_at_checked(take).ok_or(Broken::Short)?;
        self.rest = after;
        f.body = body;
        Ok(f)
    }
}

/// Wire type of each field of a model message; `None`: no such field.
fn model_field(number: u64) -> Option<u8> {
    match number {
        1 | 5 => Some(0),
        2 | 3 | 4 | 6 | 7 | 8 | 14 | 20 | 25 | 26 => Some(2),
        _ => None,
    }
}

/// Whether bytes look like an ONNX model: every readable field of a model must have the right wire
/// type. Fields that no model has are skipped, as Protobuf says, but only beside a graph: other
/// formats have such fields, too.
pub fn recognises(bytes: &[u8]) -> bool {
    let (mut seen, mut has_graph, mut has_others) = (0, false, false);
    let mut cut = None;
    for f in (Fields { rest: bytes }) {
        match f {
            Ok(f) => match model_field(f.number) {
                Some(kind) if kind != f.kind || (f.number == 1 && f.value > 1_000) => return false,
                Some(_) => {
                    has_graph |= f.number == GRAPH;
                    seen += 1;
                }
                None if f.number == 0 => return false,
                None => has_others = true,
            },
            Err(how) => cut = Some(how),
        }
    }
    if has_others && !has_graph {
        return false;
    }
    match cut {
        None => seen > 0,
        Some(Broken::Wrong) => seen > 1,
        Some(Broken::Short) => seen > 0 || bytes.first() == Some(&8),
    }
}

fn damaged(what: &str, help: &str) -> Error {
    Diagnostic::error(format!("not a whole ONNX model: {what}"))
        .help(help)
        .raise(ge_plugin_api::diagnostic::BROKEN_MODEL)
}

/// A model as read: everything except long lists of its main graph, and these lists.
pub struct Read {
    /// The model; its main graph has no nodes.
    pub model: ModelProto,
    /// The nodes of its main graph.
    pub nodes: Nodes,
    /// What the model states of values of its main graph, besides inputs and outputs.
    pub values: Messages<ValueInfoProto>,
}

/// The nodes of a graph.
pub type Nodes = Messages<NodeProto>;

/// A list of messages as encoded in the file; each is decoded on request, since decoded messages
/// take several times the memory.
pub struct Messages<M> {
    file: Bytes,
    places: Vec<Range<usize>>,
    of: PhantomData<M>,
}

impl<M: Message + Default> Messages<M> {
    fn new(file: &Bytes, places: Vec<Range<usize>>) -> Messages<M> {
        Messages { file: file.clone(), places, of: PhantomData }
    }
    /// Number of messages.
    pub fn len(&self) -> usize {
        self.places.len()
    }
    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// Decodes message `k`; returns an empty one if there are fewer.
    ///
    /// # Errors
    /// Fails if the message does not parse.
    pub fn get(&self, k: usize) -> Result<M> {
        let bytes = self.places.get(k).map(|place| self.file.slice(place.clone()));
        M::decode(bytes.unwrap_or_default()).map_err(|e| malformed(&e))
    }
}

fn malformed(e: &DecodeError) -> Error {
    damaged(&e.to_string(), "check the file with onnx.checker, or export it again")
}

/// Byte ranges of a message.
struct Parts {
    /// The bodies of each of the chosen fields.
    of_field: Vec<Vec<Range<usize>>>,
    /// Everything else, in as few ranges as possible.
    others: Vec<Range<usize>>,
}

impl Parts {
    /// Splits a message into the bodies of the fields `numbers` and everything else; `broken` is
    /// the error text for a message that does not parse. List entries are counted before memory is
    /// allocated for them: an entry of two bytes can become a few hundred.
    fn of(message: &[u8], numbers: &[u64], broken: &str) -> Result<Parts> {
        let mut parts = Parts { of_field: vec![Vec::new(); numbers.len()], others: Vec::new() };
        let mut fields = Fields { rest: message };
        let mut counts = [0u64; 16];
        let (mut run, mut at) = (0, 0);
        while let Some(f) = fields.next() {
            let f = f.map_err(|_| damaged(broken, "get the file again; it may be cut off"))?;
            if let Some(n) = usize::try_from(f.number).ok().and_then(|i| counts.get_mut(i)) {
                *n += 1;
                if *n > MOST_ENTRIES {
                    return Err(damaged(&format!("more than {MOST_ENTRIES} entries of one kind"), "split the model"));
                }
            }
            let end = message.len() - fields.rest.len();
            if let Some(k) = numbers.iter().position(|n| *n == f.number).filter(|_| f.kind == 2) {
                parts.others.extend((run < at).then_some(run..at));
                parts.of_field[k].push(end - f.body.len()..end);
                run = end;
            }
            at = end;
        }
        parts.others.extend((run < at).then_some(run..at));
        Ok(parts)
    }
}

/// Decodes a model. Raw tensor bytes are slices of `file`.
pub fn decode(file: &Blob) -> Result<Read> {
    const NODE: u64 = 1;
    const VALUE_INFO: u64 = 13;
    let bytes = Bytes::from_owner(Owner(file.clone()));
    let whole = Parts::of(&bytes, &[GRAPH], "it ends in the middle of a field, or a length points beyond its end")?;
    let mut model = ModelProto::default();
    for run in whole.others {
        model.merge(bytes.slice(run)).map_err(|e| malformed(&e))?;
    }
    let mut places = [Vec::new(), Vec::new()];
    for place in whole.of_field.into_iter().flatten() {
        let start = place.start;
        let body = bytes.slice(place);
        let parts = Parts::of(&body, &[NODE, VALUE_INFO], "its graph does not parse")?;
        let graph = model.graph.get_or_insert_default();
        for run in parts.others {
            graph.merge(body.slice(run)).map_err(|e| malformed(&e))?;
        }
        for (all, found) in places.iter_mut().zip(parts.of_field) {
            all.extend(found.into_iter().map(|one| start + one.start..start + one.end));
        }
    }
    let [nodes, values] = places;
    Ok(Read { model, nodes: Messages::new(&bytes, nodes), values: Messages::new(&bytes, values) })
}

/// The part of the file that holds these decoded bytes, shared without copying; `None` if they are
/// not in the file.
pub fn shared(file: &Blob, part: &[u8]) -> Option<Blob> {
    let offset = (part.as_ptr() as usize).checked_sub(file.as_ptr() as usize)?;
    file.slice(offset, part.len())
}
