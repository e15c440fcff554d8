//! Changed task lists with a correct checksum: they end in an error or a run, never in a crash, a
//! hang or an access outside.
use super::*;
use ge_model::CompiledModel;

const ON: &str = "ge.tiling_schedule_optimize=1";
const SLICES: [&str; 3] = [ON, "ge.x.composite_engines=FftsPlus", "ge.x.auto_fusion=false"];
/// Tiling sink alone and in a super kernel, a loop, slices of an FFTS+ task, and a sunk kernel
/// launched by one.
const MODELS: [(&str, &[&str]); 4] = [
    (
        "graph @main(%x: f32[12,16], %w: f32[3,16,8], %list: i64[3]) {
  %a = Relu(%x) : f32[12,16]
  %g = GroupedMatmul(%a, %w, %list) {group_list_type = 1, _super_kernel_scope = \"s\"} : f32[12,8]
  %h = Neg(%g) {_super_kernel_scope = \"s\"} : f32[12,8]
  %k = GroupedMatmul(%a, %w, %list) {group_list_type = 1} : f32[12,8]
  %r = Add(%h, %k) : f32[12,8]
  return %r
}
",
        &[ON],
    ),
    (
        "graph @main(%n: i64[1], %x: f32[4]) {
  %zero = Const() {value = dense<i64[1]: 0>} : i64[1]
  %w = While(%zero, %n, %x) {body = @body, cond = @cond} : i64[1], i64[1], f32[4]
  return %w#2
}
graph @cond(%i: i64[1], %n: i64[1], %v: f32[4]) { %t = Less(%i, %n) : bool[1] return %t }
graph @body(%i: i64[1], %n: i64[1], %v: f32[4]) {
  %one = Const() {value = dense<i64[1]: 1>} : i64[1]
  %m = Neg(%v) : f32[4]
  %j = Add(%i, %one) : i64[1]
  return %j, %n, %m
}
",
        &[ON],
    ),
    (
        "graph @main(%x: f32[50,64], %b: f32[64]) {
  %a = Relu(%x) : f32[50,64]
  %c = Add(%a, %b) : f32[50,64]
  %d = SoftmaxV2(%c) {axes = [-1]} : f32[50,64]
  return %d
}
",
        &SLICES,
    ),
    (
        "graph @main(%q: f32[2,6,8], %k: f32[2,9,8], %v: f32[2,9,8], %ql: i64[2], %kl: i64[2]) {
  %y = PromptFlashAttention(%q, %k, %v, _, _, %ql, %kl) {num_heads = 1, scale_value = 0.25} : f32[2,6,8]
  return %y
}
",
        &SLICES,
    ),
];

/// Loads and runs a model; returns whether it ran.
fn attempt(s: &Session, m: CompiledModel) -> bool {
    let Ok(model) = s.load(m) else { return false };
    let inputs: Option<Vec<HostTensor>> = model
        .info()
        .inputs
        .iter()
        .map(|i| match i.desc.dtype {
            DType::I64 if i.name == "list" => Some(i64s(&[3], &[2, 7, 3])),
            DType::I64 if i.name == "n" => Some(i64s(&[1], &[3])),
            _ => HostTensor::zeroed(i.desc.dtype, &i.desc.shape.sizes()?).ok(),
        })
        .collect();
    inputs.is_some_and(|i| model.run(&i).is_ok())
}

fn change(m: &mut CompiledModel, random: &mut Random) {
    let n = m.tasks.len() as u64;
    let at = random.below(n) as usize;
    let odd = [0, 1, 2, 3, 7, 255, 65_535, 65_536, u64::from(u32::MAX), 1 << 40, u64::MAX];
    let number = odd[random.below(odd.len() as u64) as usize];
    match random.below(14) {
        0 => drop(m.tasks.remove(at)),
        1 => {
            let t = m.tasks[at].clone();
            m.tasks.insert(random.below(n) as usize, t);
        }
        2 => m.tasks.swap(at, random.below(n) as usize),
        3 => m.tasks[at].stream = random.below(m.streams.physical.len() as u64 + 1) as u32,
        4 => m.tasks[at].kind = random.below(51) as u32,
        5 => m.tasks[at].sync_id = Some(random.below(u64::from(m.event_num) + 2) as u32),
        6 => m.tasks[at].block_dim = number as u32,
        7 => m.tasks[at].tiling_key = number,
        8 => {
            let mut bytes = m.tasks[at].tiling.to_vec();
            let i = random.below(bytes.len() as u64 + 1) as usize;
            if i < bytes.len() {
                bytes[i] ^= 1 << random.below(8)
            } else {
                bytes.push(7)
            }
            m.tasks[at].tiling = bytes.into();
        }
        9 => {
            let items =
                ["{i0*}", "{i9*}", "{o0*}", "{o3*}", "{ws0*}", "{ws7*}", "{}", "{tiling_context}", "{event_addr0*}"];
            let more = items[random.below(items.len() as u64) as usize];
            m.tasks[at].args_format.push_str(more);
        }
        10 => m.tasks[at].args_format = m.tasks[random.below(n) as usize].args_format.clone(),
        11 => m.tasks[at].numbers.push(number as i64),
        12 => {
            if let Some(v) = m.tasks[at].numbers.first_mut() {
                *v = number as i64;
            }
        }
        _ => {
            let mut bytes = m.tasks[at].private.to_vec();
            let i = random.below(bytes.len() as u64 + 1) as usize;
            if i < bytes.len() {
                bytes[i] ^= 1 << random.below(8);
            }
            m.tasks[at].private = bytes.into();
        }
    }
}

#[test]
fn changed_task_lists_end_in_an_error_or_a_run() {
    let rounds = if std::env::var_os("GE_LONG").is_some() { 10_000 } else { 400 };
    let s = session(&[("max_tasks", "500")]);
    let mut random = Random(20_251_121);
    let (mut ran, mut refused) = (0, 0);
    for (text, options) in MODELS {
        let options: Vec<&str> = options.iter().flat_map(|o| ["--set", *o]).collect();
        let c = Compiled::new(text, &options);
        let good = std::fs::read(c.path().join("m.om")).unwrap();
        let file = ge_om::OmFile::from_bytes(good.clone()).unwrap();
        let model = ge_model::decode(&file).unwrap();
        assert!(attempt(&s, model.clone()), "the unchanged model runs");
        let task_info =
            file.models()[0].partitions().iter().find(|p| p.kind == ge_om::table::PartitionType::TaskInfo).unwrap();
        let (start, len) = (task_info.range.start, task_info.range.len());
        for round in 0..rounds / MODELS.len() {
            let changed = if round % 2 == 0 {
                let mut m = model.clone();
                for _ in 0..=random.below(2) {
                    change(&mut m, &mut random);
                }
                Some(m)
            } else {
                let mut bytes = good.clone();
                for _ in 0..=random.below(3) {
                    bytes[start + random.below(len as u64) as usize] = random.next() as u8;
                }
                let sealed = ge_om::reader::reseal(&mut bytes).is_ok();
                let file = sealed.then(|| ge_om::OmFile::from_bytes(bytes).ok()).flatten();
                file.and_then(|f| ge_model::decode(&f).ok())
            };
            if changed.is_some_and(|m| attempt(&s, m)) { ran += 1 } else { refused += 1 }
        }
    }
    println!("{rounds} changed task lists: {ran} ran, {refused} were refused");
    assert!(ran > 0 && refused > rounds / 4, "{ran} ran, {refused} were refused");
}
