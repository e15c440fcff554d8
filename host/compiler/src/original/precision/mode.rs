//! Precision modes: which types replace the model's own types, and what decides about a node (facts
//! 9.2).
use super::mix_list::MixList;
use crate::error::OptionFault;
use crate::error::Result;
use crate::options::{Options, Precision, PrecisionV2};
use ge_ir::DType;
use ge_plugin_api::device::SocSpec;
use std::collections::BTreeSet;

/// What decides whether a node changes its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every node that an engine takes in the other type changes.
    All,
    /// A node changes only if no engine that is as good takes it in the model's own type.
    Needed,
    /// By colour: white nodes change, black nodes do not, and the others change if that saves
    /// casts.
    Mixed(MixList),
    /// Nodes change for which an engine offers to read the narrow type and return the wide one.
    CubeOnly,
}

impl Rule {
    /// The operators that the user's list of colours names.
    pub fn named(&self) -> impl Iterator<Item = &String> {
        let list = if let Rule::Mixed(list) = self { Some(list) } else { None };
        list.into_iter().flat_map(MixList::names)
    }
}

/// Name of the option whose file changes the colours of operators.
pub const MIX_LIST: &str = "ge.exec.modify_mixlist";

/// A mode that changes types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Types that are replaced.
    pub from: &'static [DType],
    /// Type that replaces them.
    pub to: DType,
    /// Rule that decides which nodes change.
    pub rule: Rule,
    /// Names of nodes that keep their types.
    pub keep: BTreeSet<String>,
}

/// The mode of a SoC if no option names one. On the Ascend series, nodes compute in half precision
/// where it can hold the numbers; the simulator's own SoC and SoCs that files describe under other
/// names compute in the model's types. (The default of atc for the series is `force_fp16`; it gave
/// NaN and other classes on trained models.)
pub fn default_mode(soc: &SocSpec) -> Precision {
    if soc.name.starts_with("Ascend") { Precision::Mix } else { Precision::Keep }
}

/// The mode that options and SoC ask for; `None` if every node keeps its types.
///
/// # Errors
/// Fails if options contradict each other, or if a file cannot be read or does not have the
/// expected form.
pub fn mode(options: &Options, soc: &SocSpec) -> Result<Option<Mode>> {
    let (first, second) = (options.precision_mode, options.precision_mode_v2);
    if first != Precision::Unset && second != PrecisionV2::Unset {
        return Err(OptionFault::Contradiction {
            what: "ge.exec.precision_mode and ge.exec.precision_mode_v2 are both set",
            help: "set one of the two (atc: E10056)",
        }
        .into());
    }
    let asked = match (first, second) {
        (Precision::Unset, PrecisionV2::Unset) => default_mode(soc),
        (Precision::Unset, PrecisionV2::F16) => Precision::ForceF16,
        (Precision::Unset, PrecisionV2::Origin) => Precision::Keep,
        (Precision::Unset, PrecisionV2::CubeF16) => Precision::CubeF16,
        (Precision::Unset, PrecisionV2::MixedF16) => Precision::MixF16,
        (Precision::Unset, PrecisionV2::MixedBf16) => Precision::MixBf16,
        (mode, _) => mode,
    };
    const F32: &[DType] = &[DType::F32];
    let (from, to, rule) = match asked {
        Precision::ForceF16 => (F32, DType::F16, Rule::All),
        Precision::ForceF32 => (&[DType::F16, DType::BF16][..], DType::F32, Rule::All),
        Precision::CubeF16 => (F32, DType::F16, Rule::CubeOnly),
        Precision::Mix | Precision::MixF16 => (F32, DType::F16, Rule::Mixed(MixList::default())),
        Precision::MixBf16 => (F32, DType::BF16, Rule::Mixed(MixList::default())),
        Precision::ToF16 => (F32, DType::F16, Rule::Needed),
        Precision::ToBf16 => (F32, DType::BF16, Rule::Needed),
        Precision::Keep | Precision::Unset => {
            mix_list(options, None)?;
            return Ok(None);
        }
    };
    let rule = mix_list(options, Some(rule))?;
    let mut keep = super::names::kept(options)?;
    keep.append(&mut super::names::calibrated(options)?);
    Ok(Some(Mode { from, to, rule, keep }))
}

/// Adds the user's changes of colours to the rule. Fails if there are changes but the mode is not
/// one of mixed precision.
fn mix_list(options: &Options, rule: Option<Rule>) -> Result<Rule> {
    let path = options.modify_mixlist.as_str();
    match (path, rule) {
        ("", rule) => Ok(rule.unwrap_or(Rule::All)),
        (_, Some(Rule::Mixed(_))) => {
            let form = "{\"black-list\": {\"to-add\": [\"Add\"], \"to-remove\": []}, \"white-list\": {\"to-add\": []}}";
            let list = MixList::parse(&super::names::read(MIX_LIST, path)?).map_err(|why| OptionFault::File {
                option: MIX_LIST,
                path: path.into(),
                why,
                form,
            })?;
            Ok(Rule::Mixed(list))
        }
        _ => Err(OptionFault::Contradiction {
            what: "ge.exec.modify_mixlist is set without a mode of mixed precision",
            help: "set ge.exec.precision_mode=allow_mix_precision too, or take the list away",
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(soc: &str, pairs: &[(&str, &str)]) -> Result<Option<Mode>> {
        let mut options = Options::default();
        pairs.iter().for_each(|(k, v)| options.set(k, v).unwrap());
        mode(&options, &SocSpec { name: soc.into(), ..SocSpec::default() })
    }

    fn with(pairs: &[(&str, &str)]) -> Result<Option<Mode>> {
        on("sim", pairs)
    }

    #[test]
    fn the_default_follows_the_soc() {
        assert_eq!(with(&[]).unwrap(), None);
        let m = on("Ascend910B", &[]).unwrap().unwrap();
        assert_eq!((m.from, m.to, &m.rule), (&[DType::F32][..], DType::F16, &Rule::Mixed(MixList::default())));
        assert_eq!(on("Ascend910B", &[("ge.exec.precision_mode", "must_keep_origin_dtype")]).unwrap(), None);
        assert_eq!(on("Ascend910B", &[("ge.exec.precision_mode_v2", "origin")]).unwrap(), None);
        assert_eq!(with(&[("ge.exec.precision_mode", "allow_mix_precision")]).unwrap(), Some(m));
        let forced = with(&[("ge.exec.precision_mode", "force_fp16")]).unwrap().unwrap();
        assert_eq!((forced.to, forced.rule), (DType::F16, Rule::All));
    }

    #[test]
    fn both_names_of_the_mode_are_one_too_many() {
        let e = with(&[("ge.exec.precision_mode", "force_fp16"), ("ge.exec.precision_mode_v2", "origin")]);
        assert!(e.unwrap_err().to_string().ends_with("are both set"));
        let m = with(&[("ge.exec.precision_mode_v2", "mixed_bfloat16")]).unwrap().unwrap();
        assert_eq!((m.to, m.rule), (DType::BF16, Rule::Mixed(MixList::default())));
        assert_eq!(with(&[("ge.exec.precision_mode_v2", "origin")]).unwrap(), None);
    }

    #[test]
    fn a_list_of_colours_belongs_to_mixed_precision() {
        for mode in ["force_fp16", "must_keep_origin_dtype"] {
            let e = with(&[("ge.exec.precision_mode", mode), ("ge.exec.modify_mixlist", "x.json")]);
            assert!(e.unwrap_err().to_string().contains("without a mode of mixed precision"));
        }
    }
}
