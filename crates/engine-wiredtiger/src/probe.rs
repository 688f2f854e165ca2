//! Trial creation of tables with given options.
//!
//! Options that are right one by one may not go together (a page smaller than the unit of allocation), and only making a
//! table shows it. What is in the log must apply, so a table is made and dropped for options that were not seen before.

use arbor_engine::{Error, Result, TreeOptions};

use crate::core::Core;
use crate::options::check_tree_options;
use crate::records::PROBE;

impl Core {
    /// Errors: `InvalidOption` for a name, a value, or values that do not go together.
    pub(crate) fn check_tree_options(&self, options: &TreeOptions) -> Result<()> {
        check_tree_options(options)?;
        if options.settings.is_empty() && self.options.tree_config_string.is_empty() {
            return Ok(());
        }
        let config = self.options.create_config(options)?;
        let mut passed = self.probed.lock();
        if passed.contains(&config) {
            return Ok(());
        }
        let mut session = self.connection.service_session()?;
        let made = session.try_create(PROBE, &config)?;
        if let Err(reason) = made {
            let name = options.settings.last().map_or("wiredTiger.collectionConfigString", |(name, _)| name);
            return Err(Error::InvalidOption { name: name.to_owned(), reason });
        }
        session.drop_table(PROBE)?;
        passed.insert(config);
        Ok(())
    }
}
