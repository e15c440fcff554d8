//! Plans for other sizes that are made of the plan before give what plans from nothing give.
use crate::executors::{Writer, chance, given, loaded, opened, seen};
use crate::open_streams::{PARALLEL, SEVERAL, compiled, spread};
use ge::session::Model;
use ge_tests::long;

/// Sizes that follow each other: a little more each time, as in a decoder, and far apart.
const SIZES: [u64; 12] = [3, 4, 5, 9, 2, 1, 7, 40, 41, 300, 299, 6];

#[test]
fn a_plan_of_the_one_before_gives_what_one_from_nothing_gives() {
    let plain = opened(&[]);
    let wild = opened(&[("schedule", "random:7"), ("check_races", "true")]);
    let mut amended = 0;
    for seed in 0..if long() { 200 } else { 8 } {
        let mut next = chance(seed + 5000);
        let text = Writer { next: &mut next, graphs: String::new(), count: 0 }.model();
        let limit = ("ge.exec.static_model_ops_lower_limit", if seed % 4 < 2 { "1" } else { "-1" });
        let m = match seed % 2 {
            0 => compiled(&plain, &text, &[limit]),
            _ => compiled(&plain, &spread(&text, &mut next), &[limit, SEVERAL, PARALLEL]),
        };
        let kept: Vec<Model> =
            vec![loaded(&plain, &m, 0, false), loaded(&plain, &m, 3, false), loaded(&wild, &m, 0, false)];
        for rows in SIZES {
            let inputs = given(rows, &mut next);
            let want = seen(&loaded(&plain, &m, 0, false), &inputs, false).0;
            for k in &kept {
                assert_eq!(seen(k, &inputs, false).0, want, "seed {seed}, {rows} rows\n{text}");
            }
        }
        // Who asks for a profile gets that of a plan from nothing.
        let inputs = given(300, &mut next);
        let fresh = seen(&loaded(&plain, &m, 0, false), &inputs, true);
        assert_eq!(seen(&kept[0], &inputs, true), fresh, "seed {seed}\n{text}");
        amended += kept.iter().map(Model::plans_amended).sum::<u64>();
    }
    assert!(amended > 100, "{amended}");
}
