//! Parts of the engine by themselves. They are tested here and not beside the code because a test
//! build of the library would compile all kernels once more.

/// The number of blocks of a launch, and the record of what a kernel wrote.
mod blocks {
    use ge_nn::kernel::{Io, Kernel, Watch, alike, blocks_on};
    use ge_plugin_api::Result;
    use std::ops::Range;

    #[test]
    fn what_was_lent_is_told_once() {
        let watch = Watch::default();
        for (start, len) in [(10, 5), (15, 5), (0, 3), (12, 4), (30, 0), (2, 4), (25, 1)] {
            watch.lent(start..start + len);
        }
        assert_eq!(watch.parts(), [0..6, 10..20, 25..26]);
    }

    #[test]
    fn blocks_have_as_many_units_each_where_that_costs_few() {
        let all = [(16, 6), (16, 8), (12, 6), (18, 8), (7, 6), (3, 3), (1, 1), (24, 6), (25, 6), (2, 2)];
        assert_eq!(all.map(|(units, most)| alike(units, most)), [4, 8, 6, 6, 6, 3, 1, 6, 6, 2]);
    }

    #[test]
    fn threads_get_a_few_blocks_each_and_what_is_shared_is_cut_for_them_alone() {
        struct Units(usize, usize);
        impl Kernel for Units {
            fn units(&self) -> usize {
                self.0
            }
            fn shared(&self) -> usize {
                self.1
            }
            fn work(&self) -> u64 {
                1 << 30
            }
            fn run(&self, _: Range<usize>, _: &Io<'_, '_>) -> Result<()> {
                Ok(())
            }
        }
        let blocks = |units, shared, planned, threads| blocks_on(&Units(units, shared), planned, threads);
        assert_eq!([blocks(100, 1, 24, 1), blocks(0, 1, 1, 1), blocks(0, 1, 0, 1)], [1, 1, 0]);
        assert_eq!(
            [blocks(100, 1, 24, 2), blocks(24, 1, 24, 2), blocks(5, 1, 5, 2), blocks(100, 1, 24, 64)],
            [8, 8, 5, 24]
        );
        // Two strips of two units each give two blocks; one strip of four is cut so that both have
        // a part.
        assert_eq!([blocks(4, 2, 4, 2), blocks(4, 4, 4, 2), blocks(6, 6, 6, 3), blocks(7, 1, 7, 3)], [2, 2, 3, 7]);
        assert_eq!(blocks(11, 1, 24, 4), 8);
    }
}

/// Trial sizes.
mod open {
    use ge_nn::passes::open::{same, trials};
    use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

    fn desc(dims: &[&str]) -> TensorDesc {
        let dim = |d: &&str| match d.parse() {
            Ok(n) => Dim::known(n),
            Err(_) if *d == "?" => Dim::UNKNOWN,
            Err(_) => Dim::symbol(d),
        };
        TensorDesc::new(DType::F32, Shape::new(dims.iter().map(dim)))
    }

    #[test]
    fn open_sizes_are_the_same_by_name_alone() {
        let is = |a: &[&str], b: &[&str]| same(&desc(a).shape, &desc(b).shape);
        assert!(is(&["B", "2*S", "4"], &["B", "2*S", "4"]));
        assert!(!is(&["B", "4"], &["S", "4"]) && !is(&["?", "4"], &["?", "4"]) && !is(&["B"], &["B", "1"]));
        assert!(!same(&Shape::unranked(), &Shape::unranked()));
    }

