use super::*;

fn guard(listen: &str, hosts: &[&str], origins: &[&str]) -> OriginGuard {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.into()).collect::<Vec<String>>();
    OriginGuard::new(listen.parse().unwrap(), true, &owned(hosts), &owned(origins))
}

fn local() -> OriginGuard {
    guard("127.0.0.1:8080", &[], &[])
}

fn public() -> OriginGuard {
    guard("0.0.0.0:8080", &[], &[])
}

fn all_origins() -> OriginGuard {
    guard("127.0.0.1:1", &[], &["*"])
}

fn headers(hosts: &[&str], origins: &[&str]) -> Headers {
    let hosts = hosts.iter().map(|host| ("host", *host));
    hosts.chain(origins.iter().map(|origin| ("origin", *origin))).collect()
}

fn host(guard: &OriginGuard, host: &str) -> Result<(), Refused> {
    guard.check(&headers(&[host], &[])).map(drop)
}

fn origin(guard: &OriginGuard, host: &str, origin: &str) -> Result<(), Refused> {
    guard.check(&headers(&[host], &[origin])).map(drop)
}

#[test]
fn on_loopback_only_names_of_this_machine_are_let_in() {
    for listen in ["127.0.0.1:8080", "[::1]:8080", "[::ffff:127.0.0.1]:8080"] {
        let guard = guard(listen, &[], &[]);
        for name in [
            "localhost",
            "LocalHost:1",
            "localhost.",
            "localhost.:80",
            "127.0.0.1",
            "127.0.0.1:9",
            "[::1]",
            "[::1]:8080",
            "[0:0:0:0:0:0:0:1]",
        ] {
            assert_eq!(host(&guard, name), Ok(()), "{name}");
        }
        for name in [
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "127.0.0.1.evil.example",
            "192.168.0.1",
            "[::2]",
            "0.0.0.0",
            "2130706433",
            "0x7f.1",
        ] {
            assert_eq!(host(&guard, name), Err(OTHER_HOST), "{name}");
        }
    }
}

#[test]
fn hosts_that_play_tricks_are_refused_everywhere() {
    for guard in [local(), public(), guard("127.0.0.1:1", &["*"], &["*"])] {
        for name in [
            "",
            " ",
            ":80",
            "localhost@evil.example",
            "evil.example@localhost",
            "localhost, evil.example",
            "localhost evil.example",
            "localhost/evil",
            "localhost:80:80",
            "localhost:x",
            "localhost:99999",
            "localhost:+80",
            "localhost..",
            ".",
            "[::1",
            "::1",
            "[::1]x",
            "[localhost]",
            "http://localhost",
            "local\u{68}ost\u{e4}",
            "localhost#",
            "localhost?x",
            "localhost\\x",
            "%6c",
        ] {
            assert_eq!(host(&guard, name), Err(BAD_HOST), "{name:?}");
        }
    }
}

#[test]
fn exactly_one_host_is_expected() {
    for guard in [local(), public()] {
        assert_eq!(guard.check(&Headers::default()), Err(NO_HOST));
        let twice = headers(&["localhost", "localhost"], &[]);
        assert_eq!(guard.check(&twice), Err(SEVERAL_HOSTS));
    }
}

#[test]
fn allowed_hosts_add_to_loopback() {
    let guard = guard("127.0.0.1:1", &["Gate.Example", "other.example:8443", "[fd00::1]"], &[]);
    for name in
        ["gate.example", "GATE.example.:77", "other.example:8443", "[fd00:0::1]:9", "localhost"]
    {
        assert_eq!(host(&guard, name), Ok(()), "{name}");
    }
    for name in ["other.example", "other.example:8444", "x.gate.example"] {
        assert_eq!(host(&guard, name), Err(OTHER_HOST), "{name}");
    }
}

#[test]
fn elsewhere_any_host_is_let_in_until_some_are_listed() {
    for name in ["gate.example", "192.168.0.1:8080", "localhost"] {
        assert_eq!(host(&public(), name), Ok(()), "{name}");
    }
    let listed = guard("0.0.0.0:8080", &["gate.example"], &[]);
    assert_eq!(host(&listed, "gate.example:8080"), Ok(()));
    assert_eq!(host(&listed, "evil.example"), Err(OTHER_HOST));
    assert_eq!(host(&listed, "localhost"), Err(OTHER_HOST));
    let mistyped = guard("0.0.0.0:8080", &["not a host"], &[]);
    assert_eq!(host(&mistyped, "evil.example"), Err(OTHER_HOST), "never open by mistake");
    let all = guard("127.0.0.1:1", &["*"], &[]);
    assert_eq!(host(&all, "anything.example"), Ok(()));
}

