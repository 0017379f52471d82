//! One call, from handle to result: over memory, and over loopback HTTP beside the bare HTTP client.

#[path = "common/fixed_server.rs"]
mod fixed_server;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use evergate_runtime::{HttpKind, Hub, MemoryConnector, RawJson, ServerHandle, Settings};
use evergate_testkit::{MemoryServer, Server};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use fixed_server::Bare;

const SIZES: [usize; 3] = [100, 64 * 1024, 1024 * 1024];

fn memory(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("memory");
    for size in SIZES {
        let memory = MemoryServer::new(Server::new());
        let connector = MemoryConnector::new(move || memory.connect());
        let (_hub, server) = start(&runtime, Settings::memory(connector));
        let arguments = RawJson::from(json!({ "bytes": size }));
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.to_async(&runtime).iter(|| async {
                server.call_tool("big", arguments.clone()).await.expect("an answer")
            });
        });
    }
}

fn loopback(criterion: &mut Criterion) {
    let runtime = runtime();
    let addr = fixed_server::start().expect("a free port");
    let bare = Bare::new(addr);
    let settings = Settings::http(format!("http://{addr}/mcp")).http_kind(HttpKind::Streamable);
    let (_hub, server) = start(&runtime, settings);
    let mut group = criterion.benchmark_group("loopback_http");
    for size in SIZES {
        let tool = size.to_string();
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("bare_client", size), |bencher| {
            bencher.to_async(&runtime).iter(|| bare.call(&tool));
        });
        group.bench_function(BenchmarkId::new("runtime", size), |bencher| {
            bencher.to_async(&runtime).iter(|| async {
                let call = server.call_tool(tool.as_str(), RawJson::empty_object());
                call.await.expect("an answer")
            });
        });
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn start(runtime: &Runtime, settings: Settings) -> (Hub, ServerHandle) {
    let _entered = runtime.enter();
    let hub = Hub::builder().server("s", settings).start().expect("valid settings");
    let server = hub.server("s").expect("just added");
    (hub, server)
}

criterion_group!(benches, memory, loopback);
criterion_main!(benches);
