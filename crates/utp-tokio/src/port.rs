//! One UDP port and the connections on it: who a packet is for, who may connect, who has something to send. Reads no socket itself.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use lowtide_cc::Time;
use lowtide_utp::{Connection, Header, Kind, Open, Packet, PathMtu, Report, State};
use rand::Rng;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connection::{End, Member};
use crate::limits::Strays;
use crate::options::Options;
use crate::udp::{Batch, Udp};

/// Whom a packet comes from, and the id that it is for.
type Key = (SocketAddr, u16);

/// A RESET that is to leave, and the address of this host that the peer knows.
pub(crate) struct Reset {
    pub to: SocketAddr,
    pub from: Option<IpAddr>,
    pub packet: Packet,
}

/// A UDP port.
#[derive(Debug)]
pub(crate) struct Port {
    pub udp: Udp,
    pub options: Options,
    epoch: Instant,
    table: Mutex<Table>,
    /// Connections that may have something to send; none once nobody drives the port and would take them.
    due: Mutex<Option<Vec<Arc<Member>>>>,
    /// Something became due, or the last handle went.
    pub wake: Notify,
    /// A connection waits to be accepted.
    pub arrived: Notify,
    /// The last connection has ended.
    pub emptied: Notify,
    /// Sockets and listeners; without any, and without connections, the port ends.
    pub handles: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    members: HashMap<Key, Arc<Member>>,
    /// Accepted and not established, oldest first.
    half_open: VecDeque<Key>,
    /// Established and not accepted yet.
    ready: VecDeque<Arc<Member>>,
    listeners: usize,
    /// Nobody drives the port any more.
    ended: bool,
    strays: Strays,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first id from `first` on for a connection to a peer with which those `taken` are listened on. This end will listen on it and the peer
/// on the next one, which must be free there too: where the peer connected from id k − 1, it listens on that, and this end on k.
fn free_id(first: u16, taken: impl Fn(u16) -> bool) -> Option<u16> {
    let from_there = (0..=u16::MAX).map(|n| first.wrapping_add(n));
    from_there.into_iter().find(|&id| (0..3).all(|n| !taken(id.wrapping_add(n))))
}

fn path_mtu(peer: SocketAddr) -> PathMtu {
    match peer.ip().to_canonical() {
        IpAddr::V4(_) => PathMtu::IPV4,
        IpAddr::V6(_) => PathMtu::IPV6,
    }
}

impl Port {
    pub(crate) fn new(udp: Udp, options: Options) -> Port {
        Port {
            udp,
            options,
            epoch: Instant::now(),
            table: Mutex::default(),
            due: Mutex::new(Some(Vec::new())),
            wake: Notify::new(),
            arrived: Notify::new(),
            emptied: Notify::new(),
            handles: AtomicUsize::new(0),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(self.epoch.elapsed().as_nanos() as u64)
    }

    /// When that is on the runtime's clock.
    pub(crate) fn instant(&self, at: Time) -> Instant {
        self.epoch + Duration::from_nanos(at.nanos())
    }

    /// The port is to look at a connection, which its caller has locked.
    pub(crate) fn queue(&self, member: &Arc<Member>, end: &mut End) {
        if !std::mem::replace(&mut end.queued, true)
            && let Some(due) = unpoisoned(&self.due).as_mut()
        {
            due.push(Arc::clone(member));
        }
    }

    /// The same, from a task that is not the port's.
    pub(crate) fn queue_and_wake(&self, member: &Arc<Member>, end: &mut End) {
        if !end.queued {
            self.queue(member, end);
            self.wake.notify_one();
        }
    }

    pub(crate) fn take_due(&self) -> Vec<Arc<Member>> {
        unpoisoned(&self.due).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A connection to `peer` under way.
    pub(crate) fn connect(self: &Arc<Port>, peer: SocketAddr) -> io::Result<Arc<Member>> {
        let now = self.now();
        let mtu = path_mtu(peer);
        let cc = self.options.control(mtu, rand::rng().random(), now).map_err(io::Error::other)?;
        let mut table = unpoisoned(&self.table);
        if table.ended {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the port has ended, with its runtime or by abort"));
        }
        if table.members.len() >= self.options.max_connections {
            let limit = self.options.max_connections;
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("the port has its {limit} connections already (max_connections)"),
            ));
        }
        let Some(id) = free_id(rand::rng().random(), |id| table.members.contains_key(&(peer, id))) else {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, format!("no connection id is left with {peer}")));
        };
        let open = Open { id, seq: rand::rng().random() };
        let protocol = Connection::connect(self.options.config(mtu), cc, open, now);
        let member = Member::connecting(peer, protocol);
        table.members.insert((peer, id), Arc::clone(&member));
        drop(table);
        self.queue_and_wake(&member, &mut member.lock());
        Ok(member)
    }

    pub(crate) fn listen(&self, more: bool) {
        let mut table = unpoisoned(&self.table);
        table.listeners = if more { table.listeners + 1 } else { table.listeners - 1 };
        let unwanted = if table.listeners == 0 { std::mem::take(&mut table.ready) } else { VecDeque::new() };
        drop(table);
        unwanted.iter().for_each(|member| self.refuse(member));
    }

    /// Resets a connection that nobody has accepted: nobody will read what it sends.
    fn refuse(&self, member: &Arc<Member>) {
        let (mut end, now) = (member.lock(), self.now());
        end.reset(now);
        end.orphan(now);
        self.queue_and_wake(member, &mut end);
    }

    pub(crate) fn accepted(&self) -> Option<Arc<Member>> {
        unpoisoned(&self.table).ready.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        unpoisoned(&self.table).members.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_over(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0 && self.is_empty()
    }

    /// What arrived. Wakers to be woken, and resets to be sent, are added to the lists.
    pub(crate) fn receive(self: &Arc<Port>, batch: &Batch, wakers: &mut Vec<Waker>, resets: &mut Vec<Reset>) {
        let now = self.now();
        let mut table = unpoisoned(&self.table);
        for (from, local, datagrams) in batch.messages() {
            // Mostly all are for one connection.
            let mut last: Option<(u16, Arc<Member>)> = None;
            for datagram in datagrams {
                let Ok((packet, payload)) = Packet::decode(datagram) else { continue };
                let id = packet.header.connection_id;
                let known = last.as_ref().filter(|(last, _)| *last == id && !matches!(packet.header.kind, Kind::Syn | Kind::Reset));
                let member = match known {
                    Some((_, member)) => Some(Arc::clone(member)),
                    None => table.find(from, &packet).or_else(|| self.admit(&mut table, (from, local), &packet, now)),
                };
                let Some(member) = member else {
                    resets.extend(table.strays.answer(from, &packet, rand::rng().random(), now).map(|packet| Reset {
                        to: from,
                        from: local,
                        packet,
                    }));
                    continue;
                };
                let mut end = member.lock();
                end.on_packet(&packet, payload, now, wakers);
                self.queue(&member, &mut end);
                if end.unoffered && end.protocol.state() == State::Connected {
                    end.unoffered = false;
                    drop(end);
                    table.offer(&member, self);
                } else {
                    drop(end);
                }
                last = Some((id, member));
            }
        }
    }

    /// The network reports about a datagram to `to`.
    pub(crate) fn report(&self, to: SocketAddr, quoted: &Header, report: Report, wakers: &mut Vec<Waker>) {
        let id = quoted.connection_id;
        let found = {
            let table = unpoisoned(&self.table);
            let own = table.members.get(&(to, id)).filter(|_| quoted.kind == Kind::Syn).cloned();
            own.or_else(|| table.find_by_peers_id(to, id))
        };
        let Some(member) = found else { return };
        let mut end = member.lock();
        end.on_report(quoted, report, self.now(), wakers);
        self.queue(&member, &mut end);
    }

    /// The connection that a SYN opens, if there is somebody to accept it and room.
    fn admit(
        self: &Arc<Port>,
        table: &mut Table,
        (from, local): (SocketAddr, Option<IpAddr>),
        syn: &Packet,
        now: Time,
    ) -> Option<Arc<Member>> {
        let wanted = syn.header.kind == Kind::Syn && table.listeners > 0;
        if !wanted || table.ready.len() >= self.options.backlog || table.members.len() >= self.options.max_connections {
            return None;
        }
        if table.half_open.len() >= self.options.max_half_open {
            table.evict_oldest();
        }
        let mtu = path_mtu(from);
        let cc = self.options.control(mtu, rand::rng().random(), now).ok()?;
        let protocol = Connection::accept(self.options.config(mtu), cc, syn, rand::rng().random(), now);
        let key = (from, protocol.id());
        let member = Member::accepted(from, local, protocol);
        table.members.insert(key, Arc::clone(&member));
        table.half_open.push_back(key);
        Some(member)
    }

    /// Nobody drives the port any more: its connections end. What their peers are to be told.
    pub(crate) fn give_up(&self, wakers: &mut Vec<Waker>) -> Vec<Reset> {
        let (members, ready) = {
            let mut table = unpoisoned(&self.table);
            table.half_open.clear();
            table.ended = true;
            (std::mem::take(&mut table.members), std::mem::take(&mut table.ready))
        };
        let reset = |member: Arc<Member>| {
            let packet = member.lock().give_up(self.now(), wakers)?;
            Some(Reset { to: member.peer, from: member.local, packet })
        };
        let resets = members.into_values().filter_map(reset).collect();
        let due = unpoisoned(&self.due).take();
        drop((due, ready));
        self.emptied.notify_waiters();
        resets
    }

    /// Timers, and an end to what has ended.
    pub(crate) fn tick(&self, wakers: &mut Vec<Waker>) {
        let now = self.now();
        let mut table = unpoisoned(&self.table);
        table.strays.forget(now);
        let Table { members, half_open, .. } = &mut *table;
        members.retain(|key, member| {
            let mut end = member.lock();
            end.rest();
            // Of ten thousand connections a fifth is due each time.
            let due = end.protocol.is_check_due(now);
            if due {
                end.on_timer(now, wakers);
            }
            let forgettable = end.protocol.is_forgettable(now);
            if forgettable {
                half_open.retain(|half_open| half_open != key);
            } else if due {
                self.queue(member, &mut end);
            }
            !forgettable
        });
        if table.members.is_empty() {
            self.emptied.notify_waiters();
        }
    }
}

