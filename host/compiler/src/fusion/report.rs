//! Reports of passes about their fusions. They are graph attributes named `_fusion_report` among a
//! pass's edits; they end up in the records and not in a graph.
use crate::pass::Records;
use ge_plugin_api::fusion::REPORT;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::Key;

/// One fusion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FusionRecord {
    /// Name of the pass.
    pub pass: String,
    /// Names of the nodes that were fused.
    pub before: Vec<String>,
    /// Names of the resulting nodes; empty if the nodes were only deleted.
    pub after: Vec<String>,
}

/// What one run of a pass reports.
#[derive(Default)]
pub struct Told {
    /// Fusions, in order.
    pub fused: Vec<FusionRecord>,
    /// Pass, node and reason of each fusion that was not made.
    refused: Vec<[String; 3]>,
}

/// Removes the reports from the edits and returns them.
pub fn take(edits: &mut Vec<Edit>) -> Told {
    let key = Key::new(REPORT);
    let mut told = Told::default();
    edits.retain(|e| {
        let Edit::SetGraphAttr(a) = e else { return true };
        if a.key != key {
            return true;
        }
        let names = |list: &str| list.split(';').filter(|n| !n.is_empty()).map(str::to_owned).collect();
        match a.value.as_strs().unwrap_or_default().as_slice() {
            ["fused", pass, before, after] => {
                told.fused.push(FusionRecord { pass: (*pass).to_owned(), before: names(before), after: names(after) });
            }
            ["refused", pass, node, why] => told.refused.push([*pass, *node, *why].map(str::to_owned)),
            _ => {}
        }
        false
    });
    told
}

impl Told {
    /// Adds the reports to the records of a compilation.
    pub fn keep(self, records: &mut Records) {
        for [pass, node, why] in self.refused {
            records.refuse(&node, &pass, why);
        }
        records.fusions.extend(self.fused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::{Attr, AttrValue};

    #[test]
    fn reports_leave_the_edits() {
        let tell = |words: [&str; 4]| {
            let value = AttrValue::from(words.map(str::to_owned).to_vec());
            Edit::SetGraphAttr(Attr { key: Key::new(REPORT), value })
        };
        let kept = Edit::SetGraphAttr(Attr { key: Key::new("other"), value: 1i64.into() });
        let mut edits = vec![tell(["fused", "P", "a;b", "b"]), kept.clone(), tell(["refused", "P", "c", "it is c"])];
        let told = take(&mut edits);
        assert_eq!(edits, [kept]);
        let mut records = Records::default();
        told.keep(&mut records);
        assert_eq!(records.fusions.len(), 1);
        assert_eq!(records.fusions[0].before, ["a", "b"]);
        assert_eq!(records.refusals["c"], [("P".to_owned(), "it is c".to_owned())]);
    }
}
