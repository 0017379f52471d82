use super::*;

const ZERO: Duration = Duration::ZERO;

#[test]
fn every_problem_is_reported_at_once() {
    let settings = Settings::http("ftp://user:pw@host/")
        .header("bad name", "x")
        .header("Mcp-Session-Id", "x")
        .header("x-ok", "line\nbreak")
        .timeout(ZERO)
        .connect_timeout(ZERO)
        .max_held(0)
        .backoff(Duration::from_secs(2), Duration::from_secs(1), 2.0, 0.0);
    let found = settings.check("no spaces").unwrap_err();
    let invalid = InvalidSettings { problems: found };
    insta::assert_snapshot!(invalid, @r#"
    invalid settings
      no spaces: name: must be 1 to 64 characters of A-Z a-z 0-9 - _ .
      no spaces: headers: "bad name" is not a header name
      no spaces: headers: Mcp-Session-Id belongs to the protocol and cannot be set
      no spaces: headers: the value of x-ok has characters a header cannot carry
      no spaces: url: must be http or https, not ftp
      no spaces: url: must not hold a user or password: use an authorization header
      no spaces: timeout: must be more than zero
      no spaces: connect_timeout: must be more than zero
      no spaces: max_held: must be at least 1
      no spaces: backoff: the longest delay must not be below the initial one
    "#);
}

#[test]
fn no_duration_may_overflow_a_clock() {
    let settings = Settings::http("http://h/").hold(Duration::MAX).stable_after(Duration::MAX);
    let settings = settings.cooldown(Duration::from_secs(1), Duration::MAX);
    let fields: Vec<&str> = settings.check("s").unwrap_err().iter().map(|p| p.field).collect();
    assert_eq!(fields, ["hold", "stable_after", "cooldown"]);
}

#[test]
fn a_child_needs_a_command_and_sane_variables() {
    let settings = Settings::stdio("", ["a\0b"]).env("A=B", "x").env("", "y");
    let fields: Vec<&str> = settings.check("s").unwrap_err().iter().map(|p| p.field).collect();
    assert_eq!(fields, ["command", "command", "env", "env"]);
}

#[test]
fn the_defaults_hold_and_hold_never_exceeds_timeout() {
    let checked = Settings::http("http://localhost/mcp").check("s").unwrap();
    assert_eq!(checked.hold, Duration::from_secs(45));
    let short = Settings::http("http://localhost/mcp").timeout(Duration::from_secs(5));
    assert_eq!(short.check("s").unwrap().hold, Duration::from_secs(5));
}

#[test]
fn nothing_secret_is_printed() {
    let http = Settings::http("https://host/mcp?token=hunter2").header("authorization", "hunter2");
    let stdio = Settings::stdio("server", ["--key=hunter2"]).env("KEY", "hunter2");
    for settings in [http, stdio] {
        let raw = format!("{settings:?}");
        let checked = format!("{:?}", settings.check("s").unwrap());
        assert!(!raw.contains("hunter2") && !checked.contains("hunter2"), "{raw} {checked}");
    }
}
