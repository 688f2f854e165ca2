//! `showLiveTransactions` of TokuMX: the transactions that are open now.

use arbor_auth::{Action, Target};
use arbor_bson::{ArrayBuf, Doc, DocBuf};

use crate::Result;
use crate::call::Call;
use crate::session::CONNECTION;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let mut listed = ArrayBuf::new();
    let all = call.server.permits(call.connection, Target::Cluster, Action::Inprog);
    let own = call.server.session_user(call.connection);
    for open in call.server.sessions.open_transactions() {
        if !all && open.session.user != own {
            continue;
        }
        let mut doc = DocBuf::new().with("txnid", open.number);
        if open.session.user != CONNECTION {
            doc.append("lsid", &open.session.to_doc());
        }
        doc.append("active", open.active).append("openMicros", open.open_for.as_micros() as i64);
        for (name, value) in Doc::trusted(&open.about) {
            doc.append(name, value);
        }
        listed.push(&doc);
    }
    call.reply.append("transactions", &listed);
    Ok(())
}
