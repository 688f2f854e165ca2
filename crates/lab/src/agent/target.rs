//! A running server whose host has an agent.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::Agent;
use crate::target::{Session, Statistics, Target, name_of};
use crate::{Error, Result};

/// Adds the agent that `agents` (`NAME=HOST:PORT`) have for the system at `[NAME=]URI`. Errors: it cannot be reached.
pub(crate) fn with_agent(target: Box<dyn Target>, text: &str, agents: &[String]) -> Result<Box<dyn Target>> {
    let system = name_of(text);
    let of_system = agents.iter().filter_map(|agent| agent.split_once('=')).find(|(name, _)| *name == system);
    let Some((_, address)) = of_system else { return Ok(target) };
    let agent = Agent::connect(address);
    let agent = agent.map_err(|error| Error::Usage(format!("--agent {system}={address}: {error}")))?;
    Ok(Box::new(Observable { target, agent: Arc::new(agent) }))
}

struct Observable {
    target: Box<dyn Target>,
    agent: Arc<Agent>,
}

impl Target for Observable {
    fn name(&self) -> &str {
        self.target.name()
    }

    fn connect(&self) -> Result<Box<dyn Session>> {
        self.target.connect()
    }

    fn process(&self) -> Option<u32> {
        None
    }

    fn directory(&self) -> Option<&Path> {
        None
    }

    fn agent(&self) -> Option<Arc<Agent>> {
        Some(self.agent.clone())
    }

    fn about(&self) -> Result<Value> {
        let mut about = self.target.about()?;
        let host = self.agent.about().map_err(|error| Error::Usage(error.to_string()))?;
        if let Some(about) = about.as_object_mut() {
            about.insert("server_host".to_owned(), host);
        }
        Ok(about)
    }

    fn point_reply_bytes(&self) -> Option<usize> {
        self.target.point_reply_bytes()
    }

    fn statistics(&self) -> Option<Box<dyn Statistics>> {
        self.target.statistics()
    }
}