impl Table {
    /// The connection that `packet` is for. A RESET may carry either end's id.
    fn find(&self, from: SocketAddr, packet: &Packet) -> Option<Arc<Member>> {
        let id = packet.header.connection_id;
        match packet.header.kind {
            Kind::Syn => self.members.get(&(from, id.wrapping_add(1))).cloned(),
            Kind::Reset => self.members.get(&(from, id)).cloned().or_else(|| self.find_by_peers_id(from, id)),
            _ => self.members.get(&(from, id)).cloned(),
        }
    }

    /// The connection to `peer` whose packets to it carry `id`.
    fn find_by_peers_id(&self, peer: SocketAddr, id: u16) -> Option<Arc<Member>> {
        let others = [id.wrapping_add(1), id.wrapping_sub(1)];
        let mut theirs = others.iter().filter_map(|&other| self.members.get(&(peer, other)));
        theirs.find(|member| member.lock().protocol.peer_id() == id).cloned()
    }

    /// A connection is established: the listener may have it.
    fn offer(&mut self, member: &Arc<Member>, port: &Port) {
        let key = (member.peer, member.lock().protocol.id());
        self.half_open.retain(|half_open| *half_open != key);
        if self.listeners == 0 {
            // The last one went meanwhile.
            port.refuse(member);
            return;
        }
        self.ready.push_back(Arc::clone(member));
        port.arrived.notify_one();
    }

    /// A peer that is there answers within a round trip: the oldest is the least likely one.
    fn evict_oldest(&mut self) {
        if let Some(key) = self.half_open.pop_front() {
            self.members.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id 100 is listened on: the peer's end of that connection has 99 or 101. From 98 the peer would listen on 99.
    #[test]
    fn no_end_listens_on_an_id_twice() {
        let free: Vec<u16> = (90..110).filter(|&id| free_id(id, |taken| taken == 100) == Some(id)).collect();
        assert_eq!(free, (90..98).chain(101..110).collect::<Vec<_>>());
        assert_eq!(free_id(65_535, |taken| taken == 0 || taken == 3), Some(4), "around the wrap");
    }

    #[test]
    fn when_all_ids_are_taken_there_is_none() {
        assert_eq!(free_id(7, |taken| taken % 3 == 0), None);
    }
}
