//! Most tests fill the lists with texts, since only a hub can make a catalog; the last ones go through a real hub.

use std::time::Duration;

use evergate_runtime::{Hub, MemoryConnector, Settings, StateKind};
use evergate_testkit::{MemoryServer, Server};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

/// A server as a test writes it.
#[derive(Default)]
struct Given {
    server: &'static str,
    tools: Vec<&'static str>,
    prompts: Vec<&'static str>,
    resources: Vec<(&'static str, &'static str)>,
    templates: Vec<(&'static str, &'static str)>,
}

fn merge_allowing(naming: &Naming, given: &[Given], allows: &dyn Fn(&str, &str) -> bool) -> Merged {
    let raw = |text: &&'static str| RawJson::from_text(*text).unwrap();
    let mut lists = Lists::default();
    for given in given {
        let server = Arc::from(given.server);
        let named = |texts: &[&'static str]| texts.iter().map(raw).collect::<Vec<_>>();
        let (tools, prompts) = (named(&given.tools), named(&given.prompts));
        let addressed = |items: &[(&'static str, &'static str)]| {
            items.iter().map(|(key, text)| (*key, raw(text))).collect::<Vec<_>>()
        };
        let (resources, templates) = (addressed(&given.resources), addressed(&given.templates));
        lists.tools.add(naming, &server, tools.iter().map(|raw| ("", raw)), allows);
        lists.prompts.add(naming, &server, prompts.iter().map(|raw| ("", raw)), &|_, _| true);
        lists.resources.add(&server, resources.iter().map(|(key, raw)| (*key, raw)));
        lists.resource_templates.add(&server, templates.iter().map(|(key, raw)| (*key, raw)));
    }
    lists.finish()
}

fn merge(naming: &Naming, given: &[Given]) -> Merged {
    merge_allowing(naming, given, &|_, _| true)
}

fn prefix() -> Naming {
    Naming::prefix("__")
}

fn owner(server: &str, own: &str) -> Owner {
    Owner { server: server.into(), own: own.into() }
}

#[test]
fn nothing_offered_is_empty_lists() {
    let merged = merge(&prefix(), &[]);
    for list in [&merged.tools, &merged.prompts, &merged.resources, &merged.resource_templates] {
        assert_eq!(list.as_str(), "[]");
    }
    assert!(merged.excluded.is_empty());
    assert_eq!(merged.tool("x"), None);
    assert_eq!(merged.resource("x"), None);
}

#[test]
fn names_get_prefixes_and_everything_else_stays() {
    let merged = merge(
        &prefix(),
        &[
            Given {
                server: "b",
                tools: vec![r#"{"z":18446744073709551617, "name":"read","description":"read"}"#],
                prompts: vec![r#"{"name":"greet", "x":[1.50]}"#],
                ..Given::default()
            },
            Given { server: "a", tools: vec![r#"{"name":"read"}"#], ..Given::default() },
        ],
    );
    assert_eq!(
        merged.tools.as_str(),
        r#"[{"z":18446744073709551617, "name":"b__read","description":"read"},{"name":"a__read"}]"#
    );
    assert_eq!(merged.prompts.as_str(), r#"[{"name":"b__greet", "x":[1.50]}]"#);
    assert_eq!(merged.tool("b__read"), Some(&owner("b", "read")));
    assert_eq!(merged.tool("a__read"), Some(&owner("a", "read")));
    assert_eq!(merged.tool("read"), None);
    assert_eq!(merged.prompt("b__greet"), Some(&owner("b", "greet")));
    assert_eq!(merged.prompt("b__read"), None);
}

#[test]
fn names_with_escapes_are_routed_by_what_they_mean() {
    let given = Given { server: "s", tools: vec![r#"{"name":"\u00e4\"\\"}"#], ..Given::default() };
    let merged = merge(&prefix(), &[given]);
    assert_eq!(merged.tools.as_str(), r#"[{"name":"s__ä\"\\"}]"#);
    assert_eq!(merged.tool("s__ä\"\\"), Some(&owner("s", "ä\"\\")));
}

#[test]
fn a_long_name_leads_back_to_the_whole_one() {
    let tool = r#"{"name":"a_very_long_name_a_very_long_name_a_very_long_name_a_very_long_name"}"#;
    let merged = merge(&prefix(), &[Given { server: "s", tools: vec![tool], ..Given::default() }]);
    let listed: Vec<Value> = merged.tools.parse().unwrap();
    let public = listed[0]["name"].as_str().unwrap();
    assert_eq!(public.len(), 64);
    assert_eq!(merged.tool(public).unwrap().own.len(), 67);
}

#[test]
fn a_name_that_is_taken_is_left_out_and_reported_once() {
    let merged = merge(
        &Naming::Bare,
        &[
            Given { server: "a", tools: vec![r#"{"name":"x","from":"a"}"#], ..Given::default() },
            Given {
                server: "b",
                tools: vec![r#"{"name":"x"}"#, r#"{"name":"y"}"#, r#"{"name":"x"}"#],
                prompts: vec![r#"{"name":"x"}"#],
                ..Given::default()
            },
        ],
    );
    assert_eq!(merged.tools.as_str(), r#"[{"name":"x","from":"a"},{"name":"y"}]"#);
    assert_eq!(merged.tool("x"), Some(&owner("a", "x")));
    assert_eq!(merged.prompt("x"), Some(&owner("b", "x")));
    assert_eq!(merged.excluded.len(), 1);
    assert_eq!(
        merged.excluded[0].to_string(),
        r#"the tool "x" of server "b" is left out: server "a" offers one too"#
    );
}

#[test]
fn a_server_that_repeats_itself_is_told_so() {
    let tools = vec![r#"{"name":"x","n":1}"#, r#"{"name":"x","n":2}"#];
    let merged = merge(&prefix(), &[Given { server: "a", tools, ..Given::default() }]);
    assert_eq!(merged.tools.as_str(), r#"[{"name":"a__x","n":1}]"#);
    assert_eq!(
        merged.excluded[0].to_string(),
        r#"server "a" lists the tool "a__x" more than once"#
    );
}

#[test]
fn names_that_only_look_alike_collide_too() {
    let merged = merge(
        &prefix(),
        &[
            Given { server: "a", tools: vec![r#"{"name":"b__c"}"#], ..Given::default() },
            Given { server: "a__b", tools: vec![r#"{"name":"c"}"#], ..Given::default() },
        ],
    );
    assert_eq!(merged.tool("a__b__c"), Some(&owner("a", "b__c")));
    assert_eq!(merged.excluded.len(), 1);
}

#[test]
fn refused_tools_are_absent_and_take_no_name() {
    let given = [
        Given {
            server: "a",
            tools: vec![r#"{"name":"x"}"#, r#"{"name":"secret"}"#],
            ..Given::default()
        },
        Given { server: "b", tools: vec![r#"{"name":"x"}"#], ..Given::default() },
    ];
    let merged = merge_allowing(&prefix(), &given, &|own, public| {
        own != "secret" && !public.starts_with("b__")
    });
    assert_eq!(merged.tools.as_str(), r#"[{"name":"a__x"}]"#);
    assert_eq!(merged.tool("a__secret"), None);
    assert_eq!(merged.tool("b__x"), None);
    assert!(merged.excluded.is_empty());
}

#[test]
fn a_tool_without_a_name_is_no_tool() {
    let merged = merge(
        &prefix(),
        &[Given { server: "a", tools: vec![r#"{"uri":"x"}"#], ..Given::default() }],
    );
    assert_eq!(merged.tools.as_str(), "[]");
}

#[test]
fn resources_keep_their_addresses_and_belong_to_the_first() {
    let merged = merge(
        &prefix(),
        &[
            Given {
                server: "a",
                resources: vec![("f://1", r#"{"uri":"f://1","name":"n"}"#)],
                ..Given::default()
            },
            Given {
                server: "b",
                resources: vec![("f://1", r#"{"uri":"f://1"}"#), ("f://2", r#"{"uri":"f://2"}"#)],
                ..Given::default()
            },
        ],
    );
    assert_eq!(merged.resources.as_str(), r#"[{"uri":"f://1","name":"n"},{"uri":"f://2"}]"#);
    assert_eq!(merged.resource("f://1").unwrap().as_ref(), "a");
    assert_eq!(merged.resource("f://2").unwrap().as_ref(), "b");
    let lost = &merged.excluded[0];
    assert_eq!((lost.kind, lost.server.as_ref(), lost.lost_to.as_ref()), ("resource", "b", "a"));
}

#[test]
fn the_best_template_owns_what_nobody_listed() {
    let template = |server, uri| Given { server, templates: vec![(uri, "{}")], ..Given::default() };
    let merged = merge(
        &prefix(),
        &[
            template("all", "f://{+path}"),
            template("docs", "f://docs/{name}"),
            template("same", "f://docs/{other}"),
            Given { server: "exact", resources: vec![("f://docs/7", "{}")], ..Given::default() },
            template("late", "f://{+path}"),
        ],
    );
    let owner = |uri| merged.resource(uri).map(AsRef::as_ref);
    assert_eq!(owner("f://docs/7"), Some("exact"));
    assert_eq!(owner("f://docs/8"), Some("docs"), "the first of two equals");
    assert_eq!(owner("f://docs/8/9"), Some("all"));
    assert_eq!(owner("g://docs/8"), None);
    assert_eq!(merged.template("f://{+path}").map(AsRef::as_ref), Some("all"));
    assert_eq!(merged.template("f://{x}"), None);
    assert_eq!(merged.excluded.len(), 1);
    assert_eq!(merged.excluded[0].kind, "resource template");
}

#[test]
fn digests_change_with_the_content_and_not_with_the_order() {
    let given = |tools, prompts, resources, templates| {
        let given = Given { server: "a", tools, prompts, resources, templates };
        merge(&prefix(), &[given]).digests
    };
    let (x, y) = (r#"{"name":"x"}"#, r#"{"name":"y"}"#);
    let one = given(vec![x, y], vec![x], vec![("u", "{}")], vec![]);
    assert_eq!(one, given(vec![y, x], vec![x], vec![("u", "{}")], vec![]));
    let more_tools = given(vec![x], vec![x], vec![("u", "{}")], vec![]);
    assert_ne!(one.tools, more_tools.tools);
    assert_eq!((one.prompts, one.resources), (more_tools.prompts, more_tools.resources));
    let other_prompts = given(vec![x, y], vec![y], vec![("u", "{}")], vec![]);
    assert_eq!(one.tools, other_prompts.tools);
    assert_ne!(one.prompts, other_prompts.prompts);
    let as_template = given(vec![x, y], vec![x], vec![], vec![("u", "{}")]);
    assert_ne!(one.resources, as_template.resources);
}

async fn catalog(tools: Vec<Value>) -> Arc<ServerCatalog> {
    let server = Server::new();
    server.set_tools(tools);
    let memory = MemoryServer::new(server);
    let settings = Settings::memory(MemoryConnector::new(move || memory.connect()));
    let hub = Hub::builder().server("s", settings).start().unwrap();
    let handle = hub.server("s").unwrap();
    let patience = Duration::from_secs(60);
    handle.wait_until(patience, |status| status.state == StateKind::Connected).await.unwrap();
    let mut catalogs = hub.watch_catalog();
    let seen = catalogs.wait_for(|catalog| catalog.server("s").is_some()).await.unwrap();
    let catalog = seen.server("s").unwrap().clone();
    drop(seen);
    hub.shutdown(patience).await;
    catalog
}

#[tokio::test]
async fn a_real_catalog_is_merged_list_by_list() {
    let catalog = catalog(vec![json!({ "name": "only", "inputSchema": {} })]).await;
    let all = |_: &str, _: &str| true;
    let offer = Offer { server: "files", catalog: &catalog, allows_tool: &all };
    let merged = Merged::build(&prefix(), std::slice::from_ref(&offer));
    assert_eq!(merged.tool("files__only"), Some(&owner("files", "only")));
    assert_eq!(merged.prompt("files__greet"), Some(&owner("files", "greet")));
    assert_eq!(merged.resource("test://a").unwrap().as_ref(), "files");
    assert_eq!(merged.resource("test://never-listed").unwrap().as_ref(), "files");
    assert_eq!(merged.template("test://{name}").unwrap().as_ref(), "files");

    let bare = Merged::build(&Naming::Bare, std::slice::from_ref(&offer));
    assert_eq!(bare.tool("only"), Some(&owner("files", "only")));
    assert_eq!(bare.tools.as_bytes(), [b"[", catalog.tools[0].raw.as_bytes(), b"]"].concat());
}

/// Four times what is promised, so that a loop over all tools for each tool shows: without optimization this takes about
/// 0.3 s, and with such a loop 25 s.
#[tokio::test]
async fn the_work_grows_no_faster_than_the_number_of_tools() {
    let tools = (0..50).map(|n| json!({ "name": format!("tool_{n}"), "inputSchema": {} }));
    let catalog = catalog(tools.collect()).await;
    let names: Vec<String> = (0..800).map(|n| format!("server_{n}")).collect();
    let all = |_: &str, _: &str| true;
    let offers: Vec<Offer<'_>> =
        names.iter().map(|server| Offer { server, catalog: &catalog, allows_tool: &all }).collect();
    let start = Instant::now();
    let merged = Merged::build(&prefix(), &offers);
    let took = start.elapsed();
    assert_eq!(merged.tools.parse::<Vec<Value>>().unwrap().len(), 40_000);
    assert_eq!(merged.tool("server_799__tool_49"), Some(&owner("server_799", "tool_49")));
    assert!(took < Duration::from_secs(5), "{took:?}");
}
