//! Mappings of one plugin that the front end of another plugin calls. Errors in a mapping are
//! blamed on its owner, not on the front end.
use crate::owner::Owner;
use crate::watch::{self, Call};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, Mapping, MappingInfo, MappingObject, MappingRef};
use ge_plugin_api::types::ValueRef;
use std::sync::Arc;

struct Owned {
    owner: Arc<Owner>,
    info: MappingInfo,
    inner: MappingRef,
    /// Name of the call in errors: `mapping of com.acme.Gelu`.
    call: String,
}

impl Mapping for Owned {
    fn framework(&self) -> String {
        self.info.framework.to_string()
    }
    fn domain(&self) -> String {
        self.info.domain.to_string()
    }
    fn op(&self) -> String {
        self.info.op.to_string()
    }
    fn versions(&self) -> (u32, u32) {
        (self.info.since, self.info.until)
    }
    fn map(&self, node: &ForeignNode, builder: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
        let at = Call { plugin: &self.owner.name, part: "", call: &self.call, node: &node.name, op: &node.op };
        watch::call(&at, || self.inner.map(node, builder)).map_err(|e| self.owner.named(&self.call, e))
    }
}

/// Wraps a mapping so that its errors name its owner.
pub(crate) fn owned(owner: &Arc<Owner>, info: &MappingInfo, inner: MappingRef) -> MappingRef {
    let call = format!("mapping of {}.{}", info.domain, info.op);
    MappingObject::from_box(Box::new(Owned { owner: owner.clone(), info: info.clone(), inner, call })).leak()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::Error;
    use ge_plugin_api::diagnostic::ErrorKind;

    struct Boom;
    impl Mapping for Boom {
        fn framework(&self) -> String {
            "onnx".into()
        }
        fn domain(&self) -> String {
            "com.acme".into()
        }
        fn op(&self) -> String {
            "Gelu".into()
        }
        fn versions(&self) -> (u32, u32) {
            (1, 1)
        }
        fn map(&self, node: &ForeignNode, _: &mut GraphBuilder<'_>) -> Result<Vec<ValueRef>> {
            if node.name.as_str() == "refused" {
                Err(Error::unsupported("no such form"))
            } else {
                panic!("off the map")
            }
        }
    }

    #[test]
    fn what_a_mapping_does_is_its_owners() {
        let owner = Arc::new(Owner { name: "acme".into(), version: "1.2.0".into() });
        let front = Owner { name: "onnx".into(), version: "0.1.0".into() };
        let inner = MappingObject::from_box(Box::new(Boom)).leak();
        let m = owned(&owner, &inner.info().unwrap(), inner);
        let map = |name: &str| {
            let node = ForeignNode { name: name.into(), op: "Gelu".into(), ..ForeignNode::default() };
            // The front end passes the error on; its own handle then adds the front end's name.
            front.named("import of `m.onnx`", m.map(&node, &mut GraphBuilder::new(None)).unwrap_err())
        };
        let e = map("g");
        assert_eq!(e.kind, ErrorKind::PANIC);
        let said = e.message();
        assert!(
            said.starts_with("plugin `acme` 1.2.0 panicked in mapping of com.acme.Gelu: ") && !said.contains("onnx"),
            "{said}"
        );
        assert!(said.contains("off the map"), "{said}");
        assert_eq!(map("refused").kind, ErrorKind::UNSUPPORTED);
    }
}
