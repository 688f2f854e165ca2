//! User-defined roles, as the documents of `admin.system.roles` have them, and the graph of all roles.
//!
//! Rules:
//! - R1: inheritance has no cycles; a change that would close one is refused ([`Roles::would_cycle`]). Documents that were
//!   written past the commands may contain one all the same: [`Roles::flatten`] visits each role once.
//! - R2: a role that does not exist (any more) grants nothing.

use std::collections::{BTreeMap, BTreeSet};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_protocol::Error;

use crate::{Privilege, Privileges, Restrictions, Result, RoleName, builtin};

/// A user-defined role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub name: RoleName,
    pub privileges: Vec<Privilege>,
    /// Roles from which it inherits.
    pub roles: Vec<RoleName>,
    pub restrictions: Restrictions,
}

impl Role {
    /// Reads a document of `admin.system.roles`.
    pub fn read(doc: Doc<'_>) -> Result<Role> {
        let text = |name: &str| match doc.get(name) {
            Some(ValueRef::String(text)) => Ok(text),
            _ => Err(Error::bad_value(format!("the document of a role has no string \"{name}\""))),
        };
        let name = RoleName::new(text("role")?, text("db")?);
        let privileges = doc.get("privileges").map_or(Ok(Vec::new()), Privilege::read_all)?;
        let roles = doc.get("roles").map_or(Ok(Vec::new()), |roles| RoleName::read_all(roles, &name.db))?;
        let restrictions = doc.get(Restrictions::FIELD).map_or(Ok(Restrictions::default()), Restrictions::read)?;
        Ok(Role { name, privileges, roles, restrictions })
    }

    /// Returns the document of `admin.system.roles`.
    pub fn to_doc(&self) -> DocBuf {
        let mut doc =
            DocBuf::new().with("_id", &self.name.id()).with("role", &self.name.role).with("db", &self.name.db);
        let mut privileges = ArrayBuf::new();
        for privilege in &self.privileges {
            privileges.push(&privilege.to_doc());
        }
        doc.append("privileges", &privileges).append("roles", &to_array(&self.roles));
        if !self.restrictions.is_empty() {
            doc.append(Restrictions::FIELD, &self.restrictions.to_array());
        }
        doc
    }
}

/// Returns the array of `{role, db}`.
pub fn to_array<'a>(names: impl IntoIterator<Item = &'a RoleName>) -> ArrayBuf {
    let mut array = ArrayBuf::new();
    for name in names {
        array.push(&name.to_doc());
    }
    array
}

/// All user-defined roles.
#[derive(Clone, Debug, Default)]
pub struct Roles(BTreeMap<RoleName, Role>);

/// Everything that some roles grant, with all that they inherit.
#[derive(Clone, Debug, Default)]
pub struct Flattened {
    /// The roles and those they inherit, except the ones that do not exist.
    pub roles: BTreeSet<RoleName>,
    pub privileges: Privileges,
    /// Those of each role: all of them have to hold.
    pub restrictions: Vec<Restrictions>,
}

impl Roles {
    pub fn insert(&mut self, role: Role) {
        self.0.insert(role.name.clone(), role);
    }

    pub fn remove(&mut self, name: &RoleName) {
        self.0.remove(name);
    }

    pub fn get(&self, name: &RoleName) -> Option<&Role> {
        self.0.get(name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the user-defined roles in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.0.values()
    }

    /// Returns true if the role is built in or user-defined.
    pub fn exist(&self, name: &RoleName) -> bool {
        builtin::is_one(name) || self.0.contains_key(name)
    }

    /// Returns the roles that a role inherits, with those that they inherit.
    pub fn inherited<'a>(&'a self, direct: impl IntoIterator<Item = &'a RoleName>) -> BTreeSet<RoleName> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&RoleName> = direct.into_iter().collect();
        while let Some(name) = open.pop() {
            if self.exist(name) && found.insert(name.clone()) {
                open.extend(self.get(name).into_iter().flat_map(|role| &role.roles));
            }
        }
        found
    }

