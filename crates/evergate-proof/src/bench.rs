//! What each product costs: `./scripts/bench`.

pub mod load;
