//! A lifecycle, an event and its effects in one line each.

use super::*;

/// The state and everything beside it that decides what happens next; what is zero or absent is left out.
pub(super) fn lifecycle(lifecycle: &Lifecycle, start: Instant) -> String {
    let mut parts = vec![state(lifecycle.state(), start)];
    if let Some(Dial { generation, aborted }) = lifecycle.dial {
        parts.push(format!("{} g{generation}", if aborted { "calling off" } else { "dialing" }));
    }
    parts.extend(lifecycle.closing.iter().map(|generation| format!("closing g{generation}")));
    let counters = [
        ("attempts", lifecycle.attempts),
        ("probes", lifecycle.probes),
        ("discovery failures", lifecycle.failures.discovery),
        ("rpc failures", lifecycle.failures.rpc),
    ];
    let counted = counters.iter().filter(|(_, count)| *count > 0);
    parts.extend(counted.map(|(name, count)| format!("{name} {count}")));
    if lifecycle.renewed {
        parts.push("renewed".to_owned());
    }
    parts.join("; ")
}

fn state(state: &State, start: Instant) -> String {
    let kind = state.kind();
    let until = |until: &Option<Instant>| {
        until.map(|at| format!(" until {}", offset(at, start))).unwrap_or_default()
    };
    match state {
        State::Disabled | State::Connecting | State::Disabling { then_enable: false } => {
            kind.to_string()
        }
        State::Disabling { then_enable: true } => format!("{kind}, then enable"),
        State::Connected(connected) => {
            let proven = match connected.proven_at {
                Some(at) => format!("proven at {}", offset(at, start)),
                None => "proven".to_owned(),
            };
            let doubt = match connected.doubt {
                None => String::new(),
                Some(Doubt::Dialing) => ", in doubt".to_owned(),
                Some(Doubt::Testing { candidate, .. }) => {
                    format!(", in doubt: testing g{candidate}")
                }
            };
            format!("{kind} g{}, {proven}{doubt}", connected.generation)
        }
        State::Reconnecting { until: at, reason } | State::Disconnected { until: at, reason } => {
            format!("{kind} ({reason}){}", until(at))
        }
        State::PermanentlyFailed { reason } => format!("{kind} ({reason})"),
    }
}

pub(super) fn effects(effects: &[Effect]) -> String {
    effects.iter().map(effect).collect::<Vec<_>>().join(", ")
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Dial { generation } => format!("dial g{generation}"),
        Effect::AbortDial { generation } => format!("abort g{generation}"),
        Effect::Offer { generation } => format!("offer g{generation}"),
        Effect::Install { generation } => format!("install g{generation}"),
        Effect::Close { generation, manner: Manner::Drain } => format!("drain g{generation}"),
        Effect::Close { generation, manner: Manner::Now } => format!("close g{generation}"),
        Effect::DropCatalog => "drop catalog".to_owned(),
    }
}

/// The event without its generation: which one it speaks for is said where it is used.
pub(super) fn event(event: &Event) -> String {
    let detail = match *event {
        Event::DialFailed { failure, .. } => match failure {
            DialFailure::Unreachable => "unreachable",
            DialFailure::Exited => "exited",
            DialFailure::Refused => "refused",
            DialFailure::Permanent(reason) => reason.as_str(),
            DialFailure::Aborted => "aborted",
        },
        Event::Lost { loss, .. } => match loss {
            Loss::Session => "session",
            Loss::Transport => "transport",
            Loss::Exited { clean: true } => "exited cleanly",
            Loss::Exited { clean: false } => "exited",
            Loss::Auth => "auth",
        },
        Event::Verdict { lost, .. } => {
            if lost {
                "lost"
            } else {
                "not lost"
            }
        }
        Event::Health { budget, ok, .. } => match (budget, ok) {
            (Budget::Discovery, true) => "discovery ok",
            (Budget::Discovery, false) => "discovery failed",
            (Budget::Rpc, true) => "rpc ok",
            (Budget::Rpc, false) => "rpc failed",
        },
        Event::Enable
        | Event::Disable
        | Event::Restart
        | Event::Demand
        | Event::Tick
        | Event::DialSucceeded { .. }
        | Event::Doubted { .. }
        | Event::Closed { .. } => return event.name().to_owned(),
    };
    format!("{}({detail})", event.name())
}

fn offset(at: Instant, start: Instant) -> String {
    match at.checked_duration_since(start) {
        Some(after) => format!("+{}s", after.as_secs_f64()),
        None => format!("-{}s", start.duration_since(at).as_secs_f64()),
    }
}
