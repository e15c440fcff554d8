//! The text form of a chain of element-wise steps (`FusedElementwise`), such as `Add %0 %1` or
//! `LeakyRelu %2 0.01`.

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// Input `k`, or the result of step `k - inputs` when `k` is not below the number of inputs.
    Value(usize),
    /// A literal number.
    Number(f64),
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name of the operator.
    pub op: String,
    /// Operands in order.
    pub args: Vec<Operand>,
}

/// Maximum number of steps in a chain.
pub const MOST_STEPS: usize = 64;

/// Reads the steps of a chain with `inputs` inputs. Operator names are not checked.
///
/// # Errors
/// Returns a message that says what is wrong: an empty step or chain, too many steps, a bad number,
/// or a reference to a value that does not precede its step.
pub fn parse<'a>(steps: impl IntoIterator<Item = &'a str>, inputs: usize) -> Result<Vec<Step>, String> {
    let mut out: Vec<Step> = Vec::new();
    for text in steps {
        let mut words = text.split_ascii_whitespace();
        let op = words.next().ok_or("a step is empty")?.to_owned();
        let mut args = Vec::new();
        for w in words {
            args.push(match w.strip_prefix('%') {
                Some(k) => match k.parse::<usize>() {
                    Ok(k) if k < inputs + out.len() => Operand::Value(k),
                    _ => return Err(format!("step `{text}` reads {w}, which does not stand before it")),
                },
                None => Operand::Number(w.parse().map_err(|_| format!("step `{text}`: `{w}` is no number"))?),
            });
        }
        out.push(Step { op, args });
        if out.len() > MOST_STEPS {
            return Err(format!("a chain has more than {MOST_STEPS} steps"));
        }
    }
    if out.is_empty() { Err("a chain has no steps".into()) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_and_what_does_not_stand_before_is_refused() {
        let s = parse(["Add %0 %1", "Clip %2 0 6"], 2).expect("steps");
        assert_eq!(s[0].args, [Operand::Value(0), Operand::Value(1)]);
        assert_eq!(s[1].args, [Operand::Value(2), Operand::Number(0.0), Operand::Number(6.0)]);
        assert!(parse(["Add %0 %2"], 2).is_err());
        assert!(parse(["Add %0 one"], 1).is_err());
        assert!(parse([], 1).is_err());
        assert!(parse([""], 1).is_err());
    }
}
