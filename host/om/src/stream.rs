//! Writes protobuf payloads piece by piece, so that no second copy of the model exists in memory.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use rayon::prelude::*;

use crate::proto::{ir, task};

/// Counts the bytes written through it.
pub(crate) struct Counted<W> {
    inner: W,
    written: u64,
    scratch: Vec<u8>,
}

impl<W: Write> Counted<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, written: 0, scratch: Vec::new() }
    }

    /// Number of bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Writes `count` zero bytes.
    pub(crate) fn zeros(&mut self, mut count: u64) -> io::Result<()> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        while count > 0 {
            let now = count.min(ZEROS.len() as u64);
            self.put(&ZEROS[..now as usize])?;
            count -= now;
        }
        Ok(())
    }

    pub(crate) fn into_inner(self) -> W {
        self.inner
    }

    /// Writes the fields of a message into the message that is being written.
    fn fields<M: Message>(&mut self, message: &M) -> io::Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        message.encode(&mut scratch).map_err(io::Error::other)?;
        self.put(&scratch)?;
        self.scratch = scratch;
        Ok(())
    }

    /// Writes key and length of a message in field `number`.
    fn open(&mut self, number: u32, len: usize) -> io::Result<()> {
        let mut head = Vec::with_capacity(12);
        encode_key(number, WireType::LengthDelimited, &mut head);
        encode_varint(len as u64, &mut head);
        self.put(&head)
    }
}

/// Field numbers of `ModelDef.graph`, `GraphDef.op` and `ModelTaskDef.task`.
const GRAPH: u32 = 7;
const OP: u32 = 6;
const TASK: u32 = 10;

/// Operators of one graph, or tasks, already encoded for the file. The pieces are encoded in
/// parallel, so that no list of messages exists in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encoded(Vec<Vec<u8>>);

impl Encoded {
    /// Encodes the operators of a graph. `piece` returns the operators of one part of the list; the
    /// parts are written in order.
    pub fn ops<P: Sync, I: IntoIterator<Item = ir::OpDef>>(parts: &[P], piece: impl Fn(&P) -> I + Sync) -> Encoded {
        Encoded(parts.par_iter().map(|p| frames(OP, piece(p))).collect())
    }
    /// Encodes tasks in the same way.
    pub fn tasks<P: Sync, I: IntoIterator<Item = task::TaskDef>>(
        parts: &[P],
        piece: impl Fn(&P) -> I + Sync,
    ) -> Encoded {
        Encoded(parts.par_iter().map(|p| frames(TASK, piece(p))).collect())
    }
    fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
    fn write<W: Write>(self, out: &mut Counted<W>) -> io::Result<()> {
        self.0.into_iter().try_for_each(|piece| out.put(&piece))
    }
}

fn frames<M: Message>(number: u32, messages: impl IntoIterator<Item = M>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut messages = messages.into_iter();
    while let Some(m) = messages.next() {
        let len = m.encoded_len();
        if out.is_empty() {
            // Messages of one list have similar lengths.
            out.reserve((len + 8) * (messages.size_hint().0 + 1));
        }
        encode_key(number, WireType::LengthDelimited, &mut out);
        encode_varint(len as u64, &mut out);
        m.encode_raw(&mut out);
    }
    out
}

/// Writes MODEL_DEF. Operators are freed as they are written, and those in `more` follow them,
/// graph by graph. The attribute `last` comes at the very end; its `len` bytes are zero and are
/// filled in later. Returns the position of these bytes.
pub(crate) fn write_model_def<W: Write>(
    out: &mut Counted<W>,
    model: ir::ModelDef,
    more: Vec<Encoded>,
    last: &str,
    len: usize,
) -> io::Result<u64> {
    let ir::ModelDef { name, version, custom_version, graph, attr, attr_groups } = model;
    out.fields(&ir::ModelDef { name, version, custom_version, ..Default::default() })?;
    let more = more.into_iter().chain(std::iter::repeat_with(Encoded::default));
    for (graph, more) in graph.into_iter().zip(more) {
        out.open(GRAPH, graph.encoded_len() + more.len())?;
        let ir::GraphDef { name, input, output, op, attr, attr_groups } = graph;
        out.fields(&ir::GraphDef { name, input, output, ..Default::default() })?;
        for op in op {
            out.open(OP, op.encoded_len())?;
            out.fields(&op)?;
        }
        more.write(out)?;
        out.fields(&ir::GraphDef { attr, attr_groups, ..Default::default() })?;
    }
    out.fields(&ir::ModelDef { attr, attr_groups, ..Default::default() })?;
    let value = ir::AttrDef { value: Some(ir::attr_def::Value::Bt(Bytes::from(vec![0; len]))) };
    let attr = BTreeMap::from([(last.to_string(), value)]);
    out.fields(&ir::ModelDef { attr, ..Default::default() })?;
    Ok(out.written() - len as u64)
}

/// Writes TASK_INFO. Tasks are freed as they are written, and those in `more` follow them.
pub(crate) fn write_tasks<W: Write>(
    out: &mut Counted<W>,
    mut tasks: task::ModelTaskDef,
    more: Encoded,
) -> io::Result<()> {
    let list = std::mem::take(&mut tasks.task);
    out.fields(&tasks)?;
    for task in list {
        out.open(TASK, task.encoded_len())?;
        out.fields(&task)?;
    }
    more.write(out)
}
