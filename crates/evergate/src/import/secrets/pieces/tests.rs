use super::*;

fn shown(text: &str, pieces: &[Piece]) -> Vec<String> {
    let one = |piece: &Piece| format!("{}: {}", piece.name, &text[piece.range.clone()]);
    pieces.iter().map(one).collect()
}

#[test]
fn a_url_has_its_secrets_in_places_of_their_own() {
    let url = "https://h.example/s/a1b2c3d4e5f6a7b8c9d0e1f2/mcp?profile=me&api_key=hunter2#token=x";
    assert_eq!(
        shown(url, &of_url(url)),
        ["url_secret: a1b2c3d4e5f6a7b8c9d0e1f2", "api_key: hunter2", "token: x"]
    );
    let text = "postgres://me:hunter2@db.example/shop?sslmode=off";
    assert_eq!(shown(text, &of_value("DATABASE_URL", text)), ["password: hunter2"]);
    let text = "jdbc:sqlserver://h:1433;user=sa;password=hunter2";
    assert_eq!(shown(text, &of_argument(None, text)), ["password: hunter2"]);
    let text = "git+https://github.com/a/b@0123456789abcdef0123456789abcdef01234567";
    assert_eq!(of_argument(None, text), []);
}

#[test]
fn texts_without_secrets_stay_as_they_are() {
    for (before, text) in [
        (None, "@modelcontextprotocol/server-everything@2025.11.25"),
        (None, "/home/me/keys:/keys:ro"),
        (None, "mcp/key:latest"),
        (None, "redis:7@sha256:0123456789abcdef0123456789abcdef"),
        (None, "npm:mcp@1.2.3"),
        (None, "https://docs.example/mcp?profile=me"),
        (None, "exec node server.js --port 8080 && echo done"),
        (Some("-p"), "8080"),
        (Some("-u"), "1000:1000"),
        (Some("-t"), "streamable-http"),
        (Some("-e"), "LOG_LEVEL=debug"),
        (Some("--header"), "Authorization:\0"),
        (Some("--header"), "Authorization: Bearer \0"),
        (Some("--token"), "\0"),
        (Some("--no-auth"), "stdio"),
    ] {
        assert_eq!(of_argument(before, text), [], "{before:?} {text}");
    }
    for (name, text) in [
        ("LOG_LEVEL", "debug"),
        ("AUTH_TYPE", "bearer"),
        ("API_KEY_HEADER", "X-API-Key"),
        ("PROMPT", "Answer in plain words, and keep to basic ones."),
        ("TENANT_ID", "01234567-89ab-cdef-0123-456789abcdef"),
        ("OPTIONS", "{\"key\": \"\0\"}"),
        ("USE_KEYRING", "true"),
    ] {
        assert_eq!(of_value(name, text), [], "{name}");
    }
}

#[test]
fn what_announces_a_secret_is_known() {
    for before in
        ["?api_key=", "Authorization: Bearer ", "Authorization:", "{\"token\": \"", "Bearer "]
    {
        assert!(announces(before), "{before}");
    }
    for before in ["", "https://", "--url=", "a path/"] {
        assert!(!announces(before), "{before}");
    }
}

#[test]
fn beside_variables_only_the_rest_is_taken() {
    let text = "Bearer abc\0";
    assert_eq!(shown(text, &of_header("Authorization", text)), ["Authorization: abc"]);
    let text = "Server=\0;Password=hunter2;";
    assert_eq!(shown(text, &of_value("CONN", text)), ["CONN: ;Password=hunter2;"]);
}

proptest::proptest! {
    /// Whoever replaces pieces goes through the text once.
    #[test]
    fn pieces_are_in_order_whatever_the_text_is(
        text in "([a-z0-9ü:/@?&#;= \"'{}\0-]|token=|Bearer |://|--key |0123456789abcdef){0,20}",
        before in proptest::option::of("(-k|-p|--token|-e|-c)")
    ) {
        let before = before.as_deref();
        for pieces in [
            of_argument(before, &text), of_value("X", &text), of_value("TOKEN", &text), of_header("X", &text),
            of_url(&text), of_command(&text), of_option(&text),
        ] {
            let mut at = 0;
            for piece in pieces {
                proptest::prop_assert!(piece.range.start >= at && piece.range.start < piece.range.end);
                proptest::prop_assert!(!text[piece.range.clone()].contains(HOLE));
                at = piece.range.end;
            }
        }
        let _ = (announces(&text), is_option(before, &text));
    }
}
