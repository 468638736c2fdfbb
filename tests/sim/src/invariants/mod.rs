//! The promises of the design, one file each, in the words of what can be seen from outside.

pub mod p1;
pub mod p2;
pub mod p3;
pub mod p4;
pub mod p5;
pub mod p7;
