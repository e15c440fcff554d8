//! Labels of classifiers: whole numbers, or words. A classifier computes numbers; where its labels are
//! words those are their places, and a table behind it has the words.
use crate::label_encoder::{lookup, text};
use crate::shared::{Outs, ints};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{ConstTensor, ValueRef};

/// The labels of a classifier.
pub struct Labels {
    /// What it computes for each class.
    pub numbers: Vec<i64>,
    words: Vec<String>,
}

impl Labels {
    /// By the attributes that have them as whole numbers, and as text.
    pub fn of(n: &ForeignNode, whole: &str, text: &str) -> Labels {
        let numbers = ints(n, whole);
        let words = n.attrs.strs(text).filter(|_| numbers.is_empty()).unwrap_or_default();
        if words.is_empty() {
            return Labels { numbers, words: Vec::new() };
        }
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        Labels { numbers: (0..words.len() as i64).collect(), words }
    }

    /// Refuses one label that leaves nothing to say of what is of the other class.
    ///
    /// # Errors
    /// There is one label, and it is not 1.
    pub fn need_another(&self, n: &ForeignNode) -> Result<()> {
        match (self.numbers.as_slice(), self.words.as_slice()) {
            ([_], [word]) => Err(n.refuse(format!("its one label is `{word}`: there is none for the other class"))),
            ([label], _) if *label != 1 => {
                Err(n.refuse(format!("its one label is {label}: there is none for the other class")))
            }
            _ => Ok(()),
        }
    }

    /// The outputs of the foreign node: those of a classifier, whose labels become words.
    ///
    /// # Errors
    /// Labels that are no table.
    pub fn spelled(self, n: &ForeignNode, b: &mut GraphBuilder<'_>, mut outputs: Vec<ValueRef>) -> Outs {
        if self.words.is_empty() {
            return Ok(outputs);
        }
        let count = self.words.len() as u64;
        let (keys, words) = (ConstTensor::of(&[count], &self.numbers), text(&self.words));
        let (keys, words) = keys.zip(words).ok_or_else(|| n.refuse("its labels take too much memory"))?;
        outputs[0] = lookup(n, b, "", outputs[0], keys, words)?;
        Ok(outputs)
    }
}
