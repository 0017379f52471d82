//! Prometheus scrapes the gateway, with the scrape job and the alerts in `deploy/`, and is asked everything the dashboard
//! asks.

use std::future::IntoFuture as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use evergate_peers::{PATIENCE, Peer, free_port, prometheus_program};
use evergate_runtime::{Hub, ServerHandle, Settings};
use evergate_testkit::{HttpServer, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;
use url::form_urlencoded::byte_serialize;

use crate::support::{Gateway, until};

const SCRAPER: &str = "a-key-for-scrapers-only";
const AGENT: &str = "a-key-for-agents-only";

/// One that was started for a test.
struct Prometheus {
    port: u16,
    _folder: TempDir,
    _process: Peer,
}

// === impl Prometheus ===

impl Prometheus {
    /// With the files in `deploy/`, in which only addresses and times are others.
    async fn start(gateway: &Gateway) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("key"), SCRAPER).unwrap();
        let address = gateway.url().trim_start_matches("http://").trim_end_matches("/mcp");
        let job = deployed("scrape.yml")
            .replace("/etc/prometheus/evergate-metrics-key", at("key").to_str().unwrap())
            .replace("127.0.0.1:8080", address)
            .replace("scrape_interval: 15s", "scrape_interval: 250ms\n    scrape_timeout: 250ms");
        let config =
            format!("global:\n  evaluation_interval: 250ms\nrule_files: [alerts.yml]\n{job}");
        std::fs::write(at("prometheus.yml"), config).unwrap();
        std::fs::write(at("alerts.yml"), sooner(&deployed("alerts.yml"))).unwrap();
        let checked = promtool(&["check", "config", at("prometheus.yml").to_str().unwrap()]).await;
        assert!(checked.status.success(), "{checked:?}");
        let port = free_port();
        let mut command = Command::new(prometheus_program("prometheus"));
        command
            .arg(format!("--config.file={}", at("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", at("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let prometheus = Self { port, _process: Peer::start(command), _folder: folder };
        until("prometheus is ready", async || prometheus.get("/-/ready").await.is_some()).await;
        prometheus
    }

    /// The body of what it answers with success.
    async fn get(&self, path: &str) -> Option<String> {
        get(self.port, path, "").await
    }

    async fn api(&self, path: &str) -> Value {
        let answer = self.get(&format!("/api/v1/{path}")).await;
        let answer = answer.unwrap_or_else(|| panic!("prometheus refuses {path}"));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"].clone()
    }

    /// What a query finds: each series' labels and value.
    async fn query(&self, expr: &str) -> Vec<(Value, f64)> {
        let expr: String = byte_serialize(expr.as_bytes()).collect();
        let found = self.api(&format!("query?query={expr}")).await;
        let value = |one: &Value| one["value"][1].as_str().unwrap().parse().unwrap();
        let series = found["result"].as_array().unwrap().iter();
        series.map(|one| (one["metric"].clone(), value(one))).collect()
    }

    /// The value of the one series there is.
    async fn value(&self, expr: &str) -> Option<f64> {
        let found = self.query(expr).await;
        assert!(found.len() <= 1, "{found:?}");
        found.first().map(|(_, value)| *value)
    }

    async fn until(&self, expr: &str, is_so: impl Fn(f64) -> bool) {
        until(expr, async || self.value(expr).await.is_some_and(&is_so)).await;
    }

    /// The servers for which an alert fires.
    async fn firing(&self, alert: &str) -> Vec<Value> {
        let alerts = self.api("alerts").await["alerts"].as_array().unwrap().clone();
        let fires = |one: &&Value| one["state"] == "firing" && one["labels"]["alertname"] == alert;
        alerts.iter().filter(fires).cloned().collect()
    }
}

fn deployed(name: &str) -> String {
    std::fs::read_to_string(deploy().join("prometheus").join(name)).unwrap()
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// The same rules for people in a hurry: whatever has lasted for minutes there has to last for a second.
fn sooner(rules: &str) -> String {
    let lines = rules.lines().map(|line| match line.trim_start().strip_prefix("for: ") {
        Some(time) => line.replace(time, "1s"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn exactly(wanted: f64) -> impl Fn(f64) -> bool {
    move |value| (value - wanted).abs() < 0.001
}

async fn promtool(args: &[&str]) -> Output {
    Command::new(prometheus_program("promtool")).args(args).output().await.unwrap()
}

/// One GET; `None` unless it succeeds.
async fn get(port: u16, path: &str, headers: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("no answer").ok()?;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if !head.starts_with("HTTP/1.1 200") {
        return None;
    }
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Some(if is_chunked { unchunked(body) } else { body.to_owned() })
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

async fn two_servers() -> (HttpServer, HttpServer, Gateway) {
    let (docs, files) =
        (HttpServer::start(Server::new()).await, HttpServer::start(Server::new()).await);
    let lifecycle = json!({ "backoff": { "initial": "50ms", "max": "200ms" }, "max_attempts": -1 });
    let entry = |server: &HttpServer| json!({ "url": server.url(), "lifecycle": lifecycle });
    let config = json!({
        "mcpServers": { "docs": entry(&docs), "files": entry(&files) },
        "gateway": { "auth": { "keys": [
            { "name": "agent", "key": AGENT },
            { "name": "scraper", "key": SCRAPER, "scopes": ["metrics"] },
        ]}},
    });
    let gateway = Gateway::configured(&config).await;
    (docs, files, gateway)
}

fn client_of(gateway: &Gateway) -> (Hub, ServerHandle) {
    let settings = Settings::http(gateway.url()).header("authorization", format!("Bearer {AGENT}"));
    let hub = Hub::builder().server("gateway", settings).start().unwrap();
    let handle = hub.server("gateway").unwrap();
    (hub, handle)
}

#[tokio::test]
#[ignore = "needs prometheus; ./scripts/test runs it"]
async fn prometheus_sees_a_server_die_and_recover_and_says_so() {
    let (docs, _files, gateway) = two_servers().await;
    let prometheus = Prometheus::start(&gateway).await;
    let (hub, client) = client_of(&gateway);
    for tool in ["docs__bump", "docs__bump", "files__bump"] {
        client.call_tool(tool, json!({})).await.unwrap();
    }
    prometheus.until(r#"up{job="evergate"}"#, exactly(1.0)).await;
    prometheus.until(r#"sum(evergate_calls_total{outcome="answered"})"#, exactly(3.0)).await;
    let connected = r#"evergate_server_state{server="docs",state="connected"}"#;
    prometheus.until(connected, exactly(1.0)).await;
    // A family is called without the ending of its samples only in OpenMetrics, which alone knows units.
    let known = prometheus.api("targets/metadata?metric=evergate_server_state_seconds").await;
    assert_eq!((&known[0]["type"], &known[0]["unit"]), (&json!("counter"), &json!("seconds")));

    docs.kill().await;
    let meanwhile = async {
        until("the alert fires", async || {
            !prometheus.firing("EvergateServerDown").await.is_empty()
        })
        .await;
        let alerts = prometheus.firing("EvergateServerDown").await;
        assert_eq!(alerts.len(), 1, "only one is down: {alerts:?}");
        assert_eq!(alerts[0]["labels"]["server"], "docs");
        let why = alerts[0]["annotations"]["description"].as_str().unwrap();
        assert!(why.contains("Why: transport_lost."), "{why}");
        prometheus.until(r#"evergate_calls_held{server="docs"}"#, |held| held >= 1.0).await;
        docs.revive().await;
    };
    let waiting = client.call_tool("docs__bump", json!({})).into_future();
    let (waited, ()) = tokio::join!(waiting, meanwhile);
    waited.unwrap();

    prometheus
        .until(r#"evergate_server_recovery_seconds_count{server="docs"}"#, |n| n >= 1.0)
        .await;
    let reconnects = r#"evergate_server_reconnects_total{server="docs",reason="transport_lost"}"#;
    prometheus.until(reconnects, |n| n >= 1.0).await;
    prometheus
        .until(r#"evergate_calls_total{server="docs",outcome="answered"}"#, exactly(3.0))
        .await;
    prometheus.until(r#"evergate_call_wait_seconds_count{server="docs"}"#, |n| n >= 1.0).await;
    let away = r#"evergate_server_state_seconds_total{server="docs",state="reconnecting"}"#;
    // As long as it took for the alert to fire, at least.
    prometheus.until(away, |seconds| seconds > 1.0).await;
    let share = r#"sum(rate(evergate_server_state_seconds_total{server="files"}[5s]))"#;
    prometheus.until(share, |share| (0.8..1.2).contains(&share)).await;
    until("the alert is over", async || prometheus.firing("EvergateServerDown").await.is_empty())
        .await;

    let targets = prometheus.api("targets").await;
    let target = &targets["activeTargets"][0];
    assert_eq!((&target["health"], &target["lastError"]), (&json!("up"), &json!("")), "{target}");
    assert_eq!(prometheus.value(r#"min_over_time(up{job="evergate"}[5m])"#).await, Some(1.0));
    for group in prometheus.api("rules").await["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            assert_eq!(rule["health"], "ok", "{rule}");
        }
    }
    everything_on_the_dashboard(&prometheus).await;
    hub.shutdown(Duration::from_secs(1)).await;
    gateway.stop().await;
}

/// Every query of the dashboard is understood, and most find something.
async fn everything_on_the_dashboard(prometheus: &Prometheus) {
    let dashboard = std::fs::read_to_string(deploy().join("grafana/evergate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let (mut asked, mut found) = (0, 0);
    for target in targets {
        let expr = target["expr"].as_str().unwrap();
        let expr = expr
            .replace("$__range", "5m")
            .replace("$__rate_interval", "1m")
            .replace("$job", "evergate")
            .replace("$instance", ".*")
            .replace("$server", ".*");
        asked += 1;
        found += usize::from(!prometheus.query(&expr).await.is_empty());
    }
    assert!(asked > 30 && found > asked / 2, "{found} of {asked}");
}

#[tokio::test]
#[ignore = "needs prometheus; ./scripts/test runs it"]
async fn promtool_finds_nothing_wrong_with_the_metrics() {
    let (docs, _files, gateway) = two_servers().await;
    let (_hub, client) = client_of(&gateway);
    client.call_tool("docs__bump", json!({})).await.unwrap();
    docs.kill().await;
    let (_, port) = gateway.url().trim_end_matches("/mcp").rsplit_once(':').unwrap();
    let key = format!("authorization: Bearer {SCRAPER}\r\n");
    let page = get(port.parse().unwrap(), "/metrics", &key).await.unwrap();
    let mut promtool = Command::new(prometheus_program("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).await.unwrap();
    let output = promtool.wait_with_output().await.unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[tokio::test]
#[ignore = "needs prometheus; ./scripts/test runs it"]
async fn promtool_understands_the_alerts_and_sees_each_of_them_fire() {
    let file = |name: &str| deploy().join("prometheus").join(name);
    for (what, name) in [("check", "alerts.yml"), ("test", "alerts.test.yml")] {
        let output = promtool(&[what, "rules", file(name).to_str().unwrap()]).await;
        assert!(output.status.success(), "{output:?}");
    }
}
