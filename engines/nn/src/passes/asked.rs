//! A cache of the op store's recent answers: a model contains the same few chains many times, and a
//! pass asks for the kernel of each.
use ge_plugin_api::fusion::Verdict;
use ge_plugin_api::types::{AttrMap, TensorDesc};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Number of answers that each thread keeps.
pub const MOST: usize = 8;

struct Asked {
    op: String,
    given: Vec<Option<TensorDesc>>,
    outputs: usize,
    attrs: AttrMap,
    answer: Verdict,
}

impl Asked {
    fn is(&self, op: &str, given: &[Option<&TensorDesc>], outputs: usize, attrs: &AttrMap) -> bool {
        self.op == op
            && self.outputs == outputs
            && self.given.iter().map(Option::as_ref).eq(given.iter().copied())
            && self.attrs.as_slice() == attrs.as_slice()
    }
}

thread_local! {
    static LATELY: RefCell<VecDeque<Asked>> = const { RefCell::new(VecDeque::new()) };
}

/// The cached answer to the same question, or the result of `ask`, which may depend only on the
/// question.
pub fn answer(
    op: &str,
    given: &[Option<&TensorDesc>],
    outputs: usize,
    attrs: &AttrMap,
    ask: impl FnOnce() -> Verdict,
) -> Verdict {
    let known =
        LATELY.with_borrow(|all| all.iter().find(|a| a.is(op, given, outputs, attrs)).map(|a| a.answer.clone()));
    known.unwrap_or_else(|| {
        let answer = ask();
        let given = given.iter().map(|d| d.cloned()).collect();
        let asked = Asked { op: op.to_owned(), given, outputs, attrs: attrs.clone(), answer: answer.clone() };
        LATELY.with_borrow_mut(|all| {
            all.truncate(MOST - 1);
            all.push_front(asked);
        });
        answer
    })
}
