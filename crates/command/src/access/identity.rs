//! A user who is logged in.

use std::net::IpAddr;

use arbor_auth::{Flattened, Privilege, Privileges, Restrictions, RoleName, User, UserName, builtin};
use arbor_protocol::transport::Peer;
use uuid::Uuid;

/// A user with everything that its roles grant, as read in one generation of users and roles.
#[derive(Clone)]
pub struct Identity {
    pub name: UserName,
    /// Distinguishes a user from a later one of the same name.
    pub id: Option<Uuid>,
    /// Owner of the sessions that the user begins.
    pub digest: [u8; 32],
    /// As granted, without those they inherit.
    pub roles: Vec<RoleName>,
    pub granted: Flattened,
    restrictions: Restrictions,
    pub generation: u64,
}

impl Identity {
    pub fn of(user: User, granted: Flattened, generation: u64) -> Identity {
        let User { name, id, roles, restrictions, .. } = user;
        Identity { digest: name.digest(), name, id, roles, granted, restrictions, generation }
    }

    /// Returns a member of the cluster, which may do everything.
    pub fn system() -> Identity {
        let role = RoleName::new("__system", "admin");
        let all: Vec<Privilege> = builtin::privileges(&role).unwrap_or_default();
        let granted = Flattened { privileges: all.iter().collect(), ..Flattened::default() };
        let (name, restrictions) = (UserName::system(), Restrictions::default());
        Identity { digest: name.digest(), name, id: None, roles: vec![role], granted, restrictions, generation: 0 }
    }

    pub fn privileges(&self) -> &Privileges {
        &self.granted.privileges
    }

    pub fn is_system(&self) -> bool {
        self.name.is_system()
    }

    /// Returns the same, as read in a later generation.
    pub(super) fn kept(&self, generation: u64) -> Identity {
        Identity { generation, ..self.clone() }
    }

    /// Returns true if the user may use a connection with these ends.
    pub fn may_connect(&self, peer: &Peer) -> bool {
        let mut all = self.granted.restrictions.iter().chain([&self.restrictions]);
        if peer.unix.is_some() {
            // it has no address that a list could permit
            return all.all(Restrictions::is_empty);
        }
        let (client, server) = (address(peer.remote.ip()), address(peer.local.ip()));
        all.all(|restrictions| restrictions.permit(client, server))
    }
}

fn address(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
