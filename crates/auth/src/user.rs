//! A user, as the documents of `admin.system.users` have it.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::Error;
use uuid::Uuid;

use crate::names::EXTERNAL;
use crate::{Credentials, Restrictions, Result, RoleName, UserName, roles};

#[derive(Clone, Debug)]
pub struct User {
    pub name: UserName,
    /// Older documents have none.
    pub id: Option<Uuid>,
    pub credentials: Credentials,
    pub roles: Vec<RoleName>,
    pub restrictions: Restrictions,
    pub custom_data: Option<DocBuf>,
}

impl User {
    pub fn read(doc: Doc<'_>) -> Result<User> {
        let text = |name: &str| match doc.get(name) {
            Some(ValueRef::String(text)) => Ok(text),
            _ => Err(Error::bad_value(format!("the document of a user has no string \"{name}\""))),
        };
        let name = UserName::new(text("user")?, text("db")?);
        let mut credentials = match doc.get("credentials") {
            Some(ValueRef::Document(credentials)) => Credentials::read(credentials)?,
            _ => Credentials::default(),
        };
        credentials.external |= name.db == EXTERNAL;
        Ok(User {
            id: match doc.get("userId") {
                Some(ValueRef::Binary { subtype: 4, bytes }) => Uuid::from_slice(bytes).ok(),
                _ => None,
            },
            credentials,
            roles: doc.get("roles").map_or(Ok(Vec::new()), |roles| RoleName::read_all(roles, &name.db))?,
            restrictions: doc.get(Restrictions::FIELD).map_or(Ok(Restrictions::default()), Restrictions::read)?,
            custom_data: match doc.get("customData") {
                Some(ValueRef::Document(data)) => Some(data.to_buf()),
                _ => None,
            },
            name,
        })
    }

    /// Returns the document of `admin.system.users`.
    pub fn to_doc(&self) -> DocBuf {
        let mut doc = self.head();
        doc.append("credentials", &self.credentials.to_doc());
        self.append_optional(&mut doc);
        doc.append("roles", &roles::to_array(&self.roles));
        doc
    }

    /// Returns the fields by which every document about the user begins.
    pub fn head(&self) -> DocBuf {
        let mut doc = DocBuf::new().with("_id", &self.name.id());
        if let Some(id) = &self.id {
            doc.append("userId", ValueRef::Binary { subtype: 4, bytes: id.as_bytes() });
        }
        doc.append("user", &self.name.user).append("db", &self.name.db);
        doc
    }

    /// Appends what a user may have.
    fn append_optional(&self, doc: &mut DocBuf) {
        if let Some(data) = &self.custom_data {
            doc.append("customData", data);
        }
        if !self.restrictions.is_empty() {
            doc.append(Restrictions::FIELD, &self.restrictions.to_array());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mechanism, Stored};

    #[test]
    fn documents_are_read_back() {
        let mut credentials = Credentials::default();
        credentials.set(Mechanism::ScramSha256, Stored::of(Mechanism::ScramSha256, b"x", 4096));
        let user = User {
            name: UserName::new("u", "d"),
            id: Some(Uuid::from_u128(5)),
            credentials,
            roles: vec![RoleName::new("read", "d")],
            restrictions: Restrictions::default(),
            custom_data: Some(DocBuf::new().with("a", 1i32)),
        };
        let doc = user.to_doc();
        assert_eq!(User::read(doc.as_doc()).unwrap().to_doc().as_bytes(), doc.as_bytes());
        assert!(User::read(DocBuf::new().with("user", "u").as_doc()).is_err());
        let external = DocBuf::new().with("user", "CN=a").with("db", "$external");
        assert!(User::read(external.as_doc()).unwrap().credentials.external);
    }
}
