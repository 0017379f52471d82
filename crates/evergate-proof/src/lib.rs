//! What Evergate claims, measured beside what people would use instead.
//!
//! - [`product`]: how each product is started in front of MCP servers, one small file each.
//! - [`faults`] (`./scripts/faults`): what happens to calls when servers die behind each of them.
//! - [`mod@bench`] (`./scripts/bench`): what each of them costs.

pub mod bench;
pub mod faults;
pub mod product;
