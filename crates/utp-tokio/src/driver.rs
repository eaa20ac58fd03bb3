//! The task of a port: receives, lets connections send, looks at timers. Ends when nobody holds the port and nothing is left on it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use lowtide_cc::Time;
use lowtide_utp::Header;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::connection::{End, Member};
use crate::errors::{self, Trouble};
use crate::port::{Port, Reset};
use crate::train::Train;
use crate::udp::Batch;

/// Timers are looked at this often, or as often as a connection's own tick wants, which is 500 ms by default.
const TICK: Duration = Duration::from_millis(100);
/// System calls that receive before others have their turn.
const MOST_BATCHES: usize = 16;
/// Reports of the network that are looked at before others have their turn.
const MOST_REPORTS: usize = 64;
/// Trains that one connection sends before others have their turn.
const MOST_TRAINS: usize = 16;

struct Driver {
    port: Arc<Port>,
    batch: Batch,
    train: Train,
    wakers: Vec<Waker>,
    resets: Vec<Reset>,
    /// What the socket had no room for; until it is gone nothing else leaves.
    waiting: VecDeque<Train>,
    /// Connections that could not send for that reason.
    stalled: Vec<Arc<Member>>,
    /// Connections whose next packet waits for its time, each once.
    paced: BTreeMap<(Time, usize), Arc<Member>>,
}

/// However the task ends: who waits for a connection is told, and so are peers, who else would wait for minutes.
impl Drop for Driver {
    fn drop(&mut self) {
        for Reset { to, from, packet: reset } in self.port.give_up(&mut self.wakers) {
            self.train.restart(to, from);
            self.train.push(reset.bytes(), |out| reset.encode_head(out));
            self.port.udp.send_without_runtime(&self.train);
        }
        self.wake();
    }
}

/// Drives `port` until it is over.
pub(crate) async fn run(port: Arc<Port>) {
    let train = Train::new(port.udp.local(), port.udp.longest_train());
    let mut driver = Driver {
        port,
        batch: Batch::new(),
        train,
        wakers: Vec::new(),
        resets: Vec::new(),
        waiting: VecDeque::new(),
        stalled: Vec::new(),
        paced: BTreeMap::new(),
    };
    let mut ticks = interval(TICK.min(Duration::from_nanos(driver.port.options.tick.nanos())));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !driver.port.is_over() {
        let port = Arc::clone(&driver.port);
        tokio::select! {
            _ = port.udp.readable() => {
                driver.hear(None);
                driver.receive();
            }
            () = port.wake.notified() => {}
            () = sleep_until(driver.next_paced()), if !driver.paced.is_empty() => driver.release(),
            _ = ticks.tick() => {
                port.tick(&mut driver.wakers);
                driver.wake();
            }
            _ = port.udp.writable(), if !driver.waiting.is_empty() => {}
        }
        driver.send();
    }
}

impl Driver {
    /// Reports of the network. Nothing answers them, and no more are looked at than this: the kernel drops what does not fit its queue.
    /// This host's own report about a datagram that was just sent quotes nothing: `probe` is what it is about.
    fn hear(&mut self, probe: Option<(SocketAddr, Header)>) {
        for _ in 0..MOST_REPORTS {
            match self.port.udp.trouble(probe.is_some()) {
                Ok(Some(Trouble { to, quoted, report })) => {
                    // It names the peer's address, and no port: the socket is not connected.
                    let own = probe.filter(|probe| probe.0.ip() == to.ip());
                    let Some((to, quoted)) = quoted.map(|quoted| (to, quoted)).or(own) else { continue };
                    self.port.report(to, &quoted, report, &mut self.wakers);
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
        self.wake();
    }

    /// Each batch is acknowledged before the next is received: what came together is acknowledged together (libutp's deferred
    /// acknowledgements), and no more than that.
    fn receive(&mut self) {
        for _ in 0..MOST_BATCHES {
            // An error that is none of the socket's (an ICMP message) leaves nothing to be done but to go on.
            if self.port.udp.receive(&mut self.batch).is_err() {
                return;
            }
            self.port.receive(&self.batch, &mut self.wakers, &mut self.resets);
            self.wake();
            self.send();
        }
    }

    fn next_paced(&self) -> Instant {
        self.paced.keys().next().map_or_else(Instant::now, |&(at, _)| self.port.instant(at))
    }

    /// Lets those send whose time has come.
    fn release(&mut self) {
        let now = self.port.now();
        while let Some(first) = self.paced.first_entry().filter(|first| first.key().0 <= now) {
            let member = first.remove();
            let mut end = member.lock();
            end.paced = false;
            self.port.queue(&member, &mut end);
        }
    }

    /// Remembers that `member` waits for its time, if it does and is not remembered yet.
    fn pace(&mut self, member: &Arc<Member>, end: &mut End) {
        let Some(at) = end.protocol.paced_until().filter(|_| !std::mem::replace(&mut end.paced, true)) else { return };
        self.paced.insert((at, Arc::as_ptr(member) as usize), Arc::clone(member));
    }

    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    fn send(&mut self) {
        while let Some(train) = self.waiting.front() {
            let sent = self.port.udp.send(train);
            if would_block(&sent) {
                return;
            }
            let of = (train.to, train.header(), train.probe);
            self.waiting.pop_front();
            if let Err(e) = sent {
                self.refused(&e, of);
            }
        }
        for Reset { to, from, packet: reset } in std::mem::take(&mut self.resets) {
            self.train.restart(to, from);
            self.train.push(reset.bytes(), |out| reset.encode_head(out));
            self.leave_or_wait();
        }
        let mut due = std::mem::take(&mut self.stalled);
        due.append(&mut self.port.take_due());
        let mut due = due.into_iter();
        while self.waiting.is_empty()
            && let Some(member) = due.next()
        {
            self.send_of(&member);
        }
        self.stalled.extend(due);
    }

    /// Sends what `member` has to send. The lock is free while the kernel works.
    fn send_of(&mut self, member: &Arc<Member>) {
        for n in 0..=MOST_TRAINS {
            self.train.restart(member.peer, member.local);
            let mut end = member.lock();
            end.queued = false;
            if n == MOST_TRAINS {
                self.port.queue_and_wake(member, &mut end);
                return;
            }
            let more = end.fill(&mut self.train, self.port.now());
            self.pace(member, &mut end);
            drop(end);
            if !self.train.is_empty() {
                self.leave_or_wait();
            }
            if !more {
                return;
            }
            if !self.waiting.is_empty() {
                self.stalled.push(Arc::clone(member));
                return;
            }
        }
    }

    /// The train that was filled leaves, or waits.
    fn leave_or_wait(&mut self) {
        let sent = self.port.udp.send(&self.train);
        if would_block(&sent) {
            let fresh = Train::new(self.train.to, self.port.udp.longest_train());
            self.waiting.push_back(std::mem::replace(&mut self.train, fresh));
        } else if let Err(e) = sent {
            self.refused(&e, (self.train.to, self.train.header(), self.train.probe));
        }
    }

    /// What the kernel refuses is lost like any other packet, but for what this host itself knows at once.
    fn refused(&mut self, error: &io::Error, (to, header, probe): (SocketAddr, Option<Header>, bool)) {
        let Some(header) = header else { return };
        if probe {
            // Larger than what this host's own device carries.
            self.hear(Some((to, header)));
        } else if let Some(report) = errors::own_report(error) {
            self.port.report(to, &header, report, &mut self.wakers);
            self.wake();
        }
    }
}

fn would_block(sent: &io::Result<()>) -> bool {
    sent.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
}