    pub fn flatten<'a>(&'a self, direct: impl IntoIterator<Item = &'a RoleName>) -> Flattened {
        let roles = self.inherited(direct);
        let mut flattened = Flattened::default();
        for name in &roles {
            let built_in = builtin::privileges(name);
            let own = self.get(name).filter(|_| built_in.is_none());
            let privileges = built_in.iter().flatten().chain(own.iter().flat_map(|role| &role.privileges));
            privileges.for_each(|privilege| flattened.privileges.add(privilege));
            flattened.restrictions.extend(own.map(|role| role.restrictions.clone()).filter(|each| !each.is_empty()));
        }
        Flattened { roles, ..flattened }
    }

    /// Returns the role among `parents` by which `name` would inherit itself.
    pub fn would_cycle<'a>(&self, name: &RoleName, parents: &'a [RoleName]) -> Option<&'a RoleName> {
        parents.iter().find(|parent| *parent == name || self.inherited([*parent]).contains(name))
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Roles {
        Roles(roles.into_iter().map(|role| (role.name.clone(), role)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, ActionSet, Resource, Target};
    use proptest::prelude::*;

    fn role(name: usize, parents: &[usize]) -> Role {
        let actions = ActionSet::of(&[Action::Find]);
        Role {
            name: role_name(name),
            privileges: vec![Privilege::new(Resource::collection("d", format!("c{name}")), actions)],
            roles: parents.iter().map(|parent| role_name(*parent)).collect(),
            restrictions: Restrictions::default(),
        }
    }

    fn role_name(number: usize) -> RoleName {
        RoleName::new(format!("r{number}"), "d")
    }

    fn permits(flattened: &Flattened, number: usize) -> bool {
        flattened.privileges.allow(Target::Collection { db: "d", collection: &format!("c{number}") }, Action::Find)
    }

    #[test]
    fn documents_are_read_back() {
        let mut some = role(1, &[2]);
        some.roles.push(RoleName::new("read", "d"));
        assert_eq!(Role::read(some.to_doc().as_doc()).unwrap(), some);
        assert!(Role::read(DocBuf::new().with("role", "x").as_doc()).is_err());
    }

    #[test]
    fn privileges_are_inherited_and_vanish_with_their_role() {
        let mut roles: Roles = [role(1, &[2]), role(2, &[3]), role(3, &[])].into_iter().collect();
        let flattened = roles.flatten(&[role_name(1)]);
        assert!(permits(&flattened, 1) && permits(&flattened, 3) && flattened.roles.len() == 3);
        roles.remove(&role_name(2));
        let flattened = roles.flatten(&[role_name(1)]);
        assert!(permits(&flattened, 1) && !permits(&flattened, 2) && !permits(&flattened, 3));
        assert!(roles.flatten(&[RoleName::new("nosuch", "d")]).roles.is_empty());
    }

    #[test]
    fn a_role_cannot_take_the_place_of_a_built_in_one() {
        let mut fake = role(1, &[]);
        fake.name = RoleName::new("read", "d");
        let roles: Roles = [fake].into_iter().collect();
        assert!(!permits(&roles.flatten(&[RoleName::new("read", "e")]), 1));
        let of_d = roles.flatten(&[RoleName::new("read", "d")]);
        assert!(!of_d.privileges.allow(Target::Database("e"), Action::Find) && of_d.roles.len() == 1);
    }

    /// A graph of roles by their edges, and what can be reached in it, the slow way.
    fn reachable(edges: &[(usize, usize)], from: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([from]);
        loop {
            let more: Vec<usize> =
                edges.iter().filter(|(a, b)| found.contains(a) && !found.contains(b)).map(|e| e.1).collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }

    fn graph(edges: &[(usize, usize)]) -> Roles {
        let parents = |number: usize| edges.iter().filter(|(a, _)| *a == number).map(|e| e.1).collect::<Vec<_>>();
        (0..8).map(|number| role(number, &parents(number))).collect()
    }

    proptest! {
        #[test]
        fn flattening_finds_what_is_reachable(edges in proptest::collection::vec((0..8usize, 0..8usize), 0..16), from in 0..8usize) {
            let roles = graph(&edges);
            let expect = reachable(&edges, from);
            let flattened = roles.flatten(&[role_name(from)]);
            for number in 0..8 {
                prop_assert_eq!(permits(&flattened, number), expect.contains(&number));
            }
            prop_assert_eq!(flattened.roles.len(), expect.len());
        }

        #[test]
        fn grants_that_are_not_refused_close_no_cycle(edges in proptest::collection::vec((0..8usize, 0..8usize), 0..24)) {
            let mut kept: Vec<(usize, usize)> = Vec::new();
            for (child, parent) in edges {
                let roles = graph(&kept);
                let refused = roles.would_cycle(&role_name(child), &[role_name(parent)]).is_some();
                prop_assert_eq!(refused, reachable(&kept, parent).contains(&child));
                if !refused {
                    kept.push((child, parent));
                }
            }
            for (child, parent) in &kept {
                prop_assert!(!reachable(&kept, *parent).contains(child));
            }
        }
    }
}
