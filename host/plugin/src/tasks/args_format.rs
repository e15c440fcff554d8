//! Args formats: what is at each address of a launch. Source: facts 5 (grammar and limits).
//!
//! Items are in braces, one after the other: `i<n>` `o<n>` (folded: a second-level array of
//! pointers; with `*`: expanded), `ws<n>` and `ws` (all in one), `t`, `i_desc` `o_desc`,
//! `ffts_addr`, `overflow_addr`, `t_ffts.tail` `t_ffts.non_tail`, `hi.<type><n>*`, `*op_type`,
//! `tiling_context` with its parts, an empty item or `.32b` (placeholders of eight and four bytes),
//! `#<value>` (`.32b`), `i_instance<n>*` `o_instance<n>*`, `event_addr<n>*`, and `skn<n>`, which
//! begins the items of a super kernel's sub-node.
use std::fmt;

/// Maximum number of descriptors of a format: all inputs for each `i_desc` and all outputs for each
/// `o_desc` (facts 5).
pub const MAX_DESCS: usize = 25;
/// Maximum number of `ws<n>` items of a format (facts 5).
pub const MAX_WORKSPACES: usize = 16;
/// Maximum length of a format in bytes.
const MAX_TEXT: usize = 1 << 20;

/// A part of a tiling context, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextPart {
    /// The whole context.
    Whole,
    /// Tiling data.
    TilingData,
    /// Tiling key.
    TilingKey,
    /// Number of blocks.
    BlockDim,
}

/// One item of an args format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ArgItem {
    /// Input `index`.
    Input {
        /// Index of the input.
        index: u32,
        /// `true`: its pointers are listed one by one; `false`: they are in a second-level array.
        expanded: bool,
    },
    /// Output `index`.
    Output {
        /// Index of the output.
        index: u32,
        /// The same as for inputs.
        expanded: bool,
    },
    /// Workspace `index`.
    Workspace {
        /// Index of the workspace.
        index: u32,
        /// Whether the item has a `*`.
        expanded: bool,
    },
    /// All workspaces as one.
    AllWorkspaces {
        /// Whether the item has a `*`.
        expanded: bool,
    },
    /// The given instance of the inputs with this number.
    InputInstance(u32),
    /// The given instance of the outputs with this number.
    OutputInstance(u32),
    /// Descriptors of all inputs.
    InputDesc,
    /// Descriptors of all outputs.
    OutputDesc,
    /// Tiling data that the host made.
    Tiling,
    /// Tiling data of the slices of an FFTS+ task.
    FftsTiling {
        /// `true`: of the last slice; `false`: of the others.
        tail: bool,
    },
    /// Address of the FFTS+ hardware's own data.
    FftsAddr,
    /// Address of the overflow flag.
    OverflowAddr,
    /// A hidden input: name of its type, and its number (`hi.hcom0*`).
    Hidden {
        /// Name of the type.
        kind: String,
        /// Number of the input.
        index: u32,
    },
    /// The operator's type as a text.
    OpType,
    /// The device's tiling context, or a part of it.
    Context(ContextPart),
    /// An intentionally empty argument.
    Placeholder {
        /// `true`: four bytes; `false`: eight.
        narrow: bool,
    },
    /// A constant.
    Value {
        /// Value of the constant.
        value: u64,
        /// `true`: four bytes; `false`: eight.
        narrow: bool,
    },
    /// Address of the event with this index.
    EventAddr(u32),
    /// The sub-node of a super kernel with this number; its own items follow.
    SubNode(u32),
}

/// Why a text is not an args format, or why an args format does not fit its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsFormatError {
    /// The text, cut to 200 characters.
    pub text: String,
    /// What is wrong.
    pub reason: String,
    /// Byte position of the error.
    pub at: usize,
}

impl fmt::Display for ArgsFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no args format: {} at byte {}", self.text, self.reason, self.at)
    }
}
impl std::error::Error for ArgsFormatError {}

/// What a node has, for [`check`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arity {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// Number of workspaces.
    pub workspaces: usize,
    /// Number of sync resources (events and notifies).
    pub events: usize,
}

fn fail(text: &str, reason: impl Into<String>, at: usize) -> ArgsFormatError {
    ArgsFormatError { text: text.chars().take(200).collect(), reason: reason.into(), at }
}

