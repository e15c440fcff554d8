//! The colours of mixed precision. A white operator is lowered, a black one keeps its type, and a
//! gray one follows its neighbours if that saves casts. Prototypes give the colours; the user's
//! file changes them:
//! `{"black-list": {"to-add": ["Add"], "to-remove": []}, "white-list": {"to-add": [], "to-remove": ["Conv2D"]}}`.
use ge_plugin_api::ops::flags;
use std::collections::BTreeMap;

/// Colour of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The operator is lowered.
    White,
    /// The operator follows its neighbours.
    Gray,
    /// The operator keeps its type.
    Black,
}

/// The changes of colours in the user's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixList {
    changed: BTreeMap<String, Colour>,
}

impl MixList {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// Returns a message with the place of the first thing that does not fit: an unknown key, a
    /// value that is not a list of names, or an operator that is added twice.
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
                    // What is on neither of the two other lists is gray.
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

    /// The operators that the user's file names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.changed.keys()
    }

    /// Whether the user's file puts an operator on the white list. Such an operator is lowered
    /// whatever is known of its numbers.
    pub fn is_asked_for(&self, op: &str) -> bool {
        self.changed.get(op) == Some(&Colour::White)
    }

    /// The colour of an operator, given the flags of its prototype.
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
        // Moving an operator from one list to another is one change.
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
