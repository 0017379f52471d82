//! Hash tables for what every call looks up.
//!
//! The standard library's hash function withstands whoever can see how long a lookup takes, at ten times the price of one
//! that does not. Here nobody gains by collisions: the keys are our own (names of tools, ids we sealed), or the table is
//! the sender's own (the ids of its requests). The seed is random all the same.

/// As in the standard library, with a faster hash function.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