/// Parses an args format.
pub fn parse(text: &str) -> Result<Vec<ArgItem>, ArgsFormatError> {
    if text.len() > MAX_TEXT {
        return Err(fail(text, format!("it is longer than {MAX_TEXT} bytes"), MAX_TEXT));
    }
    let mut out = Vec::new();
    let mut rest = text;
    let mut at = 0;
    while !rest.is_empty() {
        let Some(inner) = rest.strip_prefix('{') else { return Err(fail(text, "an item starts with `{`", at)) };
        let Some(end) = inner.find('}') else { return Err(fail(text, "an item ends with `}`", at)) };
        let item = &inner[..end];
        out.push(item_of(item).map_err(|reason| fail(text, reason, at + 1))?);
        at += end + 2;
        rest = &inner[end + 1..];
    }
    Ok(out)
}

fn number(s: &str) -> Option<u32> {
    let plain =
        !s.is_empty() && s.len() <= 6 && s.bytes().all(|b| b.is_ascii_digit()) && (s == "0" || !s.starts_with('0'));
    if plain { s.parse().ok() } else { None }
}

fn item_of(item: &str) -> Result<ArgItem, String> {
    let (plain, expanded) = match item.strip_suffix('*') {
        Some(p) => (p, true),
        None => (item, false),
    };
    let fixed = match item {
        "" => Some(ArgItem::Placeholder { narrow: false }),
        ".32b" => Some(ArgItem::Placeholder { narrow: true }),
        "t" => Some(ArgItem::Tiling),
        "i_desc" => Some(ArgItem::InputDesc),
        "o_desc" => Some(ArgItem::OutputDesc),
        "ffts_addr" => Some(ArgItem::FftsAddr),
        "overflow_addr" => Some(ArgItem::OverflowAddr),
        "t_ffts.tail" => Some(ArgItem::FftsTiling { tail: true }),
        "t_ffts.non_tail" => Some(ArgItem::FftsTiling { tail: false }),
        "*op_type" => Some(ArgItem::OpType),
        "tiling_context" => Some(ArgItem::Context(ContextPart::Whole)),
        "tiling_context.tiling_data" => Some(ArgItem::Context(ContextPart::TilingData)),
        "tiling_context.tiling_key" => Some(ArgItem::Context(ContextPart::TilingKey)),
        "tiling_context.block_dim" => Some(ArgItem::Context(ContextPart::BlockDim)),
        "ws" | "ws*" => Some(ArgItem::AllWorkspaces { expanded }),
        _ => None,
    };
    if let Some(f) = fixed {
        return Ok(f);
    }
    if let Some(v) = item.strip_prefix('#') {
        let (digits, narrow) = match v.strip_suffix(".32b") {
            Some(d) => (d, true),
            None => (v, false),
        };
        let value = if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<u64>().ok() } else { None };
        return match value {
            Some(value) if !narrow || u32::try_from(value).is_ok() => Ok(ArgItem::Value { value, narrow }),
            Some(_) => Err(format!("`{item}` does not fit four bytes")),
            None => Err(format!("`{item}` is no number of 64 bits")),
        };
    }
    if let Some(h) = item.strip_prefix("hi.") {
        let name = h.trim_end_matches('*').trim_end_matches(|c: char| c.is_ascii_digit());
        let index = expanded.then(|| number(&plain[3 + name.len()..])).flatten();
        let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
        return match index {
            Some(index) if named => Ok(ArgItem::Hidden { kind: name.to_owned(), index }),
            _ => Err(format!("`{item}` is no hidden input `hi.<type><n>*`")),
        };
    }
    let starred = |prefix: &str| -> Option<Result<u32, String>> {
        let n = plain.strip_prefix(prefix)?;
        Some(
            if expanded { number(n).ok_or(()) } else { Err(()) }
                .map_err(|()| format!("`{item}` is not `{prefix}<n>*`")),
        )
    };
    if let Some(n) = starred("i_instance") {
        return n.map(ArgItem::InputInstance);
    }
    if let Some(n) = starred("o_instance") {
        return n.map(ArgItem::OutputInstance);
    }
    if let Some(n) = starred("event_addr") {
        return n.map(ArgItem::EventAddr);
    }
    if let Some(index) = item.strip_prefix("skn").and_then(number) {
        return Ok(ArgItem::SubNode(index));
    }
    if let Some(index) = plain.strip_prefix("ws").and_then(number) {
        return Ok(ArgItem::Workspace { index, expanded });
    }
    if let Some(index) = plain.strip_prefix('i').and_then(number) {
        return Ok(ArgItem::Input { index, expanded });
    }
    if let Some(index) = plain.strip_prefix('o').and_then(number) {
        return Ok(ArgItem::Output { index, expanded });
    }
    Err(format!("`{}` is no item", item.chars().take(40).collect::<String>()))
}

