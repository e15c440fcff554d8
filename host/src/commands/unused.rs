//! Compilation options given with an OM file: it is compiled already, so they have no effect. Their
//! names and values must still be valid, and the user is told that they have no effect.
use super::compile::{BuildFlags, known_operators};
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::say;
use crate::options::OptionMap;
use crate::session::import::parse_input_shapes;
use crate::session::{Session, SessionOptions};
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_model::CompiledModel;
use ge_plugin::Want;
use std::path::Path;

/// Checks flags that have no effect on an OM file and notes that.
///
/// # Errors
/// `usage` if an option, value, operator, SoC or input is unknown, or if the model was not compiled
/// for the given sizes.
pub fn check(
    global: &Global,
    path: &Path,
    (flags, build): (&CompileFlags, &BuildFlags),
    m: &CompiledModel,
) -> Result<()> {
    flags.gather()?;
    let mut unused = build.given();
    let mut given = OptionMap::default();
    for pair in &flags.sets {
        given.set_pair(pair)?;
    }
    if let Some(file) = &flags.options {
        given.under(OptionMap::read_json(file)?);
    }
    for (name, value) in given.given() {
        if m.options.get(name) != Some(value) {
            unused.push(format!("{name}={value}"));
        }
    }
    if let Some(soc) = &flags.soc {
        let session = Session::new(SessionOptions {
            plugins: global.plugins.clone(),
            soc: Some(soc.clone()),
            want: Want::kinds(&["device"]),
            ..SessionOptions::default()
        })?;
        if session.soc()?.name != m.soc.name {
            unused.push(format!("--soc {soc}"));
        }
    }
    if let Some(gate) = build.fail_on_fallback.as_deref().filter(|g| !g.is_empty()) {
        let session = Session::new(SessionOptions {
            plugins: global.plugins.clone(),
            want: Want::All,
            ..SessionOptions::default()
        })?;
        known_operators(&session, Some(gate))?;
    }
    if !flags.gears()?.is_empty() {
        unused.push("sizes of gears".to_owned());
    }
    if let Some(shapes) = &flags.input_shape {
        fits(shapes, m)?;
    }
    if !unused.is_empty() {
        let shown = path.display();
        let list = unused.iter().map(|u| format!("`{u}`")).collect::<Vec<_>>().join(", ");
        say(
            global,
            &format!(
                "note: {list} has no effect: {shown} is compiled already, for {}; compile the model again",
                m.soc.name
            ),
        );
    }
    Ok(())
}

/// Checks that shapes name inputs of the model and agree with their sizes.
fn fits(shapes: &str, m: &CompiledModel) -> Result<()> {
    let mut bad = Vec::new();
    let (asked, constant) = (parse_input_shapes(shapes)?.input_shapes, m.constant_inputs());
    let named = |name: &str| asked.iter().any(|s| s.name == name);
    let constant: Vec<(&str, &str)> = constant.into_iter().filter(|(name, _)| named(name)).collect();
    if !constant.is_empty() {
        return Err(crate::options::constant_inputs(&constant, "a shape"));
    }
    for s in &asked {
        let Some(i) = m.inputs.iter().find(|i| i.name == s.name.as_str()) else {
            return Err(crate::options::unknown_name("input", &s.name, m.inputs.iter().map(|i| i.name.as_str())));
        };
        let known = i.desc.shape.dims();
        let same = |(have, asked): (&ge_ir::Dim, &i64)| {
            *asked < 0 || have.size().is_none_or(|n| u64::try_from(*asked).is_ok_and(|a| a == n))
        };
        if !s.unranked && (known.len() != s.dims.len() || !known.iter().zip(s.dims.iter()).all(same)) {
            bad.push(
                Diagnostic::error(format!(
                    "`--input-shape` does not fit input `{}`: the model is compiled already",
                    i.name
                ))
                .code(ge_codes::INPUT_SHAPE)
                .subject(i.name.as_str())
                .found(format!("{:?}", s.dims), i.desc.shape.to_string())
                .help("compile the model for these sizes: `ge compile MODEL -o OUT.om --input-shape …`"),
            );
        }
    }
    if bad.is_empty() { Ok(()) } else { Err(Error::all(ErrorKind::USAGE, bad)) }
}
