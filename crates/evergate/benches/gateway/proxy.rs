//! The least that can be called a reverse proxy: it understands nothing, keeps nothing, and passes bodies on as they
//! come.

use std::io;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::Either;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

type Upstream = Client<HttpConnector, Incoming>;

/// Prints its URL and serves for ever, on as many threads as the gateway has.
pub(crate) async fn run(upstream: &str) {
    let (uri, upstream): (Uri, _) = (upstream.parse().expect("a URL"), client());
    let threads = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime").block_on(serve(uri, upstream))
    });
    let ended = tokio::task::spawn_blocking(|| threads.join()).await;
    ended.expect("not cancelled").expect("no panic").expect("a free port");
}

fn client() -> Upstream {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(tcp)
}

async fn serve(uri: Uri, upstream: Upstream) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    super::say(&format!("http://{}/mcp", listener.local_addr()?));
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (uri, upstream) = (uri.clone(), upstream.clone());
        let service = service_fn(move |request| pass_on(uri.clone(), upstream.clone(), request));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn pass_on(
    uri: Uri,
    upstream: Upstream,
    mut request: Request<Incoming>,
) -> Result<Response<Either<Incoming, Empty<Bytes>>>, hyper::Error> {
    *request.uri_mut() = uri;
    without_hop_by_hop(request.headers_mut());
    request.headers_mut().remove(header::HOST);
    let Ok(mut response) = upstream.request(request).await else {
        let mut response = Response::new(Either::Right(Empty::new()));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        return Ok(response);
    };
    without_hop_by_hop(response.headers_mut());
    Ok(response.map(Either::Left))
}

fn without_hop_by_hop(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE] {
        headers.remove(name);
    }
}