impl fmt::Display for ArgItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = |e: &bool| if *e { "*" } else { "" };
        let narrow = |n: &bool| if *n { ".32b" } else { "" };
        match self {
            ArgItem::Input { index, expanded } => write!(f, "{{i{index}{}}}", star(expanded)),
            ArgItem::Output { index, expanded } => write!(f, "{{o{index}{}}}", star(expanded)),
            ArgItem::Workspace { index, expanded } => write!(f, "{{ws{index}{}}}", star(expanded)),
            ArgItem::AllWorkspaces { expanded } => write!(f, "{{ws{}}}", star(expanded)),
            ArgItem::InputInstance(n) => write!(f, "{{i_instance{n}*}}"),
            ArgItem::OutputInstance(n) => write!(f, "{{o_instance{n}*}}"),
            ArgItem::InputDesc => f.write_str("{i_desc}"),
            ArgItem::OutputDesc => f.write_str("{o_desc}"),
            ArgItem::Tiling => f.write_str("{t}"),
            ArgItem::FftsTiling { tail: true } => f.write_str("{t_ffts.tail}"),
            ArgItem::FftsTiling { tail: false } => f.write_str("{t_ffts.non_tail}"),
            ArgItem::FftsAddr => f.write_str("{ffts_addr}"),
            ArgItem::OverflowAddr => f.write_str("{overflow_addr}"),
            ArgItem::Hidden { kind, index } => write!(f, "{{hi.{kind}{index}*}}"),
            ArgItem::OpType => f.write_str("{*op_type}"),
            ArgItem::Context(ContextPart::Whole) => f.write_str("{tiling_context}"),
            ArgItem::Context(ContextPart::TilingData) => f.write_str("{tiling_context.tiling_data}"),
            ArgItem::Context(ContextPart::TilingKey) => f.write_str("{tiling_context.tiling_key}"),
            ArgItem::Context(ContextPart::BlockDim) => f.write_str("{tiling_context.block_dim}"),
            ArgItem::Placeholder { narrow: n } => write!(f, "{{{}}}", narrow(n)),
            ArgItem::Value { value, narrow: n } => write!(f, "{{#{value}{}}}", narrow(n)),
            ArgItem::EventAddr(n) => write!(f, "{{event_addr{n}*}}"),
            ArgItem::SubNode(n) => write!(f, "{{skn{n}}}"),
        }
    }
}

/// Prints an args format; [`parse`] restores the items.
pub fn print(items: &[ArgItem]) -> String {
    items.iter().map(ArgItem::to_string).collect()
}

