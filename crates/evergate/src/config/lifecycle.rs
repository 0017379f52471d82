//! How a server is kept up: the `lifecycle` section of an entry, and `required`, which one of its words implies.

use std::time::Duration;

use evergate_runtime::{OnExhausted, Profile, Restart, Settings};

use super::reader::Reader;

type SetDuration = fn(Settings, Duration) -> Settings;
type SetCount = fn(Settings, usize) -> Settings;

const PROFILES: &[(&str, Profile)] = &[
    ("resilient", Profile::Resilient),
    ("strict", Profile::Strict),
    ("best-effort", Profile::BestEffort),
];

const RESTARTS: &[(&str, Restart)] =
    &[("never", Restart::Never), ("on_failure", Restart::OnFailure), ("always", Restart::Always)];

const DURATIONS: &[(&str, SetDuration)] = &[
    ("hold", Settings::hold),
    ("connect_timeout", Settings::connect_timeout),
    ("close_timeout", Settings::close_timeout),
    ("list_timeout", Settings::list_timeout),
    ("header_timeout", Settings::header_timeout),
    ("max_timeout", Settings::max_timeout),
    ("stable_after", Settings::stable_after),
];

const COUNTS: &[(&str, SetCount)] = &[
    ("max_in_flight", Settings::max_in_flight),
    ("max_held", Settings::max_held),
    ("max_subscriptions", Settings::max_subscriptions),
];

/// Fills in the settings, and says whether the server is required.
pub(super) fn read(reader: &mut Reader<'_>, settings: Settings) -> (Settings, bool) {
    let required = reader.flag("required");
    for key in ["hold", "max_timeout"] {
        let inner = reader.object().and_then(|entry| entry.get("lifecycle"));
        if reader.has(key) && inner.is_some_and(|inner| inner.get(key).is_some()) {
            reader.error(key, "is in the lifecycle section too: remove one of them");
        }
    }
    let given = settings.clone();
    let read = reader.own_section("lifecycle", |section| lifecycle(section, settings, required));
    let (settings, profile) = read.unwrap_or((given, None));
    // What the entry says itself wins over what its profile implies.
    let required = required.unwrap_or(profile == Some(Profile::Strict));
    (if required { settings.required() } else { settings }, required)
}

fn lifecycle(
    section: &mut Reader<'_>,
    mut settings: Settings,
    required: Option<bool>,
) -> (Settings, Option<Profile>) {
    let profile = section.choice("profile", PROFILES);
    if let Some(profile) = profile {
        // Strict without being required is what best effort is.
        let relaxed = profile == Profile::Strict && required == Some(false);
        settings = settings.profile(if relaxed { Profile::BestEffort } else { profile });
    }
    if let Some(restart) = section.choice("restart", RESTARTS) {
        settings = settings.restart(restart);
    }
    let ends = [("keep_probing", OnExhausted::KeepProbing), ("fail", OnExhausted::Fail)];
    if let Some(end) = section.choice("on_exhausted", &ends) {
        settings = settings.on_exhausted(end);
    }
    match section.integer("max_attempts") {
        Some(-1) => settings = settings.max_attempts(None),
        Some(attempts) => match u32::try_from(attempts) {
            Ok(attempts) => settings = settings.max_attempts(Some(attempts)),
            Err(_) => section.error("max_attempts", "must be -1 (no limit), 0 or more"),
        },
        None => {}
    }
    for (key, set) in DURATIONS {
        if let Some(duration) = section.duration(key) {
            settings = set(settings, duration);
        }
    }
    for (key, set) in COUNTS {
        if let Some(count) = section.count(key) {
            settings = set(settings, count);
        }
    }
    if let Some(failures) = section.count("failure_threshold") {
        settings = settings.failure_threshold(u32::try_from(failures).unwrap_or(u32::MAX));
    }
    if let Some(bytes) = section.size("max_message_bytes") {
        settings = settings.max_message_bytes(bytes);
    }
    if section.take("refresh_every").is_some_and(|value| value == "never") {
        settings = settings.refresh_every(None);
    } else if let Some(interval) = section.duration("refresh_every") {
        settings = settings.refresh_every(Some(interval));
    }
    if section.take("ping_every").is_some_and(|value| value == "never") {
        settings = settings.ping_every(None);
    } else if let Some(interval) = section.duration("ping_every") {
        settings = settings.ping_every(Some(interval));
    }
    let rate_limit = section.own_section("rate_limit", |limit| {
        let answers = limit.integer("threshold").unwrap_or(3);
        let answers = u32::try_from(answers).map_err(|_| {
            limit.error("threshold", "must be 0 (never) or more");
        });
        (answers.unwrap_or(3), limit.duration("pause").unwrap_or(Duration::from_secs(60)))
    });
    if let Some((answers, pause)) = rate_limit {
        settings = settings.rate_limit(answers, pause);
    }
    (delays(section, settings), profile)
}

fn delays(section: &mut Reader<'_>, mut settings: Settings) -> Settings {
    let second = Duration::from_secs(1);
    let backoff = section.own_section("backoff", |backoff| {
        let initial = backoff.duration("initial").unwrap_or(second);
        let max = backoff.duration("max").unwrap_or((32 * second).max(initial));
        let multiplier = backoff.number("multiplier").unwrap_or(2.0);
        let jitter = backoff.number("jitter").unwrap_or(1.0);
        (initial, max, multiplier, jitter)
    });
    if let Some((initial, max, multiplier, jitter)) = backoff {
        settings = settings.backoff(initial, max, multiplier, jitter);
    }
    let cooldown = section.own_section("cooldown", |cooldown| {
        let initial = cooldown.duration("initial").unwrap_or(60 * second);
        let max = cooldown.duration("max").unwrap_or((300 * second).max(initial));
        (initial, max)
    });
    if let Some((initial, max)) = cooldown {
        settings = settings.cooldown(initial, max);
    }
    settings
}
