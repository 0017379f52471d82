//! The runtime against the test kit: virtual time and memory where time matters, real sockets where sockets do.

mod support;

mod basics;
