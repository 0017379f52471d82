//! What operators see and do: the same answers for the dashboard, the command line and everybody else's scripts.
//!
//! Nothing here knows HTTP; that is `front/operators.rs`. [`model`] says what the answers look like.

mod actions;
mod catalogue;
mod endpoints;
pub(crate) mod model;
mod overview;
pub(crate) mod per_client;
mod problem;
mod servers;
mod sessions;
mod trying;
mod why;

pub(crate) use actions::act;
pub(crate) use catalogue::{List, catalogue};
pub(crate) use endpoints::openapi;
pub(crate) use overview::overview;
pub(crate) use servers::{logs, server, servers};
pub(crate) use sessions::sessions;
pub(crate) use trying::call;
