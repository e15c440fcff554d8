//! Labels of classifiers: integers or strings. A classifier computes integers; if its labels are
//! strings, these are their indices, and a table behind it maps them to strings.
use crate::label_encoder::{lookup, text};
use crate::shared::{Outs, ints};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{ConstTensor, ValueRef};

/// The labels of a classifier.
pub struct Labels {
    /// The integer that it computes for each class.
    pub numbers: Vec<i64>,
    words: Vec<String>,
}

impl Labels {
    /// Reads the attributes that hold the labels as integers or as strings.
    pub fn of(n: &ForeignNode, whole: &str, text: &str) -> Labels {
        let numbers = ints(n, whole);
        let words = n.attrs.strs(text).filter(|_| numbers.is_empty()).unwrap_or_default();
        if words.is_empty() {
            return Labels { numbers, words: Vec::new() };
        }
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        Labels { numbers: (0..words.len() as i64).collect(), words }
    }

    /// Refuses a single label that leaves no label for the other class. With a single label, the
    /// answers are 1 and 0, and one of them must be the label.
    ///
    /// # Errors
    /// Fails if there is a single label other than the integers 0 and 1.
    pub fn need_another(&self, n: &ForeignNode) -> Result<()> {
        match (self.numbers.as_slice(), self.words.as_slice()) {
            ([_], [word]) => Err(n.refuse(format!("its one label is `{word}`: there is none for the other class"))),
            ([label], _) if ![0, 1].contains(label) => Err(n.refuse(format!(
                "its one label is {label}: there is none for the other class; the labels 0 and 1 are computed"
            ))),
            _ => Ok(()),
        }
    }

    /// The outputs of the foreign node: those of the classifier, with string labels looked up.
    ///
    /// # Errors
    /// Fails if the labels cannot be stored as a table.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_label_must_be_among_the_answers_0_and_1() {
        let n = ForeignNode::default();
        let told = |numbers: &[i64], words: &[&str]| {
            let words = words.iter().map(|w| (*w).to_owned()).collect();
            let labels = Labels { numbers: numbers.to_vec(), words };
            labels.need_another(&n).map_err(|e| e.message().to_owned())
        };
        assert_eq!((told(&[0], &[]), told(&[1], &[]), told(&[5, 7], &[])), (Ok(()), Ok(()), Ok(())));
        assert!(told(&[7], &[]).is_err_and(|e| e.contains("its one label is 7")));
        assert!(told(&[0], &["yes"]).is_err_and(|e| e.contains("its one label is `yes`")));
    }
}
