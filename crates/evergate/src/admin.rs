//! The admin API.

#![allow(dead_code)]

pub(crate) mod model;
