//! What the container decides where the operator does not: threads by its processors, memory by its limit.

use super::Loaded;
use super::container::{Container, Cpus, Memory};
use super::layer::DEFAULT;
use crate::model::limits;

const REACTORS: &str = "server.reactors";
const RECEIVE_MEMORY: &str = "security.receive_memory_mb";
const CONNECTIONS: &str = "security.max_connections";

/// What is left of the memory is for the index, for buffers, and for pages that are read and written.
const RECEIVE_SHARE: u64 = 4;

/// As much is for connections, and so much for each.
const CONNECTION_SHARE: u64 = 4;
const CONNECTION_BYTES: u64 = 2048;

impl Loaded {
    /// Puts in what the container decides. What it does not say stays the default.
    pub(super) fn derive(&mut self, container: &Container) {
        if let Some(Cpus { count, source }) = &container.cpus
            && self.config.server.reactors == 0
        {
            let most = u32::try_from(limits::REACTORS_MAX).unwrap_or(u32::MAX);
            self.config.server.reactors = (*count).min(most);
            self.sources.insert(REACTORS.to_owned(), source.clone());
        }
        let Some(Memory { bytes, source }) = &container.memory else { return };
        let is_default =
            |loaded: &Self, key| loaded.sources.get(key).is_none_or(|layer| layer == DEFAULT);
        if is_default(self, CONNECTIONS) {
            let most = u32::try_from(bytes / CONNECTION_SHARE / CONNECTION_BYTES);
            let most = most.unwrap_or(u32::MAX).max(1);
            if most < self.config.security.max_connections {
                self.config.security.max_connections = most;
                self.sources
                    .insert(CONNECTIONS.to_owned(), format!("2 KiB each of a quarter of {source}"));
            }
        }
        if is_default(self, RECEIVE_MEMORY) {
            let share = (bytes / RECEIVE_SHARE / limits::MIB).max(1);
            let share = u32::try_from(share).unwrap_or(u32::MAX);
            if share < self.config.security.receive_memory_mb {
                self.config.security.receive_memory_mb = share;
                self.sources.insert(RECEIVE_MEMORY.to_owned(), format!("a quarter of {source}"));
            }
        }
    }

    /// What the threads and the memory are, and what decided it: for the log.
    pub fn decided(&self) -> [(&'static str, u32, String); 3] {
        let layer = |key| self.sources.get(key).map_or(DEFAULT, String::as_str).to_owned();
        [
            (REACTORS, self.config.server.reactors, layer(REACTORS)),
            (RECEIVE_MEMORY, self.config.security.receive_memory_mb, layer(RECEIVE_MEMORY)),
            (CONNECTIONS, self.config.security.max_connections, layer(CONNECTIONS)),
        ]
    }
}
