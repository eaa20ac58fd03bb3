//! Manages one cgroup until its standard input ends, printing its flows once a second: the smallest user of the crate.

use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use lowtide_kernel::{Choice, Config, Receiver};

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let cgroup = arguments.next().context("usage: attach CGROUP [DELAY]")?;
    let target = arguments.next().map(|text| text.parse()).transpose().map_err(anyhow::Error::msg)?;
    let choice = Choice::new(None, target).map_err(anyhow::Error::msg)?;
    let mut receiver = Receiver::attach(Path::new(&cgroup), &Config { choice, ..Config::default() })?;
    println!("attached to {} interfaces", receiver.interfaces());
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || {
        let _any = std::io::stdin().read_to_end(&mut Vec::new());
        let _last = tell.send(());
    });
    while ended.recv_timeout(Duration::from_secs(1)).is_err() {
        receiver.poll_interfaces()?;
        for flow in receiver.flows()? {
            println!("{flow:?}");
        }
    }
    println!("{:?}", receiver.totals()?);
    Ok(())
}
