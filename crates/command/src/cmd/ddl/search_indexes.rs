//! `createSearchIndexes`, `updateSearchIndex`, `dropSearchIndex`: refused, as by a MongoDB server without a search process.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    Err(not_enabled(call.info.name))
}

/// Returns the error for a search command or stage.
pub(crate) fn not_enabled(name: &str) -> Error {
    let what = match name {
        "$search" | "$searchMeta" | "$vectorSearch" => "$search and $vectorSearch aggregation stages requires",
        _ => "Atlas Search Database Commands and the $listSearchIndexes aggregation stage requires",
    };
    // drivers and tools look for these words
    let text = format!(
        "Using {what} additional configuration. Please connect to Atlas or an AtlasCLI local deployment to enable. For more \
         information on how to connect, see https://dochub.mongodb.org/core/atlas-cli-deploy-local-reqs"
    );
    Error::new(Code(31082), text)
}