#[test]
fn without_keys_operators_come_by_names_that_cannot_be_bound_anew() {
    let operator =
        |guard: &OriginGuard, host| guard.check_operator(&headers(&[host], &[])).map(drop);
    let open = |hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        OriginGuard::new("0.0.0.0:8080".parse().unwrap(), false, &hosts, &[])
    };
    for guard in [open(&[]), open(&["*"]), open(&["gate.example"])] {
        for host in ["192.168.0.1:8080", "[fd00::1]", "localhost:8080", "127.0.0.1"] {
            assert_eq!(operator(&guard, host), Ok(()), "{host}");
        }
        assert_eq!(operator(&guard, "evil.example"), Err(UNLISTED_HOST));
    }
    assert_eq!(operator(&open(&["gate.example"]), "gate.example:8080"), Ok(()));
    assert_eq!(operator(&open(&["*"]), "gate.example"), Err(UNLISTED_HOST), "* is no name");
    let keys = OriginGuard::new("0.0.0.0:8080".parse().unwrap(), true, &[], &[]);
    assert_eq!(operator(&keys, "gate.example"), Ok(()));
}

#[test]
fn on_loopback_pages_of_this_machine_are_let_in() {
    for from in
        ["http://localhost:3000", "HTTPS://LOCALHOST", "http://127.0.0.1", "http://[::1]:6274"]
    {
        assert_eq!(origin(&local(), "localhost:8080", from), Ok(()), "{from}");
    }
    for from in [
        "http://evil.example",
        "https://localhost.evil.example",
        "http://192.168.0.1:8080",
        "chrome-extension://abcdef",
    ] {
        assert_eq!(origin(&local(), "localhost:8080", from), Err(OTHER_ORIGIN), "{from}");
    }
}

#[test]
fn what_is_no_origin_is_refused_even_if_all_are_allowed() {
    for guard in [local(), public(), guard("127.0.0.1:1", &[], &["*", "null"])] {
        for from in [
            "null",
            "NULL",
            "",
            "localhost",
            "http://",
            "://localhost",
            "http://localhost/",
            "http://localhost@evil.example",
            "http://evil.example@localhost",
            "http:/localhost",
            "http://localhost http://evil.example",
            "1http://localhost",
            "http://localhost\u{e4}",
        ] {
            assert_eq!(origin(&guard, "localhost", from), Err(BAD_ORIGIN), "{from:?}");
        }
        let twice = headers(&["localhost"], &["http://localhost", "http://localhost"]);
        assert_eq!(guard.check(&twice), Err(SEVERAL_ORIGINS));
    }
}

#[test]
fn elsewhere_pages_of_the_same_host_are_let_in() {
    assert_eq!(origin(&public(), "Gate.example:8080", "https://gate.Example."), Ok(()));
    assert_eq!(origin(&public(), "gate.example", "https://evil.example"), Err(OTHER_ORIGIN));
    assert_eq!(origin(&public(), "gate.example", "http://localhost"), Err(OTHER_ORIGIN));
}

#[test]
fn pages_of_an_allowed_host_are_let_in_on_loopback_too() {
    let proxied = guard("127.0.0.1:1", &["gate.example"], &[]);
    assert_eq!(origin(&proxied, "gate.example", "https://gate.example"), Ok(()));
    assert_eq!(origin(&proxied, "localhost", "https://gate.example"), Err(OTHER_ORIGIN));
    let any_host = guard("127.0.0.1:1", &["*"], &[]);
    assert_eq!(origin(&any_host, "evil.example", "http://evil.example"), Err(OTHER_ORIGIN));
}

#[test]
fn listed_origins_count_as_a_whole() {
    let guard = guard("127.0.0.1:1", &[], &["https://App.example", "http://dev.example:3000/"]);
    for from in ["https://app.example", "https://APP.example:443", "http://dev.example:3000"] {
        assert_eq!(origin(&guard, "localhost", from), Ok(()), "{from}");
    }
    for from in ["http://app.example", "https://app.example:8443", "http://dev.example"] {
        assert_eq!(origin(&guard, "localhost", from), Err(OTHER_ORIGIN), "{from}");
    }
    let all = all_origins();
    assert_eq!(origin(&all, "localhost", "https://evil.example"), Ok(()));
    assert_eq!(origin(&all, "evil.example", "https://evil.example"), Err(OTHER_HOST));
}

#[test]
fn cors_repeats_an_origin_that_was_let_in() {
    let of = |host, from: &[&str]| local().check(&headers(&[host], from)).ok().flatten();
    assert_eq!(of("localhost", &["http://LocalHost:3000"]).unwrap(), "http://LocalHost:3000");
    assert_eq!(of("localhost", &[]), None);
    assert_eq!(of("localhost", &["https://evil.example"]), None);
    assert_eq!(of("evil.example", &["http://localhost"]), None);
}
