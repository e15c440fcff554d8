//! The cache key: one digest per part, so that a miss can say which part differs.
use crate::options::{Kind, OptionMap, Scope, TABLE};
use crate::{Error, Result};
use ge_ir::{AttrMap, AttrValue, ConstData, ConstTensor, Model, TensorDesc};
use ge_plugin::Registry;
use ge_plugin_api::engine::Target;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The key of one compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey {
    parts: BTreeMap<String, String>,
    digest: String,
}

impl CacheKey {
    /// Makes the key of an imported graph and everything that influences its build. `libraries`:
    /// name and digest of each library.
    ///
    /// # Errors
    /// Fails if a file that an option names cannot be read.
    pub fn new(
        model: &Model,
        options: &OptionMap,
        target: &Target,
        registry: &Registry,
        libraries: &[(String, String)],
    ) -> Result<CacheKey> {
        let mut parts = BTreeMap::new();
        let (graph, constants) = of_graph(model);
        parts.insert("graph".to_owned(), graph);
        parts.insert("constants".to_owned(), constants);
        for d in TABLE.iter().filter(|d| d.scope == Scope::Model) {
            let value = options.text(d);
            let mut text = value.to_owned();
            if d.kind == Kind::Path && !value.is_empty() {
                let bytes = std::fs::read(value)
                    .map_err(|e| Error::usage(format!("option `{}`: cannot read `{value}`: {e}", d.name)))?;
                text = hex(&Sha256::digest(bytes));
            }
            parts.insert(format!("option {}", d.name), text);
        }
        parts.insert("option soc".to_owned(), hex(&Sha256::digest(format!("{:?}", target.soc))));
        for (name, digest) in libraries {
            let version = registry.plugin(name).map_or(env!("CARGO_PKG_VERSION"), |p| p.version.as_str());
            let excluded: Vec<&str> = registry
                .engines()
                .iter()
                .filter(|e| e.excluded && e.owner().name == *name)
                .map(|e| e.info.name.as_str())
                .collect();
            parts.insert(format!("plugin {name}"), format!("{version} {digest} {}", excluded.join(",")));
            for (key, value) in registry.plugin(name).iter().flat_map(|p| &p.options) {
                parts.insert(format!("plugin {name} option {key}"), value.clone());
            }
        }
        // The order matters because the earlier plugin wins among equal costs.
        let order: Vec<&str> = libraries.iter().map(|(n, _)| n.as_str()).collect();
        parts.insert("plugin order".to_owned(), order.join(" "));
        Ok(CacheKey { digest: digest(&parts), parts })
    }
    /// The key as a hex string.
    pub fn digest(&self) -> &str {
        &self.digest
    }
    /// The digests of the parts, by name.
    pub fn parts(&self) -> &BTreeMap<String, String> {
        &self.parts
    }
    /// Names of the parts that differ, the most useful one for the user first: graph, constants,
    /// options, then the rest.
    pub fn differing(&self, other: &BTreeMap<String, String>) -> Vec<String> {
        let names: std::collections::BTreeSet<&String> = self.parts.keys().chain(other.keys()).collect();
        let mut out: Vec<String> = names.into_iter().filter(|n| self.parts.get(*n) != other.get(*n)).cloned().collect();
        // A different graph usually has different constants too, so the graph is reported first.
        let rank = |n: &String| match n.as_str() {
            "graph" => 0,
            "constants" => 1,
            n if n.starts_with("option ") => 2,
            _ => 3,
        };
        out.sort_by_key(rank);
        out
    }
}

/// Makes one digest over named parts.
pub fn digest(parts: &BTreeMap<String, String>) -> String {
    let mut sha = Sha256::new();
    for (name, value) in parts {
        for text in [name, value] {
            sha.update((text.len() as u64).to_le_bytes());
            sha.update(text);
        }
    }
    hex(&sha.finalize())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Digests of the graph's structure and of the constants' bytes. The name of the root graph is
/// ignored: it comes from the file name.
fn of_graph(model: &Model) -> (String, String) {
    let mut w = Walk { sha: Sha256::new(), constants: Vec::new(), root: model.root().name().to_owned() };
    w.number(model.graphs().len());
    for (gi, g) in model.graphs().iter().enumerate() {
        w.text(if gi == 0 { "" } else { g.name() });
        w.attrs(g.attrs());
        let mut at = vec![u32::MAX; g.id_bound()];
        for (i, id) in (0u32..).zip(g.order()) {
            at[id.index()] = i;
        }
        w.number(g.len());
        for n in g.nodes() {
            w.text(n.op());
            w.text(n.name());
            w.number(n.inputs().len());
            for v in n.inputs() {
                w.number(at.get(v.node.index()).map_or(usize::MAX, |a| *a as usize));
                w.number(v.output as usize);
            }
            w.number(n.controls().len());
            for c in n.controls() {
                w.number(at[c.index()] as usize);
            }
            w.number(n.outputs().len());
            for d in n.outputs() {
                w.desc(d);
            }
            w.attrs(n.attrs());
        }
    }
    let digests: Vec<[u8; 32]> = w
        .constants
        .par_iter()
        .map(|t| {
            let (kind, bytes) = match &t.data {
                ConstData::Bytes(b) => (0u8, b),
                ConstData::Splat(b) => (1, b),
            };
            let mut sha = Sha256::new();
            sha.update([kind]);
            sha.update(bytes.as_slice());
            sha.finalize().into()
        })
        .collect();
    let mut all = Sha256::new();
    digests.iter().for_each(|d| all.update(d));
    (hex(&w.sha.finalize()), hex(&all.finalize()))
}

struct Walk<'m> {
    sha: Sha256,
    constants: Vec<&'m ConstTensor>,
    root: String,
}

impl<'m> Walk<'m> {
    fn number(&mut self, n: usize) {
        self.sha.update((n as u64).to_le_bytes());
    }
    fn text(&mut self, t: &str) {
        self.number(t.len());
        self.sha.update(t);
    }
    fn desc(&mut self, d: &'m TensorDesc) {
        let origin = d.origin.as_ref().into_option();
        self.text(&format!(
            "{} {} {:?} {:?} {}",
            d.dtype,
            d.shape,
            d.format,
            d.container,
            origin.map_or(String::new(), |o| format!("{:?} {}", o.format, o.shape))
        ));
        self.attrs(&d.attrs);
    }
    fn attrs(&mut self, a: &'m AttrMap) {
        self.number(a.len());
        for e in a.sorted() {
            self.text(e.key.as_str());
            self.value(&e.value);
        }
    }
    fn value(&mut self, v: &'m AttrValue) {
        self.text(v.kind());
        match v {
            AttrValue::Tensor(t) => {
                self.text(&format!("{} {:?}", t.dtype, t.dims));
                self.constants.push(t);
            }
            AttrValue::List(l) => {
                self.number(l.len());
                l.iter().for_each(|v| self.value(v));
            }
            AttrValue::Dict(d) => {
                let mut entries: Vec<_> = d.iter().collect();
                entries.sort_by_key(|e| e.key.as_str());
                self.number(entries.len());
                for e in entries {
                    self.text(e.key.as_str());
                    self.value(&e.value);
                }
            }
            AttrValue::Graph(g) if g.as_str() == self.root => self.text(""),
            plain => self.text(&format!("{plain:?}")),
        }
    }
}
