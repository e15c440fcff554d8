//! `--device-option k=v`: the options that a device is opened with.
use crate::faults::Fault;
use crate::soc::nearest;
use ge_kernels::simd::Level;
use ge_plugin_api::{Diagnostic, Error, ErrorKind, Result};

/// The order in which ready tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// In the order in which streams become ready.
    Fifo,
    /// Any legal interleaving, one task at a time, determined by a seed.
    Random(u64),
}

/// The clock that a run's report uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The clock of the machine.
    Real,
    /// A simulated clock, from the costs of the SoC and of the tasks.
    Model,
}

/// Options that a device is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Order of ready tasks.
    pub schedule: Schedule,
    /// Whether accesses are checked against the order given by streams and events; each task then
    /// runs on guarded copies.
    pub check_races: bool,
    /// Whether each launch is also probed block by block, whatever that costs.
    pub check_full: bool,
    /// Clock of the report.
    pub time: Time,
    /// Injected faults.
    pub faults: Vec<Fault>,
    /// Number of tasks after which a run is considered endless.
    pub max_tasks: u64,
    /// Seconds that a rank waits for the others of its group.
    pub group_timeout_s: u64,
    /// The largest instruction set that kernels may use; `None`: whatever the machine has. The host
    /// passes it on to the engines.
    pub isa: Option<&'static str>,
    /// Number of threads of one run; `None`: one for each core.
    pub threads: Option<usize>,
    /// Whether the machine's peak performance is measured when the device is opened.
    pub roofline: bool,
}

/// Names and help of the options, for `DeviceInfo`.
pub const HELP: &[(&str, &str)] = &[
    ("schedule", "fifo (default), or random:SEED: any legal interleaving, the same for the same seed"),
    (
        "check_races",
        "true or false (default): find unordered accesses, reads of unwritten memory, accesses out of bounds; full: also blocks that \
         write the same bytes and outputs that are not fully written, each block by itself between guard pages, whatever it costs",
    ),
    ("time", "real (default), or model: a simulated clock, the same on every machine"),
    (
        "fault",
        "comma-separated, N counts tasks from 0 since the device was opened: fail:N, delay:N, flip:N[:BIT], lose:N; \
         drop_event:ID (waits for it pass at once), lose_record:ID (its records have no effect)",
    ),
    ("max_tasks", "tasks after which one run is taken to loop for ever, from 1 on (default 50000000)"),
    (
        "isa",
        "plain, avx2, avx512, vnni, bf16 or amx: the instructions that vectorised kernels use at most (default: all that the machine \
         has)",
    ),
    (
        "roofline",
        "true or false (default): measure what this machine reaches at best when the device is opened, for `ge bench --per-node`",
    ),
    ("threads", "threads of one run, from 1 on (default: those of --threads, else one a core)"),
    ("group_timeout", "seconds that a rank waits for the other ranks of its group (default 60)"),
];

impl Default for Options {
    fn default() -> Options {
        Options {
            schedule: Schedule::Fifo,
            check_races: false,
            check_full: false,
            time: Time::Real,
            faults: Vec::new(),
            max_tasks: 50_000_000,
            group_timeout_s: 60,
            isa: None,
            threads: None,
            roofline: false,
        }
    }
}

/// A usage error about an option value; it suggests the nearest of the `known` values.
pub(crate) fn bad_value(option: &str, value: &str, expected: &str, known: &[&str]) -> Error {
    let mut d = Diagnostic::error(format!("device option `{option}` cannot be `{value}`")).found(value, expected);
    if let Some(n) = nearest(value.split(':').next().unwrap_or(value), known.iter().copied()) {
        d = d.help(format!("did you mean `{n}`?"));
    }
    d.of(ErrorKind::USAGE)
}

/// Names of the instruction sets of this machine, smallest first.
fn machine() -> Vec<&'static str> {
    Level::available().into_iter().map(Level::name).collect()
}

/// Parses the name of an instruction set that this machine has.
fn isa(option: &str, value: &str) -> Result<&'static str> {
    let Some(name) = Level::named(value).map(Level::name) else {
        return Err(bad_value(option, value, "plain, avx2, avx512, vnni, bf16 or amx", &Level::ALL.map(Level::name)));
    };
    let has = machine();
    if !has.contains(&name) {
        return Err(Diagnostic::error(format!("this machine has no instruction set `{name}`"))
            .found(value, format!("{} here", has.join(" or ")))
            .of(ErrorKind::USAGE));
    }
    Ok(name)
}

