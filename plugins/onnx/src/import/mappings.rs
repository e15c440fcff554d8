//! The mappings of all plugins: the operators of ONNX's domains, with the versions for which each
//! mapping stands.
use super::domain;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::MappingRef;
use std::collections::{BTreeMap, HashMap};

/// A mapping, for operators of versions `since` to `until`.
struct Versions {
    since: u32,
    until: u32,
    mapping: MappingRef,
}

/// Mappings by domain and operator.
pub(super) struct Mappings(BTreeMap<String, HashMap<String, Vec<Versions>>>);

impl Mappings {
    /// Collects the mappings of the enabled plugins.
    pub(super) fn of_plugins() -> Result<Mappings> {
        let all = match ge_plugin_api::services::host_or_none() {
            Some(h) => h.mappings("onnx"),
            None => ge_plugin_api::author::registry::mappings().into_iter().map(|m| m.leak()).collect(),
        };
        let mut out: BTreeMap<String, HashMap<String, Vec<Versions>>> = BTreeMap::new();
        for mapping in all {
            let i = mapping.info()?;
            let of = out.entry(domain(&i.domain).to_owned()).or_default();
            of.entry(i.op.to_string()).or_default().push(Versions { since: i.since, until: i.until, mapping });
        }
        Ok(Mappings(out))
    }

    fn of(&self, domain: &str, op: &str) -> Option<&[Versions]> {
        Some(self.0.get(domain)?.get(op)?.as_slice())
    }

    /// The mapping of an operator of this version.
    pub(super) fn find(&self, domain: &str, op: &str, version: u32) -> Option<MappingRef> {
        let fits = |v: &&Versions| (v.since..=v.until).contains(&version);
        Some(self.of(domain, op)?.iter().find(fits)?.mapping)
    }

    /// Why an operator has no mapping. `version` is that of the operator set that the model imports,
    /// if it imports one.
    pub(super) fn reason(&self, domain: &str, op: &str, version: Option<u32>) -> String {
        let span = |v: &Versions| match v.until {
            u32::MAX => format!("{} and newer", v.since),
            until => format!("{} to {until}", v.since),
        };
        match (version, self.of(domain, op)) {
            (None, _) => format!("the model imports no operator set `{domain}`"),
            (Some(_), Some(of)) => {
                let spans: Vec<String> = of.iter().map(span).collect();
                format!("it is mapped for versions {} only", spans.join(", "))
            }
            (Some(_), None) => "no enabled plugin maps this operator".into(),
        }
    }
}
