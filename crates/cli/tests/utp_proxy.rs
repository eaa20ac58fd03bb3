//! `lowtide utp proxy`: pairs of processes on loopback, TCP before and behind them.

#[path = "common/utp_ends.rs"]
mod utp_ends;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use tempfile::TempDir;

use utp_ends::{Listening, bytes, send};

/// A server, and its address as a proxy is told it.
fn server() -> (TcpListener, String) {
    let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = format!("tcp:{}", server.local_addr().expect("bound"));
    (server, address)
}

/// A file with a key, as long as its folder lives.
fn key() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, bytes(32, 6)).expect("written");
    (folder, key)
}

/// TCP, uTP, TCP: many connections at once, each direction ending by itself.
#[test]
fn a_proxy_forwards_many_connections_both_ways() {
    let (server, address) = server();
    // Reads to the end, then answers with what it read, twice.
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.expect("accepted");
            std::thread::spawn(move || {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).expect("read");
                stream.write_all(&all).and_then(|()| stream.write_all(&all)).expect("written");
            });
        }
    });
    let (_folder, key) = key();
    let keyed = ["--key", key.to_str().expect("a name")];
    for more in [&[][..], &keyed] {
        let far = Listening::start(&[&["proxy", "utp:127.0.0.1:0", &address], more].concat());
        let near = Listening::start(&[&["proxy", "127.0.0.1:0", &far.address], more].concat());
        let clients: Vec<_> = (0..20)
            .map(|n| {
                let to = near.address.clone();
                std::thread::spawn(move || {
                    let sent = bytes(40_000 * (n + 1), n as u64);
                    let mut stream = TcpStream::connect(to).expect("connected");
                    stream.write_all(&sent).and_then(|()| stream.shutdown(std::net::Shutdown::Write)).expect("sent");
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).expect("read");
                    assert!(back == [sent.clone(), sent].concat());
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("whole"));
    }
}

/// A server that fails in the middle of its answer: the client must not take what it has for all of it.
#[test]
fn a_connection_that_is_reset_behind_a_proxy_is_reset_before_it() {
    let (server, address) = server();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.expect("accepted");
            stream.write_all(b"half an ans").expect("written");
            stream.read_exact(&mut [0]).expect("it was read");
            setsockopt(&stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 }).expect("a socket");
        }
    });
    let (_folder, key) = key();
    let keyed = ["--key", key.to_str().expect("a name")];
    for more in [&[][..], &keyed] {
        let far = Listening::start(&[&["proxy", "utp:127.0.0.1:0", &address], more].concat());
        let near = Listening::start(&[&["proxy", "127.0.0.1:0", &far.address], more].concat());
        let mut stream = TcpStream::connect(&near.address).expect("connected");
        stream.read_exact(&mut [0; 11]).expect("read");
        stream.write_all(b"!").expect("written");
        let error = stream.read(&mut [0]).expect_err("it has not ended");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

/// A hundred connections open at once where the shell allows sixty-four descriptors.
#[test]
fn a_proxy_is_not_held_to_the_shells_limit_of_open_files() {
    let (server, address) = server();
    let far = Listening::start(&["proxy", "utp:127.0.0.1:0", &address]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 64; exec \"$0\" utp proxy 127.0.0.1:0 \"$1\" --json", env!("CARGO_BIN_EXE_lowtide"), &far.address]);
    let near = Listening::of(&mut command);
    let clients: Vec<_> = (0..100).map(|_| TcpStream::connect(&near.address).expect("connected")).collect();
    let mut servers: Vec<_> = (0..100).map(|_| server.accept().expect("all come through").0).collect();
    servers.iter_mut().for_each(|server| server.write_all(b"hello").expect("written"));
    for mut client in clients {
        client.read_exact(&mut [0; 5]).expect("read");
    }
}

#[test]
fn what_a_proxy_with_a_key_leads_to_sees_nobody_without_it() {
    let (server, address) = server();
    server.set_nonblocking(true).expect("a socket");
    let (_folder, key) = key();
    let far = Listening::start(&["proxy", "utp:127.0.0.1:0", &address, "--key", key.to_str().expect("a name")]);
    assert!(!send(&key, &far.address, &[]).status.success(), "it has no key");
    assert_eq!(server.accept().expect_err("nobody came").kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_connection_to_nobody_is_reset_before_a_proxy() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let (_folder, key) = key();
    let keyed = ["--key", key.to_str().expect("a name")];
    for more in [&[][..], &keyed] {
        let far = Listening::start(&[&["proxy", "utp:127.0.0.1:0", &format!("tcp:{closed}")], more].concat());
        let near = Listening::start(&[&["proxy", "127.0.0.1:0", &far.address], more].concat());
        // Where nobody listens for uTP either.
        let nowhere = Listening::start(&[&["proxy", "127.0.0.1:0", &format!("utp:{closed}")], more].concat());
        for proxy in [&near, &nowhere] {
            let error = TcpStream::connect(&proxy.address).expect("connected").read(&mut [0]).expect_err("nobody is there");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
}
