//! What the source model says about its nodes, by their imported names.
use std::cell::OnceCell;

/// Operator, domain and version of each imported node (`Relu, ai.onnx 13`), by node name.
///
/// The names are stored in one string and sorted at the first look-up.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    names: String,
    texts: Vec<String>,
    /// For each node, the end of its name in `names` and the index of its text.
    nodes: Vec<(usize, usize)>,
    sorted: OnceCell<Vec<usize>>,
}

impl Origins {
    /// Adds a node. Names must be distinct.
    pub(super) fn add(&mut self, name: &str, text: &str) {
        let same = |t: &String| t == text;
        let last = self.nodes.last().map(|n| n.1).filter(|t| self.texts.get(*t).is_some_and(same));
        let index = last.or_else(|| self.texts.iter().position(same)).unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        self.names.push_str(name);
        self.nodes.push((self.names.len(), index));
        self.sorted = OnceCell::new();
    }

    /// What the source model says about the node with this imported name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let sorted = self.sorted.get_or_init(|| {
            let mut all: Vec<usize> = (0..self.nodes.len()).collect();
            all.sort_by_key(|i| self.name(*i));
            all
        });
        let at = sorted.binary_search_by_key(&name, |i| self.name(*i)).ok()?;
        self.texts.get(self.nodes[sorted[at]].1).map(String::as_str)
    }

    fn name(&self, i: usize) -> &str {
        let start = i.checked_sub(1).map_or(0, |before| self.nodes[before].0);
        &self.names[start..self.nodes[i].0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_text() {
        let mut o = Origins::default();
        assert_eq!(o.get(""), None);
        for (name, text) in [("b", "Relu"), ("", "Neg"), ("ab", "Relu"), ("c", "Neg")] {
            o.add(name, text);
        }
        assert_eq!(
            ["", "ab", "b", "c", "a", "bc"].map(|n| o.get(n)),
            [Some("Neg"), Some("Relu"), Some("Relu"), Some("Neg"), None, None]
        );
        o.add("a", "Abs");
        assert_eq!((o.get("a"), o.get("ab"), o.texts.len()), (Some("Abs"), Some("Relu"), 3));
    }
}