    #[test]
    fn a_letter_is_one_number_in_all_of_a_node() {
        let (x, y) = (desc(&["B", "max(S-3,0)", "odd name"]), desc(&["2*B", "(S+B)/2", "8"]));
        let all = trials(&[Some(&x), None, Some(&y)]).unwrap();
        let sizes: Vec<Vec<Option<Vec<u64>>>> =
            all.iter().map(|t| t.iter().map(|d| d.as_ref().and_then(|d| d.shape.sizes())).collect()).collect();
        // Letters are numbered in alphabetical order: B, S, odd name.
        assert_eq!(sizes[0], [Some(vec![96, 189, 288]), None, Some(vec![192, 144, 8])]);
        assert_eq!(sizes[2], [Some(vec![7, 6, 11]), None, Some(vec![14, 8, 8])]);
        assert_eq!((sizes.len(), sizes[3][0].clone()), (4, Some(vec![4, 1, 4])));
        // Numbers grow until no open size is zero; a known zero stays.
        let (z, w) = (desc(&["B", "max(((S+64)/128)-1,0)", "0"]), desc(&["((max(((S+64)/128)-1,0)+1)/2)"]));
        let all = trials(&[Some(&z), Some(&w)]).unwrap();
        let sizes: Vec<Vec<u64>> = all.iter().map(|t| t[0].as_ref().unwrap().shape.sizes().unwrap()).collect();
        assert_eq!(sizes, [[96, 1, 0], [128, 1, 0], [224, 1, 0], [256, 1, 0]]);
        assert!(trials(&[Some(&desc(&["(B/100000000)"]))]).unwrap().is_empty());
        // A table has as many rows as are needed.
        let (few, rows) = (desc(&["-max(-S+16,0)+16", "4"]), desc(&["B", "S", "4"]));
        let all = trials(&[Some(&few), Some(&rows)]).unwrap();
        let sizes: Vec<Vec<u64>> = all.iter().map(|t| t[0].as_ref().unwrap().shape.sizes().unwrap()).collect();
        assert_eq!(sizes, [[6, 4], [9, 4], [1, 4]]);
        // Known descriptors are used unchanged; a size without a name gives no trials.
        let known = desc(&["3", "4"]);
        assert_eq!(trials(&[Some(&known)]).unwrap(), [[Some(known.clone())]]);
        assert!(trials(&[Some(&known), Some(&desc(&["?"]))]).is_none());
    }
}

/// Answers of the op store.
mod asked {
    use ge_nn::passes::asked::{MOST, answer};
    use ge_plugin_api::fusion::Verdict;
    use ge_plugin_api::types::{AttrMap, DType, Shape, TensorDesc};

    #[test]
    fn the_same_question_is_asked_once_and_another_is_asked_for_itself() {
        let (a, b) = (TensorDesc::new(DType::F32, Shape::of(&[4])), TensorDesc::new(DType::F16, Shape::of(&[4])));
        let mut one = AttrMap::default();
        one.set("steps", vec!["Relu %0".to_owned()]);
        let asked = std::cell::Cell::new(0);
        let ask = |op: &str, given: &[Option<&TensorDesc>], attrs: &AttrMap| {
            answer(op, given, 1, attrs, || {
                asked.set(asked.get() + 1);
                Err(asked.get().to_string())
            })
        };
        let none = AttrMap::default();
        let questions = || {
            vec![
                ask("Asked", &[Some(&a), Some(&a)], &none),
                ask("Other", &[Some(&a), Some(&a)], &none),
                ask("Asked", &[Some(&b), Some(&a)], &none),
                ask("Asked", &[None, Some(&a)], &none),
                ask("Asked", &[Some(&a)], &none),
                ask("Asked", &[Some(&a), Some(&a)], &one),
            ]
        };
        let first = questions();
        assert_eq!(first, (1..=6).map(|n: u32| Err(n.to_string())).collect::<Vec<Verdict>>());
        assert_eq!(questions(), first);
        // An answer that left the cache is asked for again.
        (0..MOST).for_each(|n| drop(ask(&format!("Op{n}"), &[], &none)));
        assert_eq!(questions()[0], Err("15".to_owned()));
    }
}

/// Paths between nodes.
mod reach {
    use ge_nn::passes::reach::Reach;
    use ge_plugin_api::testing::TestGraph;
    use ge_plugin_api::types::{DType, NodeId};

    #[test]
    fn a_path_out_and_back_is_found_through_what_will_be_one() {
        let mut t = TestGraph::new();
        let x = t.input("x", DType::F32, &[4]);
        let mut op = |name: &str, reads: &[_]| t.add("Op", name, reads).output(DType::F32, &[4]).value();
        // a -> b -> d and a -> c -> d; e is independent and lies between c and d; f reads e.
        let a = op("a", &[x]);
        let b = op("b", &[a]);
        let c = op("c", &[a]);
        let e = op("e", &[x]);
        let d = op("d", &[b, c]);
        let f = op("f", &[e]);
        t.returns(&[d, f]);
        let g = t.graph();
        let mut reach = Reach::new(&g);
        let [a, b, c, d, e, f] = [a, b, c, d, e, f].map(|v| reach.place(v.node).unwrap());
        let mut convex = |nodes: &[u32], groups: &[&'static [u32]]| {
            let group = |n: u32| groups.iter().find(|g| g.contains(&n)).copied().unwrap_or(&[]);
            reach.convex(nodes, nodes, group)
        };
        assert!(convex(&[a, b], &[]) && convex(&[a, b, c, d], &[]) && convex(&[b, c], &[]));
        assert!(!convex(&[a, b, d], &[]), "a, c, d");
        assert!(convex(&[a, e], &[]) && convex(&[e, f], &[]));
        // Two nodes that will be fused: each waits for what the other waits for.
        let one: &'static [u32] = Box::leak(vec![c, f].into_boxed_slice());
        assert!(!convex(&[e, d], &[one]), "e, f with c, d");
        assert!(convex(&[a, e], &[one]));
        assert_eq!(reach.place(NodeId::NONE), None);
    }

