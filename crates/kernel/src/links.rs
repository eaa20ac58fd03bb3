//! The interfaces of the network namespace that the calling thread is in: which are up, and word of changes (rtnetlink(7)). Knows no BPF.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nameindex};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};

/// RTMGRP_LINK of linux/rtnetlink.h.
const LINK_GROUP: u32 = 1;

/// The indices of those that are up.
pub(crate) fn up() -> Result<Vec<u32>> {
    // By name: those without a link-layer address, such as tunnels, have none that tells their index (getifaddrs(3)).
    let addresses = getifaddrs().context("the interfaces cannot be listed")?;
    let up: BTreeSet<String> = addresses.filter(|a| a.flags.contains(InterfaceFlags::IFF_UP)).map(|a| a.interface_name).collect();
    let all = if_nameindex().context("the interfaces cannot be listed")?;
    Ok(all.iter().filter(|i| i.name().to_str().is_ok_and(|name| up.contains(name))).map(|i| i.index()).collect())
}

/// A socket that becomes readable when an interface appears, goes, or changes its state.
#[derive(Debug)]
pub(crate) struct LinkNews(OwnedFd);

impl LinkNews {
    /// Of the namespace we are in.
    pub(crate) fn subscribe() -> Result<LinkNews> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, LINK_GROUP)).context("changes of interfaces cannot be listened to")?;
        Ok(LinkNews(socket))
    }

    /// Takes all that has been told, and says whether it was anything. What it says is not looked at: the interfaces are listed anew.
    pub(crate) fn read(&self) -> bool {
        let mut message = [0; 256]; // The rest of a longer one is dropped.
        let mut told = false;
        // More than the socket holds (ENOBUFS) is news too.
        while matches!(recv(self.0.as_raw_fd(), &mut message, MsgFlags::empty()), Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR)) {
            told = true;
        }
        told
    }
}

impl AsFd for LinkNews {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_among_those_that_are_up() {
        assert!(up().expect("they can be listed").contains(&1), "the loopback interface has index 1 in every namespace");
    }
}
