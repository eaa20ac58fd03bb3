//! What the kernel's timestamps of arrival would gain: how much later than the kernel a port's thread sees a datagram come, which is an
//! error of the one-way delays that the peer is told. Probes each 5 ms to a socket of the same thread, first with nothing else to do,
//! then beside a transfer over uTP at full speed.
//!
//! `cargo run --release -p lowtide-utp-tokio --example arrival [SECONDS]`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example measures in real time and prints")]

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use lowtide_utp_tokio::{Options, UtpListener, UtpSocket};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UdpSocket;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let span = Duration::from_secs(seconds);
    println!("a port's thread sees a datagram later than the kernel by, in µs: median, 95 %, 99 %, worst");
    println!("nothing else to do    {}", show(&mut lateness(span).await?));
    let mut listener = UtpListener::bind(any(), Options::default())?;
    let socket = UtpSocket::bind(any(), Options::default())?;
    let (ours, theirs) = tokio::join!(socket.connect(listener.socket().local_addr()?), listener.accept());
    let (mut ours, mut theirs) = (ours?, theirs?);
    tokio::spawn(async move { while ours.write_all(&[7; 1 << 16]).await.is_ok() {} });
    tokio::spawn(async move {
        let mut bytes = vec![0; 1 << 16];
        while theirs.read(&mut bytes).await.is_ok_and(|n| n > 0) {}
    });
    println!("beside a transfer     {}", show(&mut lateness(span).await?));
    Ok(())
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Of each probe, in µs.
async fn lateness(span: Duration) -> Result<Vec<f64>> {
    let socket = UdpSocket::bind(any()).await?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    let to = socket.local_addr()?;
    // Another thread sends: this one's business must not decide when.
    let sending = std::thread::spawn(move || -> std::io::Result<()> {
        let from = std::net::UdpSocket::bind(any())?;
        let end = Instant::now() + span;
        while Instant::now() < end {
            from.send_to(&[0; 20], to)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        from.send_to(&[], to).map(drop)
    });
    let mut late = Vec::new();
    loop {
        socket.readable().await?;
        match socket.try_io(Interest::READABLE, || Ok(arrival(&socket)?)) {
            Ok((0, _)) => break,
            Ok((_, Some(kernel))) => {
                let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
                late.push(((now - kernel).tv_sec() as f64).mul_add(1e6, (now - kernel).tv_nsec() as f64 / 1e3));
            }
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
    }
    sending.join().map_err(|_| "the sender died")??;
    Ok(late)
}

/// The next datagram's bytes, and when the kernel had it.
fn arrival(socket: &UdpSocket) -> nix::Result<(usize, Option<TimeSpec>)> {
    let mut bytes = [0; 64];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let mut space = nix::cmsg_space!(TimeSpec);
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
    let at = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(at),
        _ => None,
    });
    Ok((message.bytes, at))
}

fn show(late: &mut [f64]) -> String {
    late.sort_by(f64::total_cmp);
    let at = |q: f64| late[((late.len() - 1) as f64 * q) as usize];
    format!("{:.0}, {:.0}, {:.0}, {:.0}", at(0.5), at(0.95), at(0.99), at(1.0))
}
