//! The laboratory of real network stacks: namespaces of its own joined by a user-space link that runs `net` in real time,
//! with real servers, clients and probes across it. Changes no setting of the machine and leaves nothing behind.

pub mod canary;
pub mod clock;
pub mod link;
pub mod measure;
mod netlink;
pub mod netns;
pub mod outcome;
pub mod packet;
pub mod path;
pub mod plan;
pub mod probe;
pub mod programs;
pub mod run;
pub mod series;
pub mod server;
pub mod site;
mod sockets;
pub mod tun;
pub mod utp;
