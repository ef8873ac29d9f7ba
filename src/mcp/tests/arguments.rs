//! Random arguments of every tool, against a naive checker of the schemas that the server publishes.

use std::{cell::RefCell, collections::BTreeSet};

use proptest::{
    prelude::*,
    test_runner::{Config as Cases, TestRunner},
};

use super::*;
use crate::config::schema_twin;
use crate::text::pattern::Pattern;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-5_i32..5_000).prop_map(|n| json!(f64::from(n))),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-z]{1,4}", inner), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A value for an argument of this schema: within it, at its bounds, just beyond them, or anything.
fn value_of(schema: &Value) -> BoxedStrategy<Value> {
    let near = match schema["type"].as_str() {
        _ if schema["enum"].is_array() => {
            let mut words: Vec<Value> = schema["enum"].as_array().unwrap().clone();
            words.extend([json!("none of them"), json!("")]);
            prop::sample::select(words).boxed()
        }
        Some("integer") => {
            let [least, most] = ["minimum", "maximum"].map(|bound| schema[bound].as_u64().unwrap());
            let mut edges = vec![
                json!(least),
                json!(most),
                json!(most + 1),
                json!(least + 1),
                json!(most as f64),
            ];
            edges.push(json!(i128::from(least) as i64 - 1));
            prop_oneof![
                prop::sample::select(edges),
                (least..=most).prop_map(Value::from)
            ]
            .boxed()
        }
        Some("number") => {
            let (least, most) = (&schema["minimum"], &schema["maximum"]);
            let edges = [
                least.clone(),
                most.clone(),
                json!(0.25),
                json!(-0.25),
                json!(3_600.25),
                json!(7),
            ];
            prop::sample::select(edges.to_vec()).boxed()
        }
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("string") if schema["pattern"].is_string() => {
            let signs = [
                "c", "Z", "[", "\\", "]", "^", "_", "@", "?", "1", "", "cc", "\u{e9}",
            ];
            let signs = signs.map(Value::from);
            prop::sample::select(signs.to_vec()).boxed()
        }
        Some("string") => "(/usr|\\PC{0,20}|a\\x00b)".prop_map(Value::from).boxed(),
        Some("object") if schema["properties"].is_object() => arguments_of(schema),
        Some("object") => {
            let names = prop_oneof!["[A-Z]{1,3}", "\\PC{0,3}"];
            let values = prop_oneof![9 => "\\PC{0,4}".prop_map(Value::from), 1 => any_value()];
            prop::collection::vec((names, values), 0..36)
                .prop_map(|members| Value::Object(members.into_iter().collect()))
                .boxed()
        }
        None if schema["oneOf"].is_array() => {
            let choices = schema["oneOf"].as_array().unwrap();
            let members = choices
                .iter()
                .filter_map(|choice| choice["properties"].as_object());
            let object = members.flatten().map(|(name, member)| {
                let name = name.clone();
                let object = move |value| json!({ (name.clone()): value });
                value_of(member).prop_map(object).boxed()
            });
            let words = choices
                .iter()
                .filter(|choice| choice["enum"].is_array())
                .map(value_of);
            prop::strategy::Union::new(words.chain(object)).boxed()
        }
        other => panic!("an argument of type {other:?}"),
    };
    prop_oneof![8 => near, 1 => any_value()].boxed()
}

/// Arguments for a tool of this schema: most of them near the mark.
fn arguments_of(schema: &Value) -> BoxedStrategy<Value> {
    let properties = schema["properties"].as_object().unwrap();
    let required = required(schema);
    let members: Vec<_> = properties
        .iter()
        .map(|(name, property)| {
            let present = if required.contains(&json!(name)) {
                0.95
            } else {
                0.5
            };
            let name = name.clone();
            let value = value_of(property).prop_map(move |value| (name.clone(), value));
            prop::option::weighted(present, value)
        })
        .collect();
    let stray = prop::option::weighted(0.1, ("[a-z_]{1,9}", any_value()));
    let object = (members, stray).prop_map(|(members, stray)| {
        let members = members.into_iter().flatten().chain(stray);
        Value::Object(members.collect())
    });
    prop_oneof![30 => object, 1 => any_value()].boxed()
}

