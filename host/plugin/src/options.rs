//! Checks the options of a plugin in `plugins.toml` against the plugin's own schema.
use crate::config::{At, nearest};
use ge_plugin_api::abi::RVec;
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::services::{OptionKind, OptionSpec, OptionValue};
use ge_plugin_api::types::AttrValue;
use ge_plugin_api::{Error, Result};

/// The values that a plugin receives: for each option of its schema, the given value or the
/// default.
///
/// # Errors
/// Returns `GE-E0513` for every unknown key (with the nearest known one), wrong type and value out
/// of range, each with its position.
pub fn check(
    plugin: &str,
    file: &str,
    schema: &[OptionSpec],
    given: &[(String, toml::Value, At)],
) -> Result<RVec<OptionValue>> {
    let mut wrong: Vec<Diagnostic> = Vec::new();
    for (key, _, at) in given {
        if !schema.iter().any(|s| s.key == key.as_str()) {
            let d = ge_codes::PLUGIN_OPTION
                .say(format!("plugin `{plugin}` has no option `{key}`"))
                .at(file, at.line, at.column);
            wrong.push(match nearest(key, schema.iter().map(|s| s.key.as_str())) {
                Some(n) => d.help(format!("did you mean `{n}`?")),
                None if schema.is_empty() => d.help("it takes no options"),
                None => {
                    let all: Vec<&str> = schema.iter().map(|s| s.key.as_str()).collect();
                    d.help(format!("it takes {}", all.join(", ")))
                }
            });
        }
    }
    let mut values = RVec::new();
    for s in schema {
        let value = match given.iter().find(|(k, ..)| s.key == k.as_str()) {
            None => s.default.clone(),
            Some((key, v, at)) => match convert(s, v) {
                Ok(v) => v,
                Err(expected) => {
                    wrong.push(
                        ge_codes::PLUGIN_OPTION
                            .say(format!("option `{key}` of plugin `{plugin}` does not take {v}"))
                            .at(file, at.line, at.column)
                            .subject(key.as_str())
                            .found(v.to_string(), expected),
                    );
                    continue;
                }
            },
        };
        values.push(OptionValue { key: s.key.clone(), value });
    }
    if wrong.is_empty() { Ok(values) } else { Err(Error::all(ErrorKind::PLUGIN, wrong)) }
}

/// What an option accepts, in words.
fn takes(s: &OptionSpec) -> String {
    match s.kind {
        OptionKind::BOOL => "true or false".into(),
        OptionKind::INT if s.min == i64::MIN && s.max == i64::MAX => "a whole number".into(),
        OptionKind::INT => format!("a whole number from {} to {}", s.min, s.max),
        OptionKind::CHOICE => {
            let all: Vec<String> = s.choices.iter().map(|c| format!("{:?}", c.as_str())).collect();
            format!("one of {}", all.join(", "))
        }
        OptionKind::FLOAT => "a number".into(),
        _ => "a text".into(),
    }
}

fn convert(s: &OptionSpec, v: &toml::Value) -> core::result::Result<AttrValue, String> {
    let value = match (s.kind, v) {
        (OptionKind::BOOL, toml::Value::Boolean(b)) => AttrValue::Bool(*b),
        (OptionKind::INT, toml::Value::Integer(i)) => AttrValue::Int(*i),
        (OptionKind::FLOAT, toml::Value::Float(f)) => AttrValue::Float(*f),
        // Integers up to 2^53 are exact as floating-point numbers.
        (OptionKind::FLOAT, toml::Value::Integer(i)) if i.unsigned_abs() <= 1 << 53 => AttrValue::Float(*i as f64),
        (OptionKind::STRING | OptionKind::CHOICE, toml::Value::String(t)) => AttrValue::Str(t.as_str().into()),
        _ => return Err(takes(s)),
    };
    if in_range(s, &value) { Ok(value) } else { Err(takes(s)) }
}

/// Whether an option accepts a value.
pub fn in_range(s: &OptionSpec, v: &AttrValue) -> bool {
    match (s.kind, v) {
        (OptionKind::BOOL, AttrValue::Bool(_)) | (OptionKind::STRING, AttrValue::Str(_)) => true,
        (OptionKind::INT, AttrValue::Int(i)) => (s.min..=s.max).contains(i),
        (OptionKind::CHOICE, AttrValue::Str(t)) => s.choices.iter().any(|c| c == t),
        (OptionKind::FLOAT, AttrValue::Float(f)) => f.is_finite(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(key: &str, kind: OptionKind, default: AttrValue) -> OptionSpec {
        OptionSpec {
            key: key.into(),
            kind,
            min: 1,
            max: 8,
            choices: vec!["a".into(), "b".into()].into(),
            default,
            help: "".into(),
        }
    }
    fn schema() -> Vec<OptionSpec> {
        vec![
            spec("winograd", OptionKind::BOOL, AttrValue::Bool(true)),
            spec("level", OptionKind::INT, AttrValue::Int(3)),
            spec("mode", OptionKind::CHOICE, AttrValue::Str("a".into())),
        ]
    }
    fn given(text: &str) -> Vec<(String, toml::Value, At)> {
        let t: toml::Table = text.parse().unwrap();
        t.into_iter().map(|(k, v)| (k, v, At { line: 7, column: 2 })).collect()
    }

    #[test]
    fn defaults_fill_what_is_not_given() {
        let v = check("nn", "f", &schema(), &given("level = 8")).unwrap();
        assert_eq!(
            v.iter().map(|o| o.value.clone()).collect::<Vec<_>>(),
            [AttrValue::Bool(true), AttrValue::Int(8), AttrValue::Str("a".into())]
        );
    }
    #[test]
    fn each_fault_is_told_with_its_place() {
        let e = check("nn", "f", &schema(), &given("winograt = true\nlevel = 9\nmode = \"c\"\n")).unwrap_err();
        let said: Vec<String> =
            e.diagnostics.iter().map(|d| format!("{} {} {}", d.message, d.expected, d.help)).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("`winograt`") && said[0].contains("did you mean `winograd`"), "{said:?}");
        assert!(said[1].contains("`level`") && said[1].contains("from 1 to 8"), "{said:?}");
        assert!(said[2].contains("\"a\", \"b\""), "{said:?}");
        assert!(e.diagnostics.iter().all(|d| d.place.as_ref().into_option().is_some_and(|p| p.line == 7)));
        let e = check("nn", "f", &schema(), &given("winograd = 1")).unwrap_err();
        assert_eq!(e.diagnostics[0].expected.as_str(), "true or false");
    }
}
