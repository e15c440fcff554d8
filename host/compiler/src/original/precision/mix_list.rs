//! The colours of mixed precision: an operator is white (lowered), black (kept) or gray (as its
//! neighbours, where that saves casts). Prototypes say their colour; the user's file changes it:
//! `{"black-list": {"to-add": ["Add"], "to-remove": []}, "white-list": {"to-add": [], "to-remove": ["Conv2D"]}}`.
use ge_plugin_api::ops::flags;
use std::collections::BTreeMap;

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Lowered.
    White,
    /// As its neighbours.
    Gray,
    /// Kept.
    Black,
}

/// What the user's file says of operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixList {
    changed: BTreeMap<String, Colour>,
}

impl MixList {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What does not fit, with its place: another key, no list of names, an operator in two lists.
    pub fn parse(text: &str) -> Result<MixList, String> {
        let doc: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let lists = doc.as_object().ok_or("it is no object with `black-list` and `white-list`")?;
        let mut out = MixList::default();
        let mut added = Vec::new();
        for (list, parts) in lists {
            let colour = match list.as_str() {
                "black-list" => Colour::Black,
                "white-list" => Colour::White,
                "gray-list" => Colour::Gray,
                other => return Err(format!("`{other}` is no list: it takes black-list, white-list and gray-list")),
            };
            let parts = parts.as_object().ok_or_else(|| format!("{list} is no object"))?;
            for (what, names) in parts {
                let to = match what.as_str() {
                    "to-add" => colour,
                    // What is in neither of the two other lists is gray.
                    "to-remove" => Colour::Gray,
                    other => return Err(format!("{list} has `{other}`, it takes to-add and to-remove")),
                };
                let names = names.as_array().ok_or_else(|| format!("{list}.{what} is no list"))?;
                for name in names {
                    let name = name.as_str().ok_or_else(|| format!("{list}.{what} has {name}, it takes names"))?;
                    if what == "to-add" {
                        if added.contains(&name) {
                            return Err(format!("`{name}` is added twice"));
                        }
                        added.push(name);
                        out.changed.insert(name.to_owned(), to);
                    } else if !added.contains(&name) {
                        out.changed.entry(name.to_owned()).or_insert(to);
                    }
                }
            }
        }
        Ok(out)
    }

    /// Whether the user's file puts an operator on the white list: then it goes whatever is known
    /// of its numbers.
    pub fn is_asked_for(&self, op: &str) -> bool {
        self.changed.get(op) == Some(&Colour::White)
    }

    /// The colour of an operator with these flags of its prototype.
    pub fn colour(&self, op: &str, proto_flags: u64) -> Colour {
        match self.changed.get(op) {
            Some(c) => *c,
            None if proto_flags & flags::LOW_PRECISION != 0 => Colour::White,
            None if proto_flags & flags::FULL_PRECISION != 0 => Colour::Black,
            None => Colour::Gray,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_moves_operators_between_lists() {
        let l = MixList::parse(
            r#"{"black-list": {"to-add": ["Add"], "to-remove": ["SoftmaxV2"]}, "white-list": {"to-add": ["Exp"]}}"#,
        )
        .unwrap();
        assert_eq!(l.colour("Add", 0), Colour::Black);
        assert_eq!(l.colour("SoftmaxV2", flags::FULL_PRECISION), Colour::Gray);
        assert_eq!(l.colour("Exp", flags::FULL_PRECISION), Colour::White);
        assert_eq!(l.colour("MatMulV2", flags::LOW_PRECISION), Colour::White);
        assert_eq!(l.colour("Relu", 0), Colour::Gray);
        // Out of one list into another is one wish.
        let l = MixList::parse(r#"{"black-list": {"to-remove": ["Exp"]}, "white-list": {"to-add": ["Exp"]}}"#).unwrap();
        assert_eq!(l.colour("Exp", 0), Colour::White);
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        let why = |t: &str| MixList::parse(t).unwrap_err();
        assert_eq!(
            why(r#"{"blacklist": {}}"#),
            "`blacklist` is no list: it takes black-list, white-list and gray-list"
        );
        assert_eq!(why(r#"{"black-list": {"add": []}}"#), "black-list has `add`, it takes to-add and to-remove");
        assert_eq!(why(r#"{"black-list": {"to-add": "Add"}}"#), "black-list.to-add is no list");
        assert_eq!(
            why(r#"{"black-list": {"to-add": ["Add"]}, "white-list": {"to-add": ["Add"]}}"#),
            "`Add` is added twice"
        );
    }
}
