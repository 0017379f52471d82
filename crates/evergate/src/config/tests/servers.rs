//! Entries of `mcpServers`: tools, isolation, tokens, limits, and what a change of them means.

use std::time::Duration;

use evergate_runtime::Replay;

use super::*;

fn server(entry: &Value) -> Server {
    let config = read(&json!({ "mcpServers": { "a": entry } }), &environment);
    assert!(!config.has_errors(), "{:?}", config.findings);
    config.servers["a"].clone()
}

fn said(entry: &Value) -> String {
    findings(&json!({ "mcpServers": { "a": entry } }))
}

#[test]
fn tools_are_filtered_by_patterns() {
    let rules = |tools: Value| server(&json!({ "command": "x", "tools": tools })).tools;
    let all = rules(Value::Null);
    assert!(all.allows("anything") && all.summary().is_none());
    assert!(rules(json!(["*"])).allows("anything"));
    let listed = rules(json!(["get_*", "find?"]));
    let allowed = ["get_", "get_x", "find1"].map(|tool| listed.allows(tool));
    assert_eq!(allowed, [true; 3]);
    let refused = ["Get_x", "find", "find12", "xget_"].map(|tool| listed.allows(tool));
    assert_eq!(refused, [false; 4]);
    let both = rules(json!({ "allow": ["get_*"], "deny": ["*_secret"] }));
    assert!(both.allows("get_x") && !both.allows("get_secret") && !both.allows("put_x"));
    assert_eq!(both.summary().as_deref(), Some("only get_*; not *_secret"));
    assert!(!rules(json!([])).allows("x"));
    assert!(said(&json!({ "command": "x", "tools": [] })).contains("allows no tool at all"));
}

#[test]
fn the_address_of_a_server_may_have_the_name_that_gemini_gives_it() {
    let entry = json!({ "httpUrl": "https://h.example/mcp?key=x", "headers": { "a": "b" } });
    assert_eq!(server(&entry).summary, "http: https://h.example/mcp");
    assert_ne!(
        server(&entry).connection_digest,
        server(&json!({ "httpUrl": "https://i.example/", "headers": { "a": "b" } }))
            .connection_digest
    );
    let both = json!({ "httpUrl": "https://h.example/mcp", "url": "https://h.example/sse" });
    assert_eq!(server(&both).summary, "http: https://h.example/mcp");
    assert!(said(&both).contains("url: has no effect beside httpUrl"), "{}", said(&both));
    assert!(said(&json!({ "httpUrl": "http://h/", "command": "x" })).contains("has both"));
}

