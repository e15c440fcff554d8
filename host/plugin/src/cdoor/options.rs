//! Options of C plugins: the schema in their tables, and the values that `start` receives.
use super::abi::{self, Choice, Opaque, Text};
use super::host::{Key, of, put};
use ge_plugin_api::services::{OptionKind, OptionSpec, OptionValue};
use ge_plugin_api::types::AttrValue;

/// Converts the schema.
///
/// # Errors
/// Fails if an option is too short or has an unknown kind.
///
/// # Safety
/// The list must be as the header declares it.
pub(super) unsafe fn schema(at: *const *const Choice, n: usize) -> Result<Vec<OptionSpec>, String> {
    let mut out = Vec::new();
    // SAFETY: by contract.
    for o in unsafe { abi::list(at, n, "options")? } {
        // SAFETY: by contract.
        let (o, name, help, text, choices) = unsafe {
            let o = abi::read(*o)?;
            let choices = abi::list(o.choices, o.n_choices, "choices")?;
            let choices: Vec<String> = choices.iter().map(|c| abi::text(*c)).collect();
            (o, abi::text(o.name), abi::text(o.help), abi::text(o.value_text), choices)
        };
        let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
        let range = if (o.least, o.most) == (0, 0) { i64::MIN..=i64::MAX } else { o.least..=o.most };
        let spec = match u8::try_from(o.kind).ok().and_then(OptionKind::from_code) {
            Some(OptionKind::BOOL) => OptionSpec::bool(&name, o.value_int != 0),
            Some(OptionKind::INT) => OptionSpec::int(&name, o.value_int, range),
            Some(OptionKind::CHOICE) => OptionSpec::choice(&name, &choices),
            Some(OptionKind::STRING) => OptionSpec::text(&name, &text),
            Some(OptionKind::FLOAT) => OptionSpec::float(&name, o.value_float),
            _ => return Err(format!("option `{name}` is of kind {}", o.kind)),
        };
        out.push(spec.help(&help));
    }
    Ok(out)
}

// SAFETY of all functions below: as for the functions in `host.rs`; the options belong to the
// current call of `start`.
unsafe fn value<'a>(options: Opaque, name: Key) -> Option<&'a AttrValue> {
    // SAFETY: see above.
    let (all, name) = unsafe { (of::<Vec<OptionValue>>(options)?, abi::text(name)) };
    all.iter().find(|o| o.key.as_str() == name).map(|o| &o.value)
}
pub(super) unsafe extern "C" fn option_int(options: Opaque, name: Key, out: *mut i64) -> i32 {
    // SAFETY: see above.
    let found = unsafe { value(options, name) };
    let number = found.and_then(|v| v.as_bool().map(i64::from).or_else(|| v.as_int()));
    // SAFETY: see above.
    unsafe { put(number, out) }
}
pub(super) unsafe extern "C" fn option_float(options: Opaque, name: Key, out: *mut f64) -> i32 {
    // SAFETY: see above.
    unsafe { put(value(options, name).and_then(AttrValue::as_float), out) }
}
pub(super) unsafe extern "C" fn option_text(options: Opaque, name: Key, out: *mut Text) -> i32 {
    // SAFETY: see above.
    unsafe { put(value(options, name).and_then(AttrValue::as_str).map(Text::of), out) }
}
