//! `Tokenizer`: splits strings into words, by separators or by a regular expression.
use crate::declare::ort_op;
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};

fn tokenizer(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let separators = n.attrs.strs("separators").unwrap_or_default();
    let least = n.int_or("mincharnum", 1);
    if least < 1 {
        return Err(n.refuse(format!("attribute `mincharnum` is {least}; it must be 1 or more")));
    }
    let characters = matches!(*separators, [""]);
    if characters && least > 1 {
        return Err(n.refuse(format!("no character is a word of `mincharnum` {least} characters")));
    }
    if !characters && separators.contains(&"") {
        return Err(n.refuse("one of several separators is empty, which parts nothing"));
    }
    let expression = n.str_or("tokenexp", "");
    if separators.is_empty() && expression.is_empty() {
        return Err(n.refuse("it has neither `separators` nor `tokenexp`"));
    }
    let d = b.node("Tokenizer").name(&n.name).input(n.input(0)?).attr("mincharnum", least);
    let d = d.attr("mark", n.int_or("mark", 0) != 0).attr("pad_value", n.str_or("pad_value", ""));
    let d = if separators.is_empty() {
        d.attr("tokenexp", expression)
    } else {
        d.attr("separators", separators.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    };
    Ok(vec![d.build()])
}
ort_op!("Tokenizer", 1, ["mark", "mincharnum", "pad_value", "separators", "tokenexp"], tokenizer);
