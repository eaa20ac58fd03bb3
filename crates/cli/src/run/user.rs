//! Who CMD runs as: the user behind sudo, not root. Knows nothing of what is run.

use std::ffi::CString;

use anyhow::Context;
use nix::unistd::{Gid, Uid, User, getgrouplist};

/// A user with everything that a process of theirs has: ids, groups and the variables that say whose it is.
#[derive(Debug)]
pub struct Caller {
    pub uid: Uid,
    pub gid: Gid,
    pub groups: Vec<Gid>,
    pub env: Vec<(&'static str, String)>,
}

/// The user who called sudo; none when we are not root, or root called.
///
/// # Errors
/// SUDO_UID or SUDO_GID that is not a number: running CMD as root instead would be a surprise.
pub fn behind_sudo() -> anyhow::Result<Option<Caller>> {
    let Ok(uid) = std::env::var("SUDO_UID") else { return Ok(None) };
    if !Uid::effective().is_root() || uid == "0" {
        return Ok(None);
    }
    let uid = Uid::from_raw(uid.parse().with_context(|| format!("SUDO_UID is `{uid}`, not a user's number"))?);
    let known = User::from_uid(uid).ok().flatten();
    let gid = match std::env::var("SUDO_GID") {
        Ok(gid) => Gid::from_raw(gid.parse().with_context(|| format!("SUDO_GID is `{gid}`, not a group's number"))?),
        Err(_) => known.as_ref().map(|u| u.gid).context("SUDO_UID is set without SUDO_GID, and the user is unknown")?,
    };
    let groups = known.as_ref().and_then(|u| getgrouplist(&CString::new(u.name.as_str()).ok()?, gid).ok()).unwrap_or_else(|| vec![gid]);
    let env = known.map(environment).unwrap_or_default();
    Ok(Some(Caller { uid, gid, groups, env }))
}

fn environment(user: User) -> Vec<(&'static str, String)> {
    let home = user.dir.to_string_lossy().into_owned();
    vec![("HOME", home), ("USER", user.name.clone()), ("LOGNAME", user.name)]
}