/// Names that the schema requires; a tool may require none.
fn required(schema: &Value) -> &[Value] {
    schema["required"].as_array().map_or(&[], Vec::as_slice)
}

/// Arguments that the schema faults: ill-formed, unknown or missing ones.
fn faults(schema: &Value, arguments: &Value) -> BTreeSet<String> {
    let Some(members) = arguments.as_object() else {
        return BTreeSet::new();
    };
    let properties = schema["properties"].as_object().unwrap();
    let bad = members.iter().filter(|(name, value)| {
        let property = properties.get(*name);
        property.is_none_or(|property| schema_twin::check(property, value).is_err())
    });
    let missing = required(schema)
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| !members.contains_key(*name));
    bad.map(|(name, _)| name.clone())
        .chain(missing.map(str::to_owned))
        .collect()
}

/// Whether the schema admits a number that isn't written as an integer: JSON Schema takes 5.0 for 5, the server doesn't.
fn has_spelled_out_integer(arguments: &Value) -> bool {
    match arguments {
        Value::Object(members) => members.values().any(has_spelled_out_integer),
        value => value.is_f64(),
    }
}

/// Faults of a start that have a code of their own, which says more.
fn own_code(name: &str, value: &Value) -> Option<&'static str> {
    match (name, value) {
        ("command_id", Value::String(id)) if (1..=128).contains(&id.chars().count()) => {
            Some("COMMAND_NOT_FOUND")
        }
        ("env", Value::Object(env)) if env.len() > 32 && env.values().all(Value::is_string) => {
            Some("ENV_NOT_ALLOWED")
        }
        _ => None,
    }
}

/// Whether arguments that are each good by themselves can't stand together, which no schema says.
fn is_contradictory(tool: &str, arguments: &Value) -> bool {
    if tool != "terminal_read" {
        return false;
    }
    let given = |name: &str| arguments.get(name).is_some();
    let until = &arguments["until"];
    let pattern = until["pattern"].as_str();
    let plain = arguments["view"] == "plain"
        && (arguments["records"] == "code_points" || pattern.is_some());
    if given("find") {
        let other = ["until", "from"].into_iter().any(given)
            || arguments["view"] == "plain"
            || arguments["records"] == "code_points"
            || arguments["wait_ms"].as_u64() > Some(0);
        let pattern = arguments["find"]["pattern"].as_str();
        let is_one = |pattern| Pattern::new(pattern, false).is_ok();
        return other || !pattern.is_some_and(is_one);
    }
    let for_a_record = !given("until") || until == "record";
    let long = for_a_record && arguments["wait_ms"].as_u64() > Some(2_000);
    let two_places = given("from") && given("cursor");
    let no_pattern = pattern.is_some_and(|pattern| Pattern::new(pattern, false).is_err());
    plain || long || two_places || no_pattern
}

