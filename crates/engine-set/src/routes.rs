//! Which member a tree lives in, as of one moment.

use arbor_base::TreeId;
use arbor_engine::{Error, Result};
use hashbrown::{HashMap, HashSet};

/// Index of a member.
pub(crate) type Index = usize;

pub(crate) const HOME: Index = 0;

/// Trees with fixed ids live in the home: the ledger and the catalogue.
pub(crate) const FIXED_TREES_END: u64 = 16;

#[derive(Clone, Default)]
pub(crate) struct Routes {
    pub trees: HashMap<TreeId, Index>,
    /// A group that some members applied and others did not.
    pub partial: Option<PartialGroup>,
    pub lost: Vec<Lost>,
}

/// A member that could not be opened.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub name: String,
    pub reason: String,
}

/// The changed trees of the members that are ahead: what they show is no state that was. All others show the state before.
#[derive(Clone)]
pub(crate) struct PartialGroup {
    pub trees: HashSet<TreeId>,
    pub full: bool,
    pub context: String,
}

impl PartialGroup {
    fn error(&self) -> Error {
        let context = self.context.clone();
        if self.full { Error::OutOfSpace { context } } else { Error::Poisoned { context } }
    }
}

impl Routes {
    /// The member of a tree that can be read.
    pub(crate) fn readable(&self, tree: TreeId) -> Result<Index> {
        if let Some(partial) = self.partial.as_ref().filter(|partial| partial.trees.contains(&tree)) {
            return Err(partial.error());
        }
        self.find(tree)
    }

    pub(crate) fn find(&self, tree: TreeId) -> Result<Index> {
        self.trees.get(&tree).copied().ok_or_else(|| self.missing(tree))
    }

    fn missing(&self, tree: TreeId) -> Error {
        match self.lost.as_slice() {
            _ if tree.0 < FIXED_TREES_END => Error::UnknownTree(tree),
            [] => Error::UnknownTree(tree),
            [lost] => Error::Unavailable { engine: lost.name.clone(), reason: lost.reason.clone(), tree: Some(tree) },
            several => {
                let names: Vec<&str> = several.iter().map(|lost| lost.name.as_str()).collect();
                let reasons: Vec<&str> = several.iter().map(|lost| lost.reason.as_str()).collect();
                Error::Unavailable { engine: names.join(" or "), reason: reasons.join("; "), tree: Some(tree) }
            }
        }
    }
}
