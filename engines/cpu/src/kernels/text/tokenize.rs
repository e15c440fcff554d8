//! `Tokenizer(x [c] or [n,c]) {separators, tokenexp, mincharnum, mark, pad_value} -> y`: the words
//! of each string along a new last axis, which is as long as the largest number of words.
//!
//! Words are the parts between matches of the separators; each separator splits the parts that the
//! previous ones left. Without separators, words are the matches of `tokenexp`. A single empty
//! separator splits a string into its characters. Words of fewer than `mincharnum` characters are
//! left out. With `mark`, the words of a string are enclosed in the characters 2 and 3. Rows are
//! padded with `pad_value`; if no string has a word, there are no columns.
use super::regex::{Longest, wrong};
use super::strings;
use crate::args::{flag, int_attr, text};
use crate::op::Op;
use crate::store::types::TEXT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// How words are found.
enum Words {
    Characters,
    Between(Vec<(String, Longest)>),
    Matching(Box<Longest>),
}

impl Words {
    fn of(ctx: &KernelCtx<'_>) -> Result<Words> {
        let separators = ctx.attrs.strs("separators").unwrap_or_default();
        match &*separators {
            [] => Ok(Words::Matching(Box::new(Longest::of("tokenexp", text(ctx, "tokenexp", ""))?))),
            [""] => Ok(Words::Characters),
            all => {
                let one = |s: &str| Ok((s.to_owned(), Longest::of("separators", s)?));
                Ok(Words::Between(all.iter().map(|s| one(s)).collect::<Result<_>>()?))
            }
        }
    }

    fn find<'s>(&mut self, s: &'s str) -> Result<Vec<&'s str>> {
        match self {
            Words::Characters => Ok(s.char_indices().map(|(i, c)| &s[i..i + c.len_utf8()]).collect()),
            Words::Matching(expression) => {
                let (mut all, mut at) = (Vec::new(), 0);
                while let Some(m) = if at <= s.len() { expression.find(s, at)? } else { None } {
                    // After an empty match, the next one begins a character later.
                    let step = s[m.end..].chars().next().map_or(1, char::len_utf8);
                    at = if m.is_empty() { m.end + step } else { m.end };
                    all.push(&s[m]);
                }
                Ok(all)
            }
            Words::Between(separators) => {
                let mut all = vec![s];
                for (name, separator) in separators {
                    let mut parts = Vec::new();
                    for whole in all {
                        let mut at = 0;
                        while let Some(m) = separator.find(whole, at)? {
                            if m.is_empty() {
                                return Err(wrong("separators", name, &"it matches the empty string"));
                            }
                            parts.push(&whole[at..m.start]);
                            at = m.end;
                        }
                        parts.push(&whole[at..]);
                    }
                    all = parts;
                }
                Ok(all)
            }
        }
    }
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (mut dims, x) = strings::read(ctx, 0)?;
    let mut words = Words::of(ctx)?;
    let least = usize::try_from(int_attr(ctx, "mincharnum", 1)).unwrap_or(1).max(1);
    let mut all = Vec::with_capacity(x.len());
    for s in &x {
        let mut found = words.find(s)?;
        found.retain(|w| w.chars().take(least).count() == least);
        all.push(found);
    }
    let most = all.iter().map(Vec::len).max().unwrap_or(0);
    let mark = flag(ctx, "mark", false) && most > 0;
    let width = most + if mark { 2 } else { 0 };
    let (pad, ends) = (text(ctx, "pad_value", ""), if mark { ["\u{2}", "\u{3}"].as_slice() } else { &[] });
    let mut filled: Vec<&str> = Vec::new();
    for (k, found) in all.iter().enumerate() {
        filled.extend(ends.first());
        filled.extend(found);
        filled.extend(ends.last());
        filled.resize((k + 1) * width, pad);
    }
    dims.push(width as u64);
    strings::write(ctx, 0, &dims, &filled)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("Tokenizer", run, &[TEXT]).gives(&[TEXT])];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call};
    use ge_plugin_api::kernel::HostTensor;
    use ge_plugin_api::types::{AttrValue, DType, bytes_of_strings, strings_in};

    /// Results of onnxruntime.
    #[test]
    fn words_stand_between_separators_or_match() {
        let tokens = |x: &[&str], more: &[(&str, AttrValue)]| {
            let bytes: Vec<&[u8]> = x.iter().map(|s| s.as_bytes()).collect();
            let t = HostTensor::from_bytes(DType::STRING, &[x.len() as u64], &bytes_of_strings(&bytes)).unwrap();
            let mut a = attrs(more);
            a.set("pad_value", AttrValue::from("#"));
            let y = call("Tokenizer", &[Some(&t)], &a, &[DType::STRING])?.remove(0);
            let all = strings_in(y.bytes(), y.dims.iter().product()).unwrap();
            Ok::<_, ge_plugin_api::Error>((
                y.dims.to_vec(),
                all.into_iter().map(|b| String::from_utf8(b.to_vec()).unwrap()).collect::<Vec<_>>().join("|"),
            ))
        };
        let list = |s: &[&str]| ("separators", AttrValue::Strs(s.iter().map(|s| (*s).into()).collect()));
        let (least, mark) = (|n: i64| ("mincharnum", AttrValue::from(n)), ("mark", AttrValue::from(true)));
        let exp = |p: &str| ("tokenexp", AttrValue::from(p));
        assert_eq!(tokens(&["aé", ""], &[list(&[""])]).unwrap(), (vec![2, 2], "a|é|#|#".to_owned()));
        assert_eq!(tokens(&["ab c", "d"], &[list(&[" ", "b"])]).unwrap(), (vec![2, 2], "a|c|d|#".to_owned()));
        assert_eq!(tokens(&["a,b;cc,dd", "xx"], &[list(&["[;,]+"]), least(2)]).unwrap().1, "cc|dd|xx|#");
        assert_eq!(
            tokens(&["ab c", "d"], &[exp("[a-c]+"), mark.clone()]).unwrap(),
            (vec![2, 4], "\u{2}|ab|c|\u{3}|\u{2}|\u{3}|#|#".to_owned())
        );
        assert_eq!(tokens(&["foo bar foob"], &[exp("foo|foob")]).unwrap().1, "foo|foob");
        assert_eq!(tokens(&["aXXbXc"], &[exp("X*")]).unwrap().1, "XX|X");
        assert_eq!(tokens(&["d", ""], &[exp("[a-c]+"), mark]).unwrap(), (vec![2, 0], String::new()));
        assert!(tokens(&["ab"], &[list(&["x*"])]).is_err());
    }
}
