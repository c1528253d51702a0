//! Where clients connect: [`acceptors`] accept connections, within the [`budget`] of descriptors, and share them
//! among cores.

pub(crate) mod acceptors;
pub(crate) mod budget;
