//! Good configs, changed at random: as trees, and as text.

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::{promises, schema, schema_twin};
use crate::contain::{Offered, offered};

const GOOD: [&str; 5] = [
    include_str!("../../fixtures/config/good/published-format.json"),
    include_str!("../../fixtures/config/good/every-addition.json"),
    include_str!("../../fixtures/config/good/least-of-everything.json"),
    include_str!("../../fixtures/config/good/most-of-everything.json"),
    include_str!("../../fixtures/config/good/session.json"),
];

/// Good where the kernel has what it asks for.
const SANDBOX: &str = include_str!("../../fixtures/config/good/sandbox.json");

fn good() -> impl Strategy<Value = &'static str> {
    let mut good = GOOD.to_vec();
    match offered() {
        Offered {
            files: Ok(()),
            sockets: Ok(()),
            ..
        } => good.push(SANDBOX),
        lacking => eprintln!("SKIPPED: configs with a sandbox: {lacking:?}"),
    }
    prop::sample::select(good)
}

/// One change to a tree.
#[derive(Clone, Debug)]
enum Change {
    Remove,
    Replace(Value),
    Rename(String),
    Repeat,
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
        Just(json!([1, "x", {"argv": []}])),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            0_i64,
            1,
            3,
            4,
            5,
            8,
            32,
            64,
            65,
            99,
            100,
            1_024,
            1_025,
            65_536,
            1_048_576,
            1_048_577,
            16_777_216,
            16_777_217,
            67_108_864,
            3_600_000,
            3_600_001,
            -1,
            i64::MAX,
        ])
        .prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "/",
            "/usr",
            "/usr/lib",
            "/nowhere",
            "relative",
            "PATH",
            "MODE",
            "A=B",
            "1A",
            "ld_preload",
            "077",
            "0999",
            "pipe",
            "null",
            "both",
            "text",
            "session",
            "any",
            "head_tail",
            "(",
            "two\nlines",
            "nul\0",
            "\u{1b}[31m",
            "\u{e9}",
        ])
        .prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let names = [
        "argv",
        "env",
        "cwd",
        "max_sessions",
        "buffer_bytes",
        "limits",
        "nice",
        "x",
        "",
        "a\nb",
    ];
    prop_oneof![
        2 => Just(Change::Remove),
        6 => value().prop_map(Change::Replace),
        1 => prop::sample::select(names.map(str::to_owned).to_vec()).prop_map(Change::Rename),
        1 => Just(Change::Repeat),
    ]
}

/// Walks down by the steps and makes the change there.
fn apply(root: &mut Value, steps: &[Index], change: &Change) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    match root {
        Value::Object(members) if !members.is_empty() => {
            let name = members
                .keys()
                .nth(step.index(members.len()))
                .unwrap()
                .clone();
            let inner = &members[&name];
            if !rest.is_empty() && (inner.is_object() || inner.is_array()) {
                return apply(&mut members[&name], rest, change);
            }
            let old = members.remove(&name).unwrap();
            match change {
                Change::Remove => {}
                Change::Replace(new) => drop(members.insert(name, new.clone())),
                Change::Rename(new) => drop(members.insert(new.clone(), old)),
                Change::Repeat => {
                    members.insert(format!("{name}2"), old.clone());
                    members.insert(name, old);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = step.index(items.len());
            if !rest.is_empty() && (items[at].is_object() || items[at].is_array()) {
                return apply(&mut items[at], rest, change);
            }
            match change {
                Change::Remove | Change::Rename(_) => drop(items.remove(at)),
                Change::Replace(new) => items[at] = new.clone(),
                Change::Repeat => items.insert(at, items[at].clone()),
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_changed_tree_is_taken_or_refused_as_promised(
        good in good(),
        changes in prop::collection::vec((prop::collection::vec(any::<Index>(), 1..5), change()), 0..4),
        pretty in any::<bool>(),
    ) {
        let mut tree: Value = serde_json::from_str(good).unwrap();
        for (steps, change) in &changes {
            apply(&mut tree, steps, change);
        }
        let text = if pretty { format!("{tree:#}") } else { tree.to_string() };
        let taken = promises::check(text.as_bytes());
        prop_assert!(taken || !changes.is_empty(), "a good config is taken");
        // What an editor marks as wrong by the schema is refused.
        if schema_twin::check(&schema(), &tree).is_err() {
            prop_assert!(!taken);
        }
    }

    #[test]
    fn a_damaged_text_is_taken_or_refused_as_promised(
        good in good(),
        damage in prop::collection::vec(
            (any::<Index>(), 0usize..4, prop_oneof![
                prop::collection::vec(any::<u8>(), 0..4),
                prop::sample::select(vec!["\"", "\\", "\n", "//", "/*", "{", "}", ",", "\\u0000", "\u{e9}", "1e9", "\r\n"])
                    .prop_map(|text| text.as_bytes().to_vec()),
            ]),
            1..5,
        ),
    ) {
        let mut bytes = good.as_bytes().to_vec();
        for (at, removed, added) in damage {
            let at = at.index(bytes.len() + 1);
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, added);
        }
        promises::check(&bytes);
    }
}
