//! Opening a set, and taking in another member.
//!
//! A new member is opened, brought to the set's position with an empty batch, made durable there and listed in the
//! roster; only then does a tree go there. A crash in between leaves a directory that nothing refers to; the next time the
//! engine is requested it is brought on from its own position.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::Position;
use arbor_engine::{Batch, Engine, Error, Result};
use hashbrown::HashMap;

use crate::gate::{Gate, MemberEngine, Members};
use crate::kind::{self, Kind};
use crate::roster::Roster;
use crate::routes::{HOME, Index, Lost, Routes};
use crate::set::EngineSet;

impl EngineSet {
    /// Opens the members in sub-directories of `directory`: the home, the default, and whatever the roster lists.
    ///
    /// Errors: the home, or a default that is not a member yet, cannot be opened; options that an engine refuses. Another
    /// member that cannot be opened is [unavailable](Error::Unavailable).
    pub fn open(directory: &Path, kinds: Vec<Kind>, home: &str, default: &str) -> Result<EngineSet> {
        let roster = Roster::new(directory);
        let listed = roster.read()?;
        let mut opening = Opening { directory, kinds: &kinds, list: Vec::new(), lost: Vec::new() };
        opening.open(home)?;
        for name in listed.iter().filter(|name| *name != home) {
            opening.open_listed(name)?;
        }
        let default = kind::find(&kinds, default)?.name;
        if opening.is_new(default) {
            let member = open_kind(kind::find(&kinds, default)?, directory)?;
            bring_on(&member, opening.highest())?;
            opening.list.push(member);
            roster.write(&opening.names())?;
        }
        let (list, lost) = (opening.list, opening.lost);
        let lowest = list.iter().map(|member| member.engine.applied()).min().unwrap_or_default();
        let highest = list.iter().map(|member| member.engine.applied()).max().unwrap_or_default();
        let several = list.len() > 1 || !lost.is_empty();
        let lenient = if lost.is_empty() { highest } else { Position(u64::MAX) };
        let trees = if several { routes_of(&list)? } else { HashMap::new() };
        let members = Members { list, routes: Arc::new(Routes { trees, partial: None, lost }) };
        let home = members.member(HOME).engine.clone();
        let gate = Gate::new(members, lowest);
        Ok(EngineSet::new(
            home,
            several,
            gate,
            lenient,
            Joining { directory: directory.to_owned(), roster },
            kinds,
            default,
        ))
    }

    /// The engine of that name, which becomes a member if it is none.
    pub(crate) fn member(&self, name: &str) -> Result<Arc<dyn Engine>> {
        if let Some(found) = self.open_member(name)? {
            return Ok(found);
        }
        let joining = self.joining.lock();
        match self.open_member(name)? {
            Some(found) => Ok(found),
            None => self.join(&joining, kind::find(&self.kinds, name)?),
        }
    }

    fn open_member(&self, name: &str) -> Result<Option<Arc<dyn Engine>>> {
        let members = self.gate.read();
        if let Some(lost) = members.routes.lost.iter().find(|lost| lost.name == name) {
            return Err(Error::Unavailable { engine: name.to_owned(), reason: lost.reason.clone(), tree: None });
        }
        Ok(members.index_of(name).map(|index| members.member(index).engine.clone()))
    }

    fn join(&self, joining: &Joining, kind: &Kind) -> Result<Arc<dyn Engine>> {
        let member = open_kind(kind, &joining.directory)?;
        if let Some(barrier) = self.barrier.get() {
            member.engine.set_barrier(barrier);
        }
        bring_on(&member, self.applied())?;
        let lost = self.gate.read().routes.lost.clone();
        let listed = self.gate.read().list.iter().map(|member| member.name.to_owned()).collect::<Vec<_>>();
        let names = listed.into_iter().chain(lost.into_iter().map(|lost| lost.name)).chain([kind.name.to_owned()]);
        joining.roster.write(&names.collect::<Vec<_>>())?;
        self.take_in(member.clone())?;
        Ok(member.engine)
    }

    fn take_in(&self, member: MemberEngine) -> Result<()> {
        let _writer = self.writer.lock();
        let mut members = self.gate.close();
        if !self.is_several() {
            Arc::make_mut(&mut members.routes).trees = routes_of(&members.list)?;
            self.gate.set_position(self.home.applied());
        }
        // The barrier may have come since the member was opened.
        if let Some(barrier) = self.barrier.get() {
            member.engine.set_barrier(barrier);
        }
        assert!(members.index_of(member.name).is_none(), "the engine {} is a member already", member.name);
        members.list.push(member);
        self.several.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// State that joins need: one at a time.
pub(crate) struct Joining {
    directory: PathBuf,
    roster: Roster,
}

struct Opening<'o> {
    directory: &'o Path,
    kinds: &'o [Kind],
    list: Vec<MemberEngine>,
    lost: Vec<Lost>,
}

impl Opening<'_> {
    fn open(&mut self, name: &str) -> Result<()> {
        self.list.push(open_kind(kind::find(self.kinds, name)?, self.directory)?);
        Ok(())
    }

    fn open_listed(&mut self, name: &str) -> Result<()> {
        let directory = self.directory.join(name);
        let reason = match kind::find(self.kinds, name) {
            Err(_) => "this build does not have it".to_owned(),
            Ok(_) if !directory.is_dir() => format!("its directory {} is missing", directory.display()),
            Ok(kind) => match open_kind(kind, self.directory) {
                Ok(member) => {
                    self.list.push(member);
                    return Ok(());
                }
                Err(error @ Error::InvalidOption { .. }) => return Err(error),
                Err(error) => error.to_string(),
            },
        };
        self.lost.push(Lost { name: name.to_owned(), reason });
        Ok(())
    }

    fn is_new(&self, name: &str) -> bool {
        self.list.iter().all(|member| member.name != name) && self.lost.iter().all(|lost| lost.name != name)
    }

    fn highest(&self) -> Position {
        self.list.iter().map(|member| member.engine.applied()).max().unwrap_or_default()
    }

    fn names(&self) -> Vec<String> {
        let open = self.list.iter().map(|member| member.name.to_owned());
        open.chain(self.lost.iter().map(|lost| lost.name.clone())).collect()
    }
}

fn open_kind(kind: &Kind, directory: &Path) -> Result<MemberEngine> {
    Ok(MemberEngine { name: kind.name, engine: (kind.open)(&directory.join(kind.name))? })
}

/// A member without trees takes up the position of the others, durably.
fn bring_on(member: &MemberEngine, position: Position) -> Result<()> {
    let trees = member.engine.trees()?.len();
    if trees > 0 {
        let reason =
            format!("it holds {trees} trees, but is not among the engines of this directory (see arbor.engines)");
        return Err(Error::CannotOpen { path: member.name.to_owned(), reason });
    }
    if member.engine.applied() < position {
        member.engine.apply(&[Batch { position, ops: Vec::new() }])?;
        member.engine.checkpoint()?;
    }
    Ok(())
}

fn routes_of(list: &[MemberEngine]) -> Result<HashMap<arbor_base::TreeId, Index>> {
    let mut trees = HashMap::new();
    for (index, member) in list.iter().enumerate() {
        trees.extend(member.engine.trees()?.into_iter().map(|tree| (tree, index)));
    }
    Ok(trees)
}
