//! The shim by itself: the real program, spoken with over its socket.

mod driver;
mod lives;
