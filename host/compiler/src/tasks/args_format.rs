//! Args formats: what stands at which address of a launch. Source: facts 5 (grammar).
//!
//! Items stand in braces: `i<n>`, `o<n>`, `ws<n>`, each with `*` where the list is expanded, `t` for tiling data, an empty item
//! for a placeholder, and the special ones of facts 5, which are kept as text.

/// One item of an args format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgItem {
    /// Input n.
    Input(u32),
    /// Output n.
    Output(u32),
    /// Workspace n.
    Workspace(u32),
    /// All workspaces in one.
    AllWorkspaces,
    /// A placeholder.
    Placeholder,
    /// Any other item, as written.
    Other(String),
}

/// Why a text is no args format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no args format: {reason} at byte {at}")]
pub struct ArgsFormatError {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub reason: &'static str,
    /// Where.
    pub at: usize,
}

/// Parses an args format.
pub fn parse(text: &str) -> Result<Vec<ArgItem>, ArgsFormatError> {
    let fail = |reason, at| ArgsFormatError { text: text.chars().take(200).collect(), reason, at };
    let mut out = Vec::new();
    let mut rest = text;
    let mut at = 0;
    while !rest.is_empty() {
        let Some(inner) = rest.strip_prefix('{') else { return Err(fail("an item starts with `{`", at)) };
        let Some(end) = inner.find('}') else { return Err(fail("an item ends with `}`", at)) };
        let item = &inner[..end];
        out.push(item_of(item).ok_or_else(|| fail("an index is too large", at))?);
        at += end + 2;
        rest = &inner[end + 1..];
    }
    Ok(out)
}

fn item_of(item: &str) -> Option<ArgItem> {
    let plain = item.strip_suffix('*').unwrap_or(item);
    let number = |s: &str| {
        if !s.is_empty() && s.len() <= 6 && s.bytes().all(|b| b.is_ascii_digit()) {
            s.parse::<u32>().ok()
        } else {
            None
        }
    };
    Some(match plain {
        "" | ".32b" => ArgItem::Placeholder,
        "ws" => ArgItem::AllWorkspaces,
        p => {
            if let Some(n) = p.strip_prefix("ws").and_then(number) {
                ArgItem::Workspace(n)
            } else if let Some(n) = p.strip_prefix('i').and_then(number) {
                ArgItem::Input(n)
            } else if let Some(n) = p.strip_prefix('o').and_then(number) {
                ArgItem::Output(n)
            } else {
                ArgItem::Other(item.to_owned())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn items_are_told_apart() {
        let items = parse("{i0*}{}{o12*}{ws0*}{tiling_context.tiling_key}{ws*}").expect("legal");
        assert_eq!(
            items,
            [
                ArgItem::Input(0),
                ArgItem::Placeholder,
                ArgItem::Output(12),
                ArgItem::Workspace(0),
                ArgItem::Other("tiling_context.tiling_key".into()),
                ArgItem::AllWorkspaces
            ]
        );
        assert!(parse("i0").is_err());
        assert!(parse("{i0").is_err());
    }
}