fn judge(
    tool: &str,
    schema: &Value,
    arguments: &Value,
    result: &Value,
) -> Result<(), TestCaseError> {
    let body = &result["structuredContent"];
    let code = body["error"]["code"].as_str().unwrap_or("none");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    let told = format!("{tool} {arguments}: {body}");
    prop_assert!(!message.contains(char::is_control), "{}", told);
    if arguments.is_null() {
        // As if they had been left out.
        return judge(tool, schema, &json!({}), result);
    }
    let faults = faults(schema, arguments);
    let accepted = schema_twin::check(schema, arguments).is_ok();
    prop_assert_eq!(accepted, arguments.is_object() && faults.is_empty());
    if accepted {
        let refused = code == "INVALID_ARGUMENT";
        if !has_spelled_out_integer(arguments) {
            prop_assert_eq!(refused, is_contradictory(tool, arguments), "{}", told);
        }
        return Ok(());
    }
    let own: Vec<_> = faults
        .iter()
        .map(|name| own_code(name, &arguments[name]))
        .collect();
    if arguments.is_object() && !own.is_empty() && own.iter().all(Option::is_some) {
        let strict = code == "INVALID_ARGUMENT" && has_spelled_out_integer(arguments);
        prop_assert!(strict || own.contains(&Some(code)), "{}", told);
        return Ok(());
    }
    prop_assert_eq!(code, "INVALID_ARGUMENT", "{}", told);
    let named = faults
        .iter()
        .any(|name| message.contains(&format!("`{name}")));
    let named = named || (has_spelled_out_integer(arguments) && message.contains('`'));
    prop_assert!(
        named || !arguments.is_object(),
        "names none of {:?}: {}",
        faults,
        told
    );
    Ok(())
}

/// Whether a session tool takes only one of the arguments that are given, or a text with a NUL.
fn is_too_much(arguments: &Value) -> bool {
    let typed = ["input", "control_char", "key", "password"];
    let given = typed.iter().filter(|name| arguments.get(**name).is_some());
    let exec = arguments["exec"].as_str();
    given.count() > 1 || exec.is_some_and(|exec| exec.contains('\0'))
}

fn judge_session(
    tool: &str,
    schema: &Value,
    arguments: &Value,
    result: &Value,
) -> Result<(), TestCaseError> {
    let body = &result["structuredContent"];
    let kind = body["error"]["type"].as_str().unwrap_or("none");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    let told = format!("{tool} {arguments}: {body}");
    prop_assert!(body["success"].is_boolean(), "{}", told);
    prop_assert!(!message.contains(char::is_control), "{}", told);
    if let Some(secret) = arguments["password"].as_str()
        && secret.len() > 3
    {
        prop_assert!(!message.contains(secret), "{}", told);
    }
    if arguments.is_null() {
        return judge_session(tool, schema, &json!({}), result);
    }
    let faults = faults(schema, arguments);
    if arguments.is_object() && faults.is_empty() {
        // There is no such session, and no program behind a command.
        if !has_spelled_out_integer(arguments) {
            prop_assert_eq!(
                kind == "validation_error",
                is_too_much(arguments),
                "{}",
                told
            );
        }
        return Ok(());
    }
    prop_assert_eq!(kind, "validation_error", "{}", told);
    let named = faults
        .iter()
        .any(|name| message.contains(&format!("`{name}`")));
    let other = has_spelled_out_integer(arguments) || is_too_much(arguments);
    let named = named || (other && message.contains('`'));
    prop_assert!(
        named || !arguments.is_object(),
        "names none of {:?}: {}",
        faults,
        told
    );
    Ok(())
}

#[test]
fn what_the_schema_refuses_the_server_refuses_by_name_and_nothing_else() {
    let mut settings = tools::tests::settings(Results::Both);
    settings.toolsets.session = true;
    let mut client = Client::of(settings);
    client.send(initialize("2025-06-18"));
    client.receive();
    client.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
    let tools = client.receive()["result"]["tools"].clone();
    let client = RefCell::new(client);
    for tool in tools.as_array().unwrap() {
        let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
        let mut runner = TestRunner::new(Cases::with_cases(400));
        let ran = runner.run(&arguments_of(schema), |arguments| {
            let mut client = client.borrow_mut();
            client.call(7, name, arguments.clone());
            let reply = client.receive();
            prop_assert_eq!(&reply["id"], 7, "{}", reply);
            let judge = if name.starts_with("session_") {
                judge_session
            } else {
                judge
            };
            judge(name, schema, &arguments, &reply["result"])
        });
        ran.unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
    assert_eq!(client.into_inner().close(), Ended::InputEnded);
}