impl Options {
    /// Parses option names and values.
    ///
    /// # Errors
    /// Returns a usage error for an unknown name or value; it suggests the nearest valid one.
    pub fn parse(pairs: &[(String, String)]) -> Result<Options> {
        let mut o = Options::default();
        for (k, v) in pairs {
            let number = || v.parse::<u64>().map_err(|_| bad_value(k, v, "a whole number", &[]));
            let positive = || match number()? {
                0 => Err(bad_value(k, v, "a whole number from 1 on", &[])),
                n => Ok(n),
            };
            match k.as_str() {
                "schedule" => {
                    o.schedule = match v.split_once(':') {
                        None if v == "fifo" => Schedule::Fifo,
                        Some(("random", seed)) => {
                            Schedule::Random(seed.parse().map_err(|_| bad_value(k, v, "a whole number as seed", &[]))?)
                        }
                        _ => return Err(bad_value(k, v, "fifo or random:SEED", &["fifo", "random:SEED"])),
                    }
                }
                "check_races" => {
                    (o.check_races, o.check_full) = match v.as_str() {
                        "true" => (true, false),
                        "full" => (true, true),
                        "false" => (false, false),
                        _ => return Err(bad_value(k, v, "true, false or full", &["true", "false", "full"])),
                    }
                }
                "time" => {
                    o.time = match v.as_str() {
                        "real" => Time::Real,
                        "model" => Time::Model,
                        _ => return Err(bad_value(k, v, "real or model", &["real", "model"])),
                    }
                }
                "fault" => {
                    for f in v.split(',') {
                        o.faults.push(Fault::parse(f)?);
                    }
                }
                "max_tasks" => o.max_tasks = positive()?,
                "group_timeout" => o.group_timeout_s = number()?,
                "threads" => {
                    o.threads = usize::try_from(positive()?.min(1024)).ok();
                }
                "roofline" => {
                    o.roofline = match v.as_str() {
                        "true" => true,
                        "false" => false,
                        _ => return Err(bad_value(k, v, "true or false", &["true", "false"])),
                    }
                }
                "isa" => o.isa = Some(isa(k, v)?),
                _ => {
                    let known: Vec<&str> = HELP.iter().map(|h| h.0).collect();
                    let mut d = Diagnostic::error(format!("device `sim` has no option `{k}`"))
                        .note(format!("known: {}", known.join(", ")));
                    if let Some(n) = nearest(k, known.iter().copied()) {
                        d = d.help(format!("did you mean `{n}`?"));
                    }
                    return Err(d.of(ErrorKind::USAGE));
                }
            }
        }
        Ok(o)
    }
    /// Whether runs use the careful mode, which executes one task at a time.
    pub fn careful(&self) -> bool {
        self.schedule != Schedule::Fifo || self.check_races || self.time == Time::Model || !self.faults.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn parse(k: &str, v: &str) -> Result<Options> {
        Options::parse(&[(k.to_owned(), v.to_owned())])
    }
    #[test]
    fn options_are_read() {
        assert_eq!(parse("schedule", "random:7").expect("good").schedule, Schedule::Random(7));
        assert!(parse("check_races", "true").expect("good").check_races);
        assert!(parse("check_races", "full").expect("good").check_full);
        assert_eq!(parse("time", "model").expect("good").time, Time::Model);
        assert_eq!(parse("fault", "fail:3,flip:2:9").expect("good").faults, vec![Fault::Fail(3), Fault::Flip(2, 9)]);
        assert!(!Options::default().careful());
        assert_eq!(parse("isa", "plain").expect("good").isa, Some("plain"));
        assert!(parse("roofline", "true").expect("good").roofline);
        assert_eq!(parse("threads", "3").expect("good").threads, Some(3));
        assert_eq!(parse("max_tasks", "1").expect("good").max_tasks, 1);
    }
    #[test]
    fn an_instruction_set_is_taken_where_the_machine_has_it_and_else_refused() {
        for name in Level::ALL.map(Level::name) {
            match parse("isa", name) {
                Ok(o) => assert!(machine().contains(&name) && o.isa == Some(name)),
                Err(e) => {
                    assert!(!machine().contains(&name), "{name}");
                    assert_eq!(e.kind, ErrorKind::USAGE);
                    assert!(e.diagnostics[0].message.contains(name), "{:?}", e.diagnostics[0]);
                }
            }
        }
    }
    #[test]
    fn unknown_names_and_values_are_usage_errors_with_the_nearest() {
        for (k, v, near) in [
            ("shedule", "fifo", "schedule"),
            ("schedule", "randm:3", "random:SEED"),
            ("schedule", "random:x", ""),
            ("time", "modle", "model"),
            ("check_races", "yes", ""),
            ("isa", "avx521", "avx512"),
            ("roofline", "ture", "true"),
            ("threads", "two", ""),
            ("threads", "0", ""),
            ("max_tasks", "0", ""),
            ("fault", "drop_evnt:1", "drop_event"),
            ("fault", "fail", ""),
        ] {
            let e = parse(k, v).expect_err(v);
            assert_eq!(e.kind, ErrorKind::USAGE);
            assert!(e.diagnostics[0].help.contains(near), "{k}={v}: {:?}", e.diagnostics[0]);
        }
    }
}
