//! What a run can be watched by, packet for packet: captures, qlog, events. Says what there is to see and opens the files;
//! changes nothing in the run. A run that nobody watches pays one comparison a packet and hop.

mod events;
mod headers;
mod pcap;
mod qlog;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lowtide_net::Drop;
use lowtide_scenario::scenario::Direction;
use lowtide_units::Time;

use crate::flow::{Flow, FlowSpec};
use crate::link::{Link, QueueState};
use crate::packet::Packet;
use crate::slab::Handle;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its endpoint sends it.
    Send,
    /// It joins a queue.
    Enqueue,
    /// The queue marks it CE.
    Mark,
    /// It leaves the queue and begins to be transmitted.
    Dequeue,
    /// It will not arrive.
    Drop(Drop),
    /// Its endpoint receives it.
    Deliver,
}

/// Who watches.
pub trait Watcher {
    /// `packet` takes a step at `now`; at a stage with a link, which the step has left in that state.
    fn packet(&mut self, now: Time, step: Step, packet: &Packet, at: Option<(u16, QueueState)>);

    /// The sender of flow `id` has reacted to an acknowledgement or a timer, or has sent.
    fn sender(&mut self, now: Time, id: u32, flow: &mut Flow);

    /// The run is over.
    ///
    /// # Errors
    /// A file that could not be written, now or earlier.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Everybody who watches: nobody, in most runs.
#[derive(Default)]
pub struct TraceSinks(pub Vec<Box<dyn Watcher>>);

impl TraceSinks {
    /// Whether anybody watches.
    #[inline(always)]
    pub fn watch(&self) -> bool {
        !self.0.is_empty()
    }

    #[cold]
    fn tell(&mut self, now: Time, step: Step, packet: &Packet, at: Option<(u16, QueueState)>) {
        self.0.iter_mut().for_each(|watcher| watcher.packet(now, step, packet, at));
    }

    #[cold]
    fn tell_sender(&mut self, now: Time, id: u32, flow: &mut Flow) {
        self.0.iter_mut().for_each(|watcher| watcher.sender(now, id, flow));
    }

    /// `packet` takes a step at an endpoint, or is dropped.
    #[inline(always)]
    pub fn packet(&mut self, now: Time, step: Step, packet: &Packet, at: Option<(u16, QueueState)>) {
        if self.watch() {
            self.tell(now, step, packet, at);
        }
    }

    /// The CE marks of `link` before a packet is given to it or taken from it; nothing if nobody watches.
    #[inline(always)]
    pub fn marks(&self, link: &Link) -> u64 {
        if self.watch() { link.marks() } else { 0 }
    }

    /// `handle` was given to a link that had set `marks` before, has dropped what is `dropped` and is left as `at` says.
    #[cold]
    pub fn queued(
        &mut self,
        now: Time,
        (packet, handle): (&Packet, &Handle),
        at: (u16, QueueState),
        marks: u64,
        dropped: &[(Handle, Drop)],
    ) {
        if dropped.iter().any(|(dropped, _)| dropped.is_same(handle)) {
            return;
        }
        self.tell(now, Step::Enqueue, packet, Some(at));
        if at.1.marks > marks {
            self.tell(now, Step::Mark, packet, Some(at));
        }
    }

    /// `packet` has left the queue of a link which had set `marks` before and is left as `at` says.
    #[cold]
    pub fn left(&mut self, now: Time, packet: &Packet, at: (u16, QueueState), marks: u64) {
        if at.1.marks > marks {
            self.tell(now, Step::Mark, packet, Some(at));
        }
        self.tell(now, Step::Dequeue, packet, Some(at));
    }

    /// The sender of flow `id` has acted.
    pub fn sender(&mut self, now: Time, id: u32, flow: &mut Flow) {
        if self.watch() {
            self.tell_sender(now, id, flow);
        }
    }
}

/// What to write of a run, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The folder that the files go to.
    pub folder: PathBuf,
    /// `server.pcap` and `client.pcap`, so many bytes of each packet.
    pub pcap: Option<u32>,
    /// `qlog/NAME.sqlog`, one a connection.
    pub qlog: bool,
    /// `events.parquet`.
    pub events: bool,
}

impl Request {
    /// Whether anything is asked for.
    pub fn is_none(&self) -> bool {
        self.pcap.is_none() && !self.qlog && !self.events
    }

    /// The files, below the folder, that the request leaves behind in any case.
    pub fn files(&self) -> Vec<&'static str> {
        let files = [(pcap::SERVER, self.pcap.is_some()), (pcap::CLIENT, self.pcap.is_some()), (qlog::FOLDER, self.qlog)];
        let events = (lowtide_scenario::events::EVENTS, self.events);
        files.into_iter().chain([events]).filter(|f| f.1).map(|f| f.0).collect()
    }
}

/// Who and what is in a run, by the numbers that packets carry.
#[derive(Clone, Debug, Default)]
pub struct Participants {
    /// By `Packet::flow`.
    pub connections: Vec<Connection>,
    /// Names of the stages; empty for those that are no bottleneck.
    pub links: Vec<Arc<str>>,
}

/// One connection, or datagram flow.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The flow's name in the summary.
    pub name: Arc<str>,
    /// The how-manieth of that flow, and whether there are others.
    pub number: usize,
    /// Whether that flow has others.
    pub of_many: bool,
    /// Who sends.
    pub direction: Direction,
    /// As planned.
    pub spec: Arc<FlowSpec>,
}

/// Everybody whom `request` asks for.
///
/// # Errors
/// A folder that cannot be written.
pub fn watchers(request: &Request, participants: &Arc<Participants>) -> io::Result<Vec<Box<dyn Watcher>>> {
    let mut all: Vec<Box<dyn Watcher>> = Vec::new();
    if let Some(snaplen) = request.pcap {
        all.push(Box::new(pcap::Captures::create(&request.folder, snaplen, participants)?));
    }
    if request.qlog {
        all.push(Box::new(qlog::Logs::create(&request.folder, participants)?));
    }
    if request.events {
        all.push(Box::new(events::Events::create(&request.folder, participants)?));
    }
    Ok(all)
}