    #[test]
    fn a_search_without_an_end_in_short_is_a_path() {
        let mut t = TestGraph::new();
        let x = t.input("x", DType::F32, &[4]);
        let first = t.add("Op", "first", &[x]).output(DType::F32, &[4]).value();
        let mut last = t.add("Op", "n", &[x]).output(DType::F32, &[4]).value();
        for k in 0..300 {
            last = t.add("Op", &format!("n{k}"), &[last]).output(DType::F32, &[4]).value();
        }
        let both = t.add("Op", "both", &[first, last]).output(DType::F32, &[4]).value();
        t.returns(&[both]);
        let g = t.graph();
        let mut reach = Reach::new(&g);
        let [first, both] = [first, both].map(|v| reach.place(v.node).unwrap());
        assert!(!reach.convex(&[first, both], &[first, both], |_| &[]));
    }
}

/// Variables.
mod state {
    use ge_nn::sig::Sig;
    use ge_nn::store;
    use ge_plugin_api::testing::TestGraph;
    use ge_plugin_api::types::DType;

    #[test]
    fn a_variable_that_is_replaced_takes_no_arithmetic() {
        let mut t = TestGraph::new();
        let (v, x) = (t.input("v", DType::F32, &[8]), t.input("x", DType::F32, &[8]));
        for (op, operations) in [("Assign", 0), ("AssignAdd", 8)] {
            t.add(op, op, &[v, x]).value();
            let kernel = store::build(&Sig::of_node(&t.node(op)).expect("a signature")).expect("a kernel");
            assert_eq!((kernel.operations(), kernel.work()), (operations, 8), "{op}");
        }
    }
}

/// Teams of blocks.
mod meetings {
    use ge_kernels::rnn::Team;
    use ge_nn::families::meetings::Meetings;

    fn come(m: &Meetings, of: usize, seat: usize) -> bool {
        m.come([of, 0], seat, 4, || Team::new(1, 16)).1
    }

    #[test]
    fn each_launch_has_one_first_whatever_the_order() {
        let m = Meetings::default();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let first: Vec<bool> = order.iter().map(|seat| come(&m, 7, *seat)).collect();
            assert_eq!(first, [true, false, false, false], "{order:?}");
        }
        assert!(come(&m, 7, 0) && come(&m, 8, 0) && !come(&m, 7, 1));
    }

    #[test]
    fn a_launch_that_was_given_up_takes_nothing_from_the_next() {
        // Every way to abandon a launch, followed by complete launches in every order.
        let orders = || {
            let four = 0..4usize;
            let all = four.clone().flat_map(|a| (0..4usize).map(move |b| (a, b)));
            let all = all.flat_map(|(a, b)| (0..4usize).map(move |c| [a, b, c, 6usize.wrapping_sub(a + b + c)]));
            all.filter(|o| four.clone().all(|s| o.contains(&s))).collect::<Vec<_>>()
        };
        assert_eq!(orders().len(), 24);
        for left in orders() {
            for come_before in 1..4 {
                for next in orders() {
                    let m = Meetings::default();
                    assert!(come(&m, 7, left[0]));
                    left[1..come_before].iter().for_each(|s| assert!(!come(&m, 7, *s)));
                    for _ in 0..3 {
                        let firsts = next.iter().filter(|s| come(&m, 7, **s)).count();
                        assert_eq!(firsts, 1, "{left:?} {come_before} {next:?}");
                    }
                }
            }
        }
    }
}

/// Rows of groups.
mod grouped {
    use ge_nn::families::grouped::starts_of;
    #[test]
    fn lists_of_both_types_give_first_rows() {
        assert_eq!(starts_of(&[2, 0, 3], 5, 1).expect("rows"), [0, 2, 2, 5]);
        assert_eq!(starts_of(&[2, 2, 5], 5, 0).expect("ends"), [0, 2, 2, 5]);
        assert!(starts_of(&[2, 2], 5, 1).expect_err("sum").to_string().contains("sums to 4 rows, x has 5"));
        assert!(starts_of(&[3, 2, 5], 5, 0).is_err());
        assert!(starts_of(&[-1, 6], 5, 1).is_err());
        assert!(starts_of(&[i64::MAX, i64::MAX], 5, 1).is_err());
    }
}
