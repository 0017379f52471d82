//! `restart`, `enable`, `disable`, `refresh`.

use serde_json::json;

use crate::shell::{child, on, reaches, server, serving};

#[tokio::test]
async fn restart_waits_until_there_is_a_new_connection() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let before = server(&gateway, "docs");
    let said = on(&gateway, &["restart", "docs"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.starts_with("✔ docs: restarted, connected again after "), "{}", said.out);
    let after = server(&gateway, "docs");
    assert_ne!(before["pid"], after["pid"]);
    assert_eq!(after["state"], "connected");
}

#[tokio::test]
async fn off_and_on_again_and_what_makes_no_sense_says_why() {
    let gateway =
        serving(json!({ "docs": child(&[]), "files": child(&[]) }), &["docs", "files"]).await;
    let said = on(&gateway, &["disable", "docs", "files"]);
    assert_eq!(said.code, 0, "{}", said.err);
    // Each is told of as soon as it is done.
    let mut lines: Vec<&str> = said.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["✔ docs: switched off", "✔ files: switched off"]);
    assert_eq!(server(&gateway, "docs")["state"], "disabled");
    for (command, why) in [
        ("disable", "docs is switched off already"),
        ("restart", "docs is switched off: enable it instead"),
        ("refresh", "docs is not connected"),
    ] {
        let said = on(&gateway, &[command, "docs"]);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{command}");
        assert!(said.err.starts_with(&format!("evergate: {why}")), "{command}: {}", said.err);
    }
    assert_eq!(on(&gateway, &["enable", "docs"]).code, 0);
    // One that is refused does not keep the other from its share.
    let said = on(&gateway, &["enable", "docs", "files"]);
    assert_eq!(said.code, 1);
    assert!(said.out.starts_with("✔ files: switched on"), "{}", said.out);
    assert!(said.err.contains("docs is switched on already"), "{}", said.err);
    assert_eq!(server(&gateway, "files")["state"], "connected");
}

#[tokio::test]
async fn a_name_that_is_wrong_keeps_everything_as_it_is() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    assert_eq!(on(&gateway, &["disable", "docs", "dosc"]).code, 64);
    assert_eq!(server(&gateway, "docs")["state"], "connected");
}

#[tokio::test]
async fn what_does_not_come_back_in_time_is_told_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    let args = ["--crash-while", broken.to_str().unwrap()];
    let ghost = json!({ "command": "/no/such/command" });
    let gateway = serving(json!({ "files": child(&args), "ghost": ghost }), &["files"]).await;
    std::fs::write(&broken, "").unwrap();
    let said = on(&gateway, &["restart", "files", "--wait=300ms"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(said.err.contains("files is reconnecting after"), "{}", said.err);
    let said = on(&gateway, &["restart", "files", "--no-wait"]);
    assert_eq!((said.code, said.out.as_str()), (0, "files: is being restarted\n"), "{}", said.err);
    std::fs::remove_file(&broken).unwrap();
    reaches(&gateway, "files", "connected").await;
    // It is given up at once, and so is waiting for it.
    reaches(&gateway, "ghost", "permanently_failed").await;
    let said = on(&gateway, &["restart", "ghost", "--wait=20s"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("ghost: Given up "), "{}", said.err);
    let wrong = on(&gateway, &["restart", "files", "--wait=soon"]);
    assert_eq!(wrong.code, 64);
    assert!(wrong.err.contains("is not a duration such as"), "{}", wrong.err);
}

#[tokio::test]
async fn refresh_says_what_there_is_now() {
    let gateway = serving(json!({ "docs": child(&[]) }), &["docs"]).await;
    let said = on(&gateway, &["refresh", "docs"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains(" tools"), "{}", said.out);
}
