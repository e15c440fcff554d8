//! Kinds of options: which values an option accepts.

/// The values that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A whole number within these bounds (inclusive).
    Int(i64, i64),
    /// Any text.
    Text,
    /// A path of a file or folder.
    Path,
    /// Passes to switch, as `Name:on;Name:off`.
    Switches,
    /// Counts of at least 1 per engine, as `ENGINE:n,ENGINE:n`, or an empty text.
    EngineCounts,
    /// `engine`, or `parallel:N` with N from 1 to 64.
    StreamMode,
    /// Whole numbers separated by commas, or an empty text.
    Indices,
    /// Pairs of indices, as `i,o|i,o`, or an empty text.
    IndexPairs,
    /// Names separated by `|`, such as engine names as users write them.
    Names,
}

impl Kind {
    /// Checks a value. `None` if it is legal, otherwise a description of what is expected.
    pub fn refuse(self, v: &str) -> Option<String> {
        let number = |s: &str| s.trim().parse::<u32>().is_ok();
        let ok = match self {
            Kind::OneOf(list) => {
                return if list.contains(&v) {
                    None
                } else {
                    Some(format!(
                        "one of {}",
                        list.iter()
                            .map(|l| if l.is_empty() { "\"\"".to_owned() } else { format!("`{l}`") })
                            .collect::<Vec<_>>()
                            .join(", ")
                    ))
                };
            }
            Kind::Int(min, max) => {
                return if v.parse::<i64>().is_ok_and(|n| (min..=max).contains(&n)) {
                    None
                } else {
                    Some(format!("a whole number from {min} to {max}"))
                };
            }
            Kind::Text | Kind::Path | Kind::Names => true,
            Kind::Switches => v.split(';').filter(|s| !s.trim().is_empty()).all(|s| {
                s.split_once(':').is_some_and(|(n, o)| !n.trim().is_empty() && matches!(o.trim(), "on" | "off"))
            }),
            Kind::EngineCounts => {
                v.is_empty()
                    || v.split(',').all(|s| {
                        s.split_once(':')
                            .is_some_and(|(n, c)| !n.trim().is_empty() && c.trim().parse::<u32>().is_ok_and(|c| c > 0))
                    })
            }
            Kind::StreamMode => {
                v == "engine"
                    || v.strip_prefix("parallel:")
                        .is_some_and(|n| n.parse::<u32>().is_ok_and(|n| (1..=64).contains(&n)))
            }
            Kind::Indices => v.is_empty() || v.split(',').all(number),
            Kind::IndexPairs => {
                v.is_empty() || v.split('|').all(|p| p.split_once(',').is_some_and(|(a, b)| number(a) && number(b)))
            }
        };
        if ok {
            return None;
        }
        Some(
            match self {
                Kind::Switches => "`PassA:on;PassB:off`",
                Kind::EngineCounts => "`ENGINE:n,ENGINE:n` with n of at least 1",
                Kind::StreamMode => "`engine` or `parallel:N` with N from 1 to 64",
                Kind::Indices => "whole numbers separated by commas",
                _ => "`in,out|in,out`",
            }
            .to_owned(),
        )
    }
}