/// Checks the indices and limits of an args format against what its node has.
pub fn check(text: &str, items: &[ArgItem], has: Arity) -> Result<(), ArgsFormatError> {
    let (mut at, mut workspaces, mut descs) = (0, 0, 0);
    for item in items {
        let bad = |what: &str, n: u32, max: usize| Err(fail(text, format!("{what} {n} of {max}"), at + 1));
        match *item {
            ArgItem::Input { index, .. } if index as usize >= has.inputs => return bad("input", index, has.inputs),
            ArgItem::Output { index, .. } if index as usize >= has.outputs => return bad("output", index, has.outputs),
            ArgItem::Workspace { index, .. } if index as usize >= has.workspaces => {
                return bad("workspace", index, has.workspaces);
            }
            ArgItem::EventAddr(n) if n as usize >= has.events => return bad("event", n, has.events),
            _ => {}
        }
        workspaces += usize::from(matches!(item, ArgItem::Workspace { .. }));
        descs += match item {
            ArgItem::InputDesc => has.inputs,
            ArgItem::OutputDesc => has.outputs,
            _ => 0,
        };
        if workspaces > MAX_WORKSPACES {
            return Err(fail(text, format!("more than {MAX_WORKSPACES} workspaces"), at + 1));
        }
        if descs > MAX_DESCS {
            return Err(fail(text, format!("more than {MAX_DESCS} descriptors"), at + 1));
        }
        at += item.to_string().len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&str] = &[
        "{i0}",
        "{i12*}",
        "{o0}",
        "{o3*}",
        "{ws0}",
        "{ws15*}",
        "{ws}",
        "{ws*}",
        "{t}",
        "{i_desc}",
        "{o_desc}",
        "{ffts_addr}",
        "{overflow_addr}",
        "{t_ffts.tail}",
        "{t_ffts.non_tail}",
        "{hi.hcom0*}",
        "{*op_type}",
        "{tiling_context}",
        "{tiling_context.tiling_data}",
        "{tiling_context.tiling_key}",
        "{tiling_context.block_dim}",
        "{}",
        "{.32b}",
        "{#0}",
        "{#18446744073709551615}",
        "{#4294967295.32b}",
        "{i_instance0*}",
        "{o_instance7*}",
        "{event_addr1*}",
        "{skn2}",
    ];

    #[test]
    fn every_form_is_read_and_printed_as_it_was() {
        for text in ALL {
            let items = parse(text).expect(text);
            assert_eq!(items.len(), 1, "{text}");
            assert_eq!(print(&items), *text);
        }
        let together = ALL.concat();
        let items = parse(&together).expect("all forms");
        assert_eq!((items.len(), print(&items)), (ALL.len(), together));
    }

    #[test]
    fn forms_mean_what_they_say() {
        assert_eq!(parse("{i1}").expect("folded"), [ArgItem::Input { index: 1, expanded: false }]);
        assert_eq!(parse("{i1*}").expect("expanded"), [ArgItem::Input { index: 1, expanded: true }]);
        assert_eq!(parse("{#7.32b}").expect("number"), [ArgItem::Value { value: 7, narrow: true }]);
        assert_eq!(parse("{hi.hcom3*}").expect("hidden"), [ArgItem::Hidden { kind: "hcom".into(), index: 3 }]);
    }

    #[test]
    fn what_is_no_item_is_refused_with_its_place() {
        for bad in [
            "i0",
            "{i0",
            "}",
            "{i}",
            "{i-1}",
            "{i01}",
            "{i1000000}",
            "{x}",
            "{t*}",
            "{#}",
            "{#-1}",
            "{#4294967296.32b}",
            "{#18446744073709551616}",
            "{hi.hcom0}",
            "{hi.0*}",
            "{event_addr0}",
            "{i_instance*}",
            "{op_type}",
            "{tiling_context.other}",
            "{skn}",
            "{skn0*}",
            "{i0**}",
            "{.64b}",
            "{\u{e9}}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("{i0*}{}{q}").expect_err("no item").at, 8);
    }

    #[test]
    fn indices_and_limits_are_checked_against_the_node() {
        let has = Arity { inputs: 2, outputs: 1, workspaces: 1, events: 1 };
        let verdict = |text: &str, has: Arity| check(text, &parse(text).expect(text), has).map_err(|e| e.reason);
        assert_eq!(verdict("{i0*}{i1*}{o0*}{ws0*}{event_addr0*}", has), Ok(()));
        assert_eq!(verdict("{i2*}", has), Err("input 2 of 2".into()));
        assert_eq!(verdict("{o1*}", has), Err("output 1 of 1".into()));
        assert_eq!(verdict("{ws1*}", has), Err("workspace 1 of 1".into()));
        assert_eq!(verdict("{event_addr1*}", has), Err("event 1 of 1".into()));
        let wide = Arity { inputs: 26, outputs: 25, workspaces: 17, events: 0 };
        assert!(verdict("{i_desc}", wide).is_err());
        assert_eq!(verdict("{o_desc}", wide), Ok(()));
        let many: String = (0..17).map(|n| format!("{{ws{n}*}}")).collect();
        assert!(verdict(&many, wide).is_err());
    }
}
