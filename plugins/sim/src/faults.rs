//! Injected faults: what goes wrong, and when.
use crate::options::bad_value;
use ge_plugin_api::Result;

/// A fault. Tasks are counted from 0 in the order in which they start, beginning when the device is
/// opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The N-th task fails.
    Fail(u64),
    /// The N-th task starts only when nothing else can run.
    Delay(u64),
    /// Event ID acts as if it were not in the plan: its waits pass immediately.
    DropEvent(u32),
    /// Records of event ID have no effect.
    LoseRecord(u32),
    /// After the N-th task, bit B of the first range that it writes is flipped.
    Flip(u64, u64),
    /// The device is lost when the N-th task starts; it stays lost until it is opened again.
    Lose(u64),
}

const KINDS: &[&str] = &["fail", "delay", "drop_event", "lose_record", "flip", "lose"];

impl Fault {
    /// Parses `kind:number[:bit]`.
    pub fn parse(text: &str) -> Result<Fault> {
        let bad = || {
            bad_value("fault", text, "fail:N, delay:N, flip:N[:BIT], lose:N, drop_event:ID or lose_record:ID", KINDS)
        };
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let n: u64 = parts.next().and_then(|p| p.parse().ok()).ok_or_else(bad)?;
        let bit: Option<u64> = match parts.next() {
            None => None,
            Some(p) => Some(p.parse().map_err(|_| bad())?),
        };
        if parts.next().is_some() || (bit.is_some() && kind != "flip") {
            return Err(bad());
        }
        let id = || u32::try_from(n).map_err(|_| bad());
        Ok(match kind {
            "fail" => Fault::Fail(n),
            "delay" => Fault::Delay(n),
            "drop_event" => Fault::DropEvent(id()?),
            "lose_record" => Fault::LoseRecord(id()?),
            "flip" => Fault::Flip(n, bit.unwrap_or(0)),
            "lose" => Fault::Lose(n),
            _ => return Err(bad()),
        })
    }
}
