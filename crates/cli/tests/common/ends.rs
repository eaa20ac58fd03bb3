//! A program that has both ends of a connection, and says by which controls they send.

use std::fs;
use std::io::Write;
use std::process::ChildStdin;

use crate::running::Running;

/// Prints both controls' names when the connection is open, and after each line it reads, when another 100 kB have gone from one end to the
/// other. The sending end asks for the control that the argument names, and later for one that such a line names.
pub const BOTH_ENDS: &str = r#"
use Socket; $| = 1;
sub name { my $n = getsockopt($_[0], 6, 13); $n =~ s/\0.*//s; $n }
socket(my $l, AF_INET, SOCK_STREAM, 6); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 1);
socket(my $c, AF_INET, SOCK_STREAM, 6);
setsockopt($c, 6, 13, $ARGV[0]) if $ARGV[0];
connect($c, getsockname($l)) or die $!; accept(my $a, $l);
setsockopt($c, 6, 13, $ARGV[0]) if $ARGV[0];
print name($c), ' ', name($a), "\n";
while (<STDIN>) {
    chomp; setsockopt($c, 6, 13, $_) if $_;
    for (1 .. 10) { syswrite($c, 'x' x 10000); my $n = 0; while ($n < 10000) { $n += sysread($a, my $b, 10000 - $n) or die; } }
    print name($c), ' ', name($a), "\n";
}
"#;

/// Says `line` to `BOTH_ENDS`; what it prints then.
pub fn ask(running: &mut Running, input: &mut ChildStdin, line: &str) -> String {
    writeln!(input, "{line}").expect("it reads");
    running.line()
}

/// The controls that the kernel has.
pub fn controls() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("every Linux has it")
}
