//! From bytes to messages: is it ONNX at all, are its sizes sane, then decoding that shares the
//! file's bytes.
use crate::proto::ModelProto;
use ge_plugin_api::diagnostic::{Diagnostic, Error, Result};
use ge_plugin_api::types::Blob;
use prost::Message;

/// Most nodes of the main graph, and most entries of any other list in it.
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

/// Walks the fields of one message; Err: it does not parse, with whether it merely ends too early.
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

/// Wire type of each field of a model; None: no such field.
fn model_field(number: u64) -> Option<u8> {
    match number {
        1 | 5 => Some(0),
        2 | 3 | 4 | 6 | 7 | 8 | 14 | 20 | 25 | 26 => Some(2),
        _ => None,
    }
}

/// Whether bytes look like an ONNX model: every field that can be read is one of a model's, with
/// its wire type.
pub fn recognises(bytes: &[u8]) -> bool {
    let mut seen = 0;
    for f in (Fields { rest: bytes }) {
        match f {
            Ok(f) if model_field(f.number) == Some(f.kind) => {
                if f.number == 1 && f.value > 1_000 {
                    return false;
                }
                seen += 1;
            }
            Ok(_) => return false,
            Err(Broken::Wrong) => return seen > 1,
            Err(Broken::Short) => return seen > 0 || bytes.first() == Some(&8),
        }
    }
    seen > 0
}

fn damaged(what: &str, help: &str) -> Error {
    Diagnostic::error(format!("not a whole ONNX model: {what}"))
        .help(help)
        .raise(ge_plugin_api::diagnostic::BROKEN_MODEL)
}

/// Decodes a model. Tensors' raw bytes are slices of `file`.
pub fn decode(file: &Blob) -> Result<ModelProto> {
    let mut graph = None;
    for f in (Fields { rest: file }) {
        match f {
            Ok(f) if f.number == 7 && f.kind == 2 => graph = Some(f.body),
            Ok(_) => {}
            Err(_) => {
                return Err(damaged(
                    "it ends in the middle of a field, or a length points beyond its end",
                    "get the file again; it may be cut off",
                ));
            }
        }
    }
    // Lists are counted before memory is taken for them: an entry of two bytes becomes a few
    // hundred.
    let mut counts = [0u64; 16];
    for f in (Fields { rest: graph.unwrap_or_default() }) {
        let f = f.map_err(|_| damaged("its graph does not parse", "get the file again; it may be cut off"))?;
        if let Some(n) = usize::try_from(f.number).ok().and_then(|i| counts.get_mut(i)) {
            *n += 1;
            if *n > MOST_ENTRIES {
                return Err(damaged(&format!("more than {MOST_ENTRIES} entries of one kind"), "split the model"));
            }
        }
    }
    let bytes = bytes::Bytes::from_owner(Owner(file.clone()));
    ModelProto::decode(bytes)
        .map_err(|e| damaged(&e.to_string(), "check the file with onnx.checker, or export it again"))
}

/// The part of the file that decoded bytes are, if they are: shared, not copied.
pub fn shared(file: &Blob, part: &[u8]) -> Option<Blob> {
    let offset = (part.as_ptr() as usize).checked_sub(file.as_ptr() as usize)?;
    file.slice(offset, part.len())
}
