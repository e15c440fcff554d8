//! The file of `ge.fusionSwitchFile`, in the two forms of atc: lines `Name:off`, or
//! `{"Switch": {"GraphFusion": {"ALL": "off", "Name": "on"}, "UBFusion": {…}}}`.
//!
//! `ALL` applies to every fusion that is not named. `ge.optimizationSwitch` takes precedence over
//! the file, and the file over level and options.
use std::collections::BTreeMap;

/// Which fusions are switched on or off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FusionSwitches {
    /// Switches by fusion name; `true` is on.
    pub named: BTreeMap<String, bool>,
    /// Switch for fusions that are not named; `None`: the file does not say.
    pub all: Option<bool>,
}

impl FusionSwitches {
    /// Parses the text of a switch file.
    ///
    /// # Errors
    /// Returns a message with the line or place of the first thing that does not fit.
    pub fn parse(text: &str) -> Result<FusionSwitches, String> {
        let mut out = FusionSwitches::default();
        if !text.trim_start().starts_with('{') {
            for (i, line) in text.lines().enumerate() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (name, state) = line
                    .rsplit_once(':')
                    .ok_or_else(|| format!("line {}: `{line}` is no `Name:on` or `Name:off`", i + 1))?;
                out.set(name.trim(), state.trim()).map_err(|e| format!("line {}: {e}", i + 1))?;
            }
            return Ok(out);
        }
        let doc: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let switch = doc.get("Switch").and_then(|s| s.as_object()).ok_or("there is no object `Switch`")?;
        for (section, list) in switch {
            if !matches!(section.as_str(), "GraphFusion" | "UBFusion") {
                return Err(format!("Switch has `{section}`, it takes GraphFusion and UBFusion"));
            }
            let list = list.as_object().ok_or_else(|| format!("Switch.{section} is no object"))?;
            for (name, state) in list {
                let state = state.as_str().ok_or_else(|| format!("Switch.{section}.{name} is no text"))?;
                out.set(name, state).map_err(|e| format!("Switch.{section}: {e}"))?;
            }
        }
        Ok(out)
    }

    fn set(&mut self, name: &str, state: &str) -> Result<(), String> {
        let on = match state {
            "on" => true,
            "off" => false,
            other => return Err(format!("`{name}` is `{other}`, it takes on or off")),
        };
        if name == "ALL" {
            // If `ALL` is off in one section, it stays off.
            self.all = Some(on && self.all != Some(false));
        } else {
            self.named.insert(name.to_owned(), on);
        }
        Ok(())
    }

    /// What the file says about a fusion; `None`: nothing.
    pub fn of(&self, name: &str) -> Option<bool> {
        self.named.get(name).copied().or(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let json = r#"{"Switch": {"GraphFusion": {"ALL": "off", "GeluFusionPass": "on"}, "UBFusion": {"A": "off"}}}"#;
        let a = FusionSwitches::parse(json).expect("json");
        let b = FusionSwitches::parse("# fusions\nALL:off\nGeluFusionPass:on\n\nA:off\n").expect("lines");
        assert_eq!(a, b);
        assert_eq!((a.of("GeluFusionPass"), a.of("Other")), (Some(true), Some(false)));
        assert_eq!(FusionSwitches::default().of("Other"), None);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert!(FusionSwitches::parse("A").unwrap_err().contains("line 1"));
        assert!(FusionSwitches::parse("\nA:maybe").unwrap_err().contains("line 2: `A` is `maybe`"));
        assert!(FusionSwitches::parse("{}").unwrap_err().contains("Switch"));
        assert!(FusionSwitches::parse(r#"{"Switch": {"Other": {}}}"#).unwrap_err().contains("Other"));
        assert!(FusionSwitches::parse(r#"{"Switch": {"UBFusion": {"A": 1}}}"#).unwrap_err().contains("UBFusion.A"));
    }
}
