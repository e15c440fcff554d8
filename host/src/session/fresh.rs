//! Checks whether a compiled model matches the plugin versions that are installed now.
use crate::{Diagnostic, Result};
use ge_model::CompiledModel;
use ge_plugin::Registry;

/// Whether version `here` understands what version `made` wrote: the major version must be the same
/// (before 1.0 the minor version too), and `here` must not be older.
pub(crate) fn compatible(made: &str, here: &str) -> bool {
    let parts = |v: &str| -> Option<[u64; 3]> {
        let mut n = v.split(['.', '-', '+']).map(|p| p.parse::<u64>().ok());
        Some([n.next()??, n.next()??, n.next().flatten().unwrap_or(0)])
    };
    match (parts(made), parts(here)) {
        (Some(a), Some(b)) => b >= a && a[0] == b[0] && (a[0] > 0 || a[1] == b[1]),
        _ => made == here,
    }
}

/// Describes the plugins whose version no longer matches.
pub(crate) fn changed(m: &CompiledModel, registry: &Registry) -> Vec<String> {
    let other = |p: &&ge_model::PluginInfo| {
        let here = registry.plugin(&p.name).map(|r| r.version.as_str()).filter(|v| !v.is_empty());
        here.filter(|h| !compatible(&p.version, h)).map(|h| (p.name.clone(), p.version.clone(), h.to_owned()))
    };
    let all = m.plugins.iter().filter_map(|p| other(&p));
    all.map(|(name, then, now)| format!("plugin `{name}` was {then} then and is {now} now")).collect()
}

/// Checks the engines that the model needs: another version may read its kernels differently.
pub(crate) fn check(m: &CompiledModel, registry: &Registry) -> Result<()> {
    let needed = m.engines_needed();
    let brings =
        |name: &str| registry.plugin(name).is_some_and(|p| p.provides.iter().any(|e| needed.contains(&e.as_str())));
    let all = CompiledModel {
        plugins: m.plugins.iter().filter(|p| brings(&p.name)).cloned().collect(),
        ..CompiledModel::default()
    };
    let changed = changed(&all, registry);
    let Some(first) = changed.first() else { return Ok(()) };
    let d = Diagnostic::error(format!("the model must be compiled again: {first}"));
    let d = changed[1..].iter().fold(d, |d, c| d.note(c.as_str()));
    Err(d
        .help("`ge compile` the model again with the plugins that are here, or install the plugin's version of then")
        .raise(ge_codes::ENGINE_VERSION))
}

#[cfg(test)]
mod tests {
    use super::compatible;
    #[test]
    fn versions_go_by_semver() {
        assert!(compatible("0.1.0", "0.1.7"));
        assert!(!compatible("0.1.7", "0.1.0"));
        assert!(!compatible("0.1.0", "0.2.0"));
        assert!(compatible("1.2.0", "1.9.0"));
        assert!(!compatible("1.9.0", "1.2.0"));
        assert!(!compatible("1.2.0", "2.0.0"));
        assert!(!compatible("", "0.1.0"));
    }
}
