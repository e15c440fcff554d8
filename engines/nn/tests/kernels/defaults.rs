//! Defaults of attributes according to the operators' prototypes, read from their table
//! (`plugins/ops/README.md`, which a test of the prototypes keeps up to date): kernels must compute
//! the same whether a default is given or left out.
use ge_plugin_api::types::{AttrMap, AttrValue, DType};
use std::collections::HashMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../../../plugins/ops/README.md");

fn value(text: &str) -> AttrValue {
    // A default is followed by the allowed values.
    if let Some(rest) = text.strip_prefix('"') {
        return AttrValue::from(rest.split('"').next().unwrap_or_default());
    }
    if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let numbers: Vec<i64> = list.split(',').filter_map(|v| v.trim().parse().ok()).collect();
        return AttrValue::from(numbers);
    }
    match text {
        "true" | "false" => AttrValue::from(text == "true"),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(v), _) => AttrValue::from(v),
            (_, Ok(v)) => AttrValue::from(v),
            _ => AttrValue::Type(DType::from_name(text).unwrap_or_else(|| panic!("`{text}` is no default"))),
        },
    }
}

/// The defaults of each operator whose outputs are not random.
pub fn all() -> &'static HashMap<&'static str, Vec<(&'static str, AttrValue)>> {
    static ALL: OnceLock<HashMap<&'static str, Vec<(&'static str, AttrValue)>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut ops = HashMap::new();
        for line in TABLE.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| operator")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            if cells.get(4).is_some_and(|f| f.contains("random")) {
                continue;
            }
            let given = cells[3].split("; ").filter_map(|a| a.split_once(" = ")).map(|(k, v)| (k.trim(), value(v)));
            ops.insert(cells[0], given.collect::<Vec<_>>());
        }
        assert!(ops.len() > 250, "the table has {} operators", ops.len());
        ops
    })
}

/// The operators that have defaults, in order, with the number of required inputs.
#[allow(dead_code)]
pub fn inputs() -> Vec<(&'static str, usize)> {
    let rows = TABLE.lines().filter(|l| l.starts_with("| "));
    let named = rows.filter_map(|l| {
        let cells: Vec<&str> = l.trim_matches('|').split(" | ").map(str::trim).collect();
        let must = cells[1].split(", ").filter(|i| !i.is_empty() && !i.ends_with('?') && !i.ends_with("?*")).count();
        all().get(cells[0]).filter(|d| !d.is_empty()).map(|_| (cells[0], must))
    });
    named.collect()
}

/// The attributes with all missing defaults filled in; `None` if none is missing.
pub fn filled(op: &str, attrs: &AttrMap) -> Option<AttrMap> {
    let mut full = attrs.clone();
    for (key, value) in all().get(op)? {
        if attrs.get(*key).is_none() {
            full.set(*key, value.clone());
        }
    }
    (full.len() > attrs.len()).then_some(full)
}