#[test]
fn the_lists_of_other_clients_are_obeyed_with_a_note() {
    let entry = json!({ "command": "x", "includeTools": ["a*"], "excludeTools": ["ab"], "disabledTools": ["ac"] });
    let tools = server(&entry).tools;
    assert_eq!(["a", "ab", "ac", "b"].map(|tool| tools.allows(tool)), [true, false, false, false]);
    insta::assert_snapshot!(said(&entry), @"
    note: mcpServers.a.includeTools: was understood as tools.allow
    note: mcpServers.a.excludeTools: was understood as tools.deny
    note: mcpServers.a.disabledTools: was understood as tools.deny
    ");
    let twice = said(&json!({ "command": "x", "tools": ["a"], "includeTools": ["b"] }));
    assert!(twice.starts_with("warning: mcpServers.a.includeTools: has no effect"), "{twice}");
}

#[test]
fn the_more_specific_override_wins_for_each_setting() {
    let tools = server(&json!({ "command": "x", "tools": { "overrides": {
        "*": { "timeout": "1s", "hold": "2s", "replay": "never" },
        "report*": { "timeout": "3s", "max_timeout": "4s" },
        "report": { "replay": "always" },
    } } }))
    .tools;
    let found = tools.overrides_for("report");
    let seconds = |n| Some(Duration::from_secs(n));
    assert_eq!(
        (found.timeout, found.max_timeout, found.hold),
        (seconds(3), seconds(4), seconds(2))
    );
    assert_eq!(found.replay, Some(Replay::Always));
    assert_eq!(tools.overrides_for("other").timeout, seconds(1));
    assert_eq!(
        ToolRules::default().overrides_for("x"),
        crate::config::tools::ToolOverride::default()
    );
}

#[test]
fn every_mistake_in_an_entry_is_reported() {
    let document = json!({ "mcpServers": {
        "child": { "command": "x", "headers_from_client": ["x-a"], "bearer_token_file": "t", "isolation": "mine" },
        "remote": {
            "url": "http://h/", "headers": { "Authorization": "x" }, "bearer_token_file": "t",
            "headers_from_client": ["Host", "mcp-session-id", "a b", "authorization"],
            "tools": { "alow": [], "deny": ["", 1], "overrides": { "x": { "timeout": "2s", "max_timeout": "1s", "retry": 1 }, "y": 1 } },
        },
        "limits": { "command": "x", "hold": "1s", "max_timeout": "1h", "tools": "x", "lifecycle": {
            "hold": "1s", "max_timeout": "1h", "max_in_flight": 0, "max_held": 0, "max_subscriptions": 0,
            "max_message_bytes": 0, "failure_threshold": 0, "refresh_every": "0s", "header_timeout": "0s",
            "cooldown": { "initial": "2s", "max": "1s", "jitter": 1 },
        } },
    } });
    insta::assert_snapshot!(findings(&document));
}

/// The settings keep their values to themselves; what they refuse shows that they were given them.
#[test]
fn limits_may_be_chosen() {
    let entry = json!({ "command": "x", "hold": "3s", "timeout": "4s", "max_timeout": "5s", "lifecycle": {
        "max_in_flight": 1, "max_held": 2, "max_subscriptions": 3, "max_message_bytes": "1KiB", "failure_threshold": 4,
        "refresh_every": "never", "header_timeout": "1s", "cooldown": { "initial": "1s", "max": "2s" },
    } });
    assert_eq!(said(&entry), "");
    let shown = format!("{:?}", server(&entry).settings);
    assert!(shown.contains("timeout: 4s, max_timeout: 5s, hold: 3s"), "{shown}");
    let too_long = json!({ "command": "x", "lifecycle": {
        "refresh_every": "400d", "header_timeout": "400d", "cooldown": { "max": "400d" },
    } });
    insta::assert_snapshot!(said(&too_long), @"
    error: mcpServers.a.lifecycle.header_timeout: must not be more than a year
    error: mcpServers.a.lifecycle.refresh_every: must not be more than a year
    error: mcpServers.a.lifecycle.cooldown: must not be more than a year
    ");
}

#[test]
fn the_gateways_limit_for_results_is_every_servers() {
    let document =
        json!({ "mcpServers": { "a": { "command": "x" } }, "gateway": { "max_result_bytes": 0 } });
    assert!(findings(&document).contains("mcpServers.a.max_message_bytes: must be at least 1"));
    let own = json!({ "command": "x", "lifecycle": { "max_message_bytes": 1 } });
    let document = json!({ "mcpServers": { "a": own }, "gateway": { "max_result_bytes": 0 } });
    assert!(!findings(&document).contains("mcpServers.a"));
}

/// What is to be written to a folder must arrive first.
#[test]
fn with_a_folder_for_large_results_the_limit_for_results_is_not_the_servers() {
    let digest = |gateway: Value| {
        let document = json!({ "mcpServers": { "a": { "command": "x" } }, "gateway": gateway });
        let config = read(&document, &environment);
        (config.gateway.max_message_bytes(), config.servers["a"].connection_digest.clone())
    };
    let (without, with) = (digest(json!({})), digest(json!({ "payload_dir": "out" })));
    assert_eq!((without.0, with.0), (16 << 20, 256 << 20));
    assert_ne!(without.1, with.1, "the connection is made anew for it");
    let larger = digest(json!({ "payload_dir": "out", "max_result_bytes": "1GiB" }));
    assert_eq!(larger.0, 1 << 30);
}

#[test]
fn an_entry_that_leads_nowhere_has_its_other_mistakes_reported_too() {
    let mistakes = json!({
        "timeout": "soon", "hold": 45, "lifecycle": { "max_in_flight": 0, "restrat": "never" }, "comand": "x",
    });
    let entry = |target: Value| {
        let mut entry = mistakes.clone();
        entry.as_object_mut().unwrap().extend(target.as_object().unwrap().clone());
        said(&entry)
    };
    let both = entry(json!({ "command": "x", "url": "ftp://h/", "headers": { "a b": "c" } }));
    let neither = entry(json!({}));
    let unsure = entry(json!({ "type": "stdio", "url": "http://h/" }));
    for said in [&both, &neither, &unsure] {
        for key in ["timeout", "hold", "lifecycle.max_in_flight", "lifecycle.restrat", "comand"] {
            assert!(said.contains(&format!("mcpServers.a.{key}: ")), "{key}: {said}");
        }
    }
    assert!(both.contains("mcpServers.a.url: ") && both.contains("\"a b\""), "{both}");
    assert!(neither.contains("45 has no unit: write a text such as \"45s\""), "{neither}");
    assert!(!neither.contains("none"), "{neither}");
}

#[test]
fn required_is_what_the_entry_says_or_else_its_profile() {
    let rows = [
        (json!({}), false),
        (json!({ "required": true }), true),
        (json!({ "lifecycle": { "profile": "strict" } }), true),
        (json!({ "required": false, "lifecycle": { "profile": "strict" } }), false),
        (json!({ "required": true, "lifecycle": { "profile": "best-effort" } }), true),
    ];
    for (mut entry, expected) in rows {
        entry["command"] = json!("x");
        let server = server(&entry);
        assert_eq!(server.required, expected, "{entry}");
        assert!(
            format!("{:?}", server.settings).contains(&format!("required: {expected}")),
            "{entry}"
        );
    }
}

#[test]
fn a_token_file_may_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let entry = json!({ "url": "http://h/", "bearer_token_file": &file });
    assert!(
        said(&entry)
            .starts_with("warning: mcpServers.a.bearer_token_file: there is no such file yet")
    );
    assert_eq!(server(&entry).bearer_token_file, Some(file));
    let relative = json!({ "url": "http://h/", "bearer_token_file": "token" });
    let path = super::servers::server(&relative).bearer_token_file;
    assert_eq!(path, Some(PathBuf::from("/etc/evergate/token")));
}

#[test]
fn headers_of_the_client_are_forwarded_if_they_may_be() {
    let entry =
        json!({ "url": "http://h/", "headers_from_client": ["X-User", "x-user", "Authorization"] });
    assert_eq!(server(&entry).headers_from_client, ["x-user", "authorization"]);
    let keys = json!([{ "name": "a", "key": "0123456789abcdef" }]);
    let document = json!({ "mcpServers": { "a": entry }, "gateway": { "auth": { "keys": keys } } });
    assert_eq!(
        findings(&document),
        "warning: mcpServers.a.headers_from_client[2]: a client that shows its gateway key in authorization would hand it to this server"
    );
}

#[test]
fn only_what_concerns_the_connection_changes_its_digest() {
    let base = json!({ "url": "http://h/", "headers": { "a": "${TOKEN}", "b": "x" } });
    let digest = |change: &Value| {
        let mut entry = base.clone();
        entry.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        server(&entry).connection_digest
    };
    let unchanged = digest(&json!({}));
    assert_eq!(unchanged.len(), 64);
    let same = [
        json!({ "tools": ["a"], "isolation": "per_client", "headers_from_client": ["x-a"], "disabled": true }),
        json!({ "required": true, "description": "x", "unknown": 1, "enabled": false }),
        json!({ "headers": { "b": "x", "a": "hunter2" } }),
    ];
    for change in same {
        assert_eq!(digest(&change), unchanged, "{change}");
    }
    let other = [
        json!({ "url": "http://h/2" }),
        json!({ "headers": { "a": "hunter3", "b": "x" } }),
        json!({ "timeout": "2s" }),
        json!({ "lifecycle": { "max_held": 1 } }),
    ];
    for change in other {
        assert_ne!(digest(&change), unchanged, "{change}");
    }
}

#[test]
fn awkward_names_are_named() {
    let document = json!({ "mcpServers": { "my__server": { "command": "x" } } });
    assert_eq!(
        findings(&document),
        "warning: mcpServers.my__server: contains the separator \"__\": the names of its tools will be awkward"
    );
    let document = json!({ "mcpServers": { "my__server": { "command": "x" } }, "gateway": { "separator": "." } });
    assert_eq!(findings(&document), "");
}

#[test]
fn rate_limits_of_a_server_are_a_count_and_a_pause() {
    let said = |limit: Value| {
        said(&json!({ "command": "x", "lifecycle": { "rate_limit": limit } }))
            .replace("mcpServers.a.lifecycle.rate_limit", "")
    };
    for fine in [json!({}), json!({ "threshold": 0 }), json!({ "threshold": 5, "pause": "2m" })] {
        assert_eq!(said(fine.clone()), "", "{fine}");
    }
    assert_eq!(said(json!({ "threshold": -1 })), "error: .threshold: must be 0 (never) or more");
    assert_eq!(said(json!({ "pause": "0s" })), "error: .pause: must be more than zero");
    assert!(said(json!({ "pauze": "1s" })).contains("pauze"));
}
