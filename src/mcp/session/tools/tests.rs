use super::*;
use crate::{
    config::{Profile, Toolsets, Truncation},
    mcp::tools::tests::settings,
};

fn any() -> Settings {
    Settings {
        profiles: Vec::new(),
        access: Access::Any,
        toolsets: Toolsets {
            terminal: false,
            session: true,
        },
        ..settings(Results::Both)
    }
}

fn approved(ids: &[&str]) -> Settings {
    let profile = |id: &&str| Profile {
        description: Some("A prompt.".to_owned()),
        ..Profile::new(*id, vec!["/bin/true".to_owned()])
    };
    Settings {
        profiles: ids.iter().map(profile).collect(),
        access: Access::Approved,
        ..any()
    }
}

fn listed(settings: &Settings) -> Value {
    serde_json::to_value(list(settings)).unwrap()
}

fn tool<'l>(list: &'l Value, name: &str) -> &'l Value {
    let mut tools = list.as_array().unwrap().iter();
    tools.find(|tool| tool["name"] == name).unwrap()
}

#[test]
fn the_list_stays_small() {
    let tools = list(&any());
    let input: usize = tools
        .iter()
        .map(|tool| {
            let parts = json!([tool.name, tool.description, tool.input_schema]);
            parts.to_string().len()
        })
        .sum();
    let whole = serde_json::to_string(&tools).unwrap().len();
    assert!(
        input <= 7_000,
        "{input} bytes of names, descriptions and input schemas"
    );
    assert!(whole <= 15_000, "{whole} bytes in all");
}

#[test]
fn the_nine_tools_carry_their_hints() {
    let tools = listed(&any());
    let names: Vec<&Value> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(names, NAMES);
    assert!(NAMES.iter().all(|name| has(name)) && !has("terminal_start") && !has("session_"));
    let hint = |name: &str, hint: &str| tool(&tools, name)["annotations"][hint].clone();
    for name in NAMES {
        let reads = [READ, WAIT_FOR, LIST].contains(&name);
        assert_eq!(hint(name, "readOnlyHint"), reads, "{name}");
        assert_eq!(hint(name, "openWorldHint"), true, "{name}");
        let destroys = [SEND, INTERACT, EXEC, CLOSE].contains(&name);
        assert_eq!(hint(name, "destructiveHint") == true, destroys, "{name}");
        assert_eq!(
            tool(&tools, name)["inputSchema"]["additionalProperties"],
            false,
            "{name}"
        );
        assert_eq!(
            tool(&tools, name)["outputSchema"]["type"],
            "object",
            "{name}"
        );
    }
    assert_eq!(
        listed(&approved(&["sh"]))[0]["annotations"]["openWorldHint"],
        false
    );
    let text = tools.to_string();
    for word in ["\"format\"", "$schema", "$ref"] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn where_only_approved_commands_may_be_started_they_are_listed() {
    let tools = listed(&approved(&["python", "sh"]));
    let create = tool(&tools, CREATE);
    assert_eq!(
        create["inputSchema"]["properties"]["command"]["enum"],
        json!(["python", "sh"])
    );
    assert!(
        create["description"]
            .as_str()
            .unwrap()
            .contains("\n- python: A prompt.")
    );
    let exec = &tool(&tools, EXEC)["inputSchema"];
    assert_eq!(
        exec["required"],
        json!(["exec", "command"]),
        "there is no bash to fall back on"
    );
    let tools = listed(&approved(&["bash"]));
    let exec = &tool(&tools, EXEC)["inputSchema"];
    assert_eq!(
        (&exec["required"], &exec["properties"]["command"]["default"]),
        (&json!(["exec"]), &json!("bash"))
    );
    let tools = listed(&any());
    let command = &tool(&tools, CREATE)["inputSchema"]["properties"]["command"];
    assert_eq!(
        (&command["type"], command.get("enum")),
        (&json!("string"), None)
    );
}

#[test]
fn the_owners_settings_are_the_defaults_in_the_schemas() {
    let mut settings = any();
    settings.session.rows = 50;
    settings.session.read_settle_timeout = std::time::Duration::from_millis(500);
    settings.session.truncation = Truncation::HeadTail;
    let tools = listed(&settings);
    let default = |name: &str, argument: &str| {
        tool(&tools, name)["inputSchema"]["properties"][argument]["default"].clone()
    };
    assert_eq!(default(CREATE, "rows"), 50);
    assert_eq!(default(CREATE, "cols"), 80);
    assert_eq!(default(CREATE, "idle_timeout"), 1_800);
    assert_eq!(default(CREATE, "scrollback_lines"), 1_000);
    assert_eq!(default(EXEC, "rows"), 50);
    assert_eq!(default(READ, "timeout"), 0.5);
    assert_eq!(default(READ, "mode"), "auto");
    assert_eq!(default(READ, "truncation"), "head_tail");
    assert_eq!(default(INTERACT, "timeout"), 5.0);
    assert_eq!(default(INTERACT, "read_mode"), "stream");
    assert_eq!(default(WAIT_FOR, "timeout"), 30.0);
    assert_eq!(default(EXEC, "timeout"), 5.0);
    assert_eq!(default(SEND, "press_enter"), true);
    assert_eq!(default(SEND, "confirmed"), false);
}

#[test]
fn text_results_declare_no_output_schema() {
    let settings = Settings {
        results: Results::Text,
        ..any()
    };
    assert!(
        list(&settings)
            .iter()
            .all(|tool| tool.output_schema.is_none())
    );
}
