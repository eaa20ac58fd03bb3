//! Manages one cgroup until its standard input ends, printing its flows once a second: the smallest user of the crate.

use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use lowtide_kernel::{Config, Receiver, Target};

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let cgroup = arguments.next().context("usage: attach CGROUP [TARGET]")?;
    let target = arguments.next().map_or(Ok(Target::default()), |text| text.parse()).map_err(anyhow::Error::msg)?;
    let mut receiver = Receiver::attach(Path::new(&cgroup), &Config { target, ..Config::default() })?;
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
