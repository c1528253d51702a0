//! An application, as the tools see it.

use crate::configuration::application::Application;
use crate::exchange::admission::Admission;
use std::sync::Arc;

/// An application that the tools can reach.
#[derive(Debug)]
pub(crate) struct Administered {
    pub(crate) application: Arc<Application>,
    pub(crate) admission: Arc<Admission>,
}
