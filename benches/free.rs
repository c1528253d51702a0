//! Processes without a cost of their own, so that only the pool is measured.

use cabrank::application_pool::{
    ConnectError, Process, ShutDown, SpawnError, SpawnRequest, Spawner,
};

pub(crate) struct Free;

impl Spawner for Free {
    type Process = Free;
    fn spawn(&self, _: &SpawnRequest) -> Result<Free, SpawnError> {
        Ok(Free)
    }
}

impl Process for Free {
    type Connection = ();
    fn connect(&self) -> Result<(), ConnectError> {
        Ok(())
    }
    fn shut_down(&self, _: ShutDown) {}
}
