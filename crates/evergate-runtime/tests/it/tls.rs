//! HTTPS through rustls, with a certificate nobody else would trust.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evergate_runtime::{Hub, Settings, StateKind};
use evergate_testkit::{Server, serve_http_io};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::*;

/// Its address, what to trust, and how many connections it has had.
async fn https_server(server: Server) -> (String, rustls::RootCertStore, Arc<AtomicUsize>) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = accepted.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve_http_io(&server, stream).await;
                }
            });
        }
    });
    (url, roots, accepted)
}

fn trusting(url: &str, roots: rustls::RootCertStore) -> Hub {
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Hub::builder().server("s", Settings::http(url)).tls(Arc::new(config)).start().unwrap()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

#[tokio::test]
async fn https_works_with_the_given_roots_and_is_refused_without() {
    let (url, roots, _) = https_server(Server::new()).await;
    let trusting = trusting(&url, roots);
    let s = trusting.server("s").unwrap();
    s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
    trusting.shutdown(SECOND).await;

    let (_hub, s) = hub(Settings::http(&url));
    reach(&s, StateKind::Reconnecting).await;
    assert!(s.status().last_error.unwrap().contains("certificate"));
}

/// What a server sends for later, such as tickets, must not pass for something unasked.
#[tokio::test]
async fn connections_are_used_again_after_a_pause() {
    const CALLS: usize = 20;
    let (url, roots, accepted) = https_server(Server::new()).await;
    let hub = trusting(&url, roots);
    let s = hub.server("s").unwrap();
    let call = async || s.call_tool("echo", json!({ "text": "hi" })).await.unwrap();
    call().await;
    let before = accepted.load(Ordering::Relaxed);
    for _ in 0..CALLS {
        // Long enough for the system to be asked about the connection.
        tokio::time::sleep(Duration::from_millis(5)).await;
        call().await;
    }
    let opened = accepted.load(Ordering::Relaxed) - before;
    assert!(opened < CALLS / 2, "{opened} connections for {CALLS} calls");
}
