//! Any document, as one of users, roles, privileges, restrictions and names: refused, or written the same again.
#![no_main]

use arbor_auth::{Privilege, Privileges, Resource, Restrictions, Role, RoleName, Target, User, UserName};
use arbor_bson::Doc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(doc) = Doc::parse(bytes) else { return };
    if let Ok(user) = User::read(doc) {
        let written = user.to_doc();
        let again = User::read(written.as_doc()).expect("what was written is read");
        assert_eq!(again.to_doc().as_bytes(), written.as_bytes());
    }
    if let Ok(role) = Role::read(doc) {
        let written = role.to_doc();
        let again = Role::read(written.as_doc()).expect("what was written is read");
        assert_eq!(again.to_doc().as_bytes(), written.as_bytes());
    }
    if let Ok(resource) = Resource::read(doc) {
        assert_eq!(Resource::read(resource.to_doc().as_doc()).expect("what was written is read"), resource);
    }
    for (_, value) in doc {
        let _ = UserName::read(value, "db");
        let _ = RoleName::read_all(value, "db");
        let _ = Restrictions::read(value);
        if let Ok(privileges) = Privilege::read_all(value) {
            let all: Privileges = privileges.iter().collect();
            let of_all = arbor_auth::Action::ALL.iter().all(|action| all.allow(Target::Cluster, *action));
            assert!(of_all || !all.is_system());
        }
    }
});
