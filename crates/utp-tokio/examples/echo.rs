//! A server that answers with what it hears, and a client that sends standard input there and prints the answer.
//!
//! `cargo run -p lowtide-utp-tokio --example echo -- listen 127.0.0.1:7070`
//! `cargo run -p lowtide-utp-tokio --example echo -- connect 127.0.0.1:7070 < FILE`

#![expect(clippy::print_stderr, reason = "an example says who connects")]

use std::net::SocketAddr;

use lowtide_utp_tokio::{Options, UtpListener, UtpSocket};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address.parse()?).await,
        ["connect", address] => connect(address.parse()?).await,
        _ => Err("usage: echo listen ADDRESS:PORT | echo connect ADDRESS:PORT".into()),
    }
}

async fn listen(address: SocketAddr) -> Result<()> {
    // Any control of lowtide-cc, for what this end sends.
    let options = Options { control: "ledbat_pp".to_owned(), ..Options::default() };
    let mut listener = UtpListener::bind(address, options)?;
    loop {
        let mut stream = listener.accept().await?;
        tokio::spawn(async move {
            let peer = stream.peer_addr();
            let (mut from, mut to) = tokio::io::split(&mut stream);
            match tokio::io::copy(&mut from, &mut to).await {
                Ok(bytes) => eprintln!("{peer}: {bytes} bytes"),
                Err(e) => eprintln!("{peer}: {e}"),
            }
            // Dropped, it still delivers what was written.
        });
    }
}

async fn connect(address: SocketAddr) -> Result<()> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UtpSocket::bind(any.parse()?, Options::default())?;
    let mut stream = socket.connect(address).await?;
    let mut here = tokio::io::join(tokio::io::stdin(), tokio::io::stdout());
    // Each direction ends by itself: the answer goes on when standard input has ended.
    tokio::io::copy_bidirectional(&mut here, &mut stream).await?;
    drop(stream);
    // Until the other end has everything; a program that ends at once resets its connections.
    socket.close().await;
    Ok(())
}
