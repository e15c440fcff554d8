//! Writes protobuf payloads piece by piece, so that no model stands in memory a second time.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use crate::proto::{ir, task};

/// Counts what goes through it.
pub(crate) struct Counted<W> {
    inner: W,
    written: u64,
    scratch: Vec<u8>,
}

impl<W: Write> Counted<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, written: 0, scratch: Vec::new() }
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// `count` zero bytes.
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

    /// The fields of a message, as part of the message that is being written.
    fn fields<M: Message>(&mut self, message: &M) -> io::Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        message.encode(&mut scratch).map_err(io::Error::other)?;
        self.put(&scratch)?;
        self.scratch = scratch;
        Ok(())
    }

    /// Key and length of a message in field `number`.
    fn open(&mut self, number: u32, len: usize) -> io::Result<()> {
        let mut head = Vec::with_capacity(12);
        encode_key(number, WireType::LengthDelimited, &mut head);
        encode_varint(len as u64, &mut head);
        self.put(&head)
    }
}

/// Number of `ModelDef.graph`, `GraphDef.op` and `ModelTaskDef.task`.
const GRAPH: u32 = 7;
const OP: u32 = 6;
const TASK: u32 = 10;

/// Writes MODEL_DEF; operators are freed as they are written. The attribute `last` stands at the very end and its
/// `len` bytes are zero, to be filled in later. Gives the place of these bytes.
pub(crate) fn write_model_def<W: Write>(
    out: &mut Counted<W>,
    model: ir::ModelDef,
    last: &str,
    len: usize,
) -> io::Result<u64> {
    let ir::ModelDef { name, version, custom_version, graph, attr, attr_groups } = model;
    out.fields(&ir::ModelDef { name, version, custom_version, ..Default::default() })?;
    for graph in graph {
        out.open(GRAPH, graph.encoded_len())?;
        let ir::GraphDef { name, input, output, op, attr, attr_groups } = graph;
        out.fields(&ir::GraphDef { name, input, output, ..Default::default() })?;
        for op in op {
            out.open(OP, op.encoded_len())?;
            out.fields(&op)?;
        }
        out.fields(&ir::GraphDef { attr, attr_groups, ..Default::default() })?;
    }
    out.fields(&ir::ModelDef { attr, attr_groups, ..Default::default() })?;
    let value = ir::AttrDef { value: Some(ir::attr_def::Value::Bt(Bytes::from(vec![0; len]))) };
    let attr = BTreeMap::from([(last.to_string(), value)]);
    out.fields(&ir::ModelDef { attr, ..Default::default() })?;
    Ok(out.written() - len as u64)
}

/// Writes TASK_INFO; tasks are freed as they are written.
pub(crate) fn write_tasks<W: Write>(out: &mut Counted<W>, mut tasks: task::ModelTaskDef) -> io::Result<()> {
    let list = std::mem::take(&mut tasks.task);
    out.fields(&tasks)?;
    for task in list {
        out.open(TASK, task.encoded_len())?;
        out.fields(&task)?;
    }
    Ok(())
}
