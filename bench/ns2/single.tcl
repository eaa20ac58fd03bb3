# One flow of an agent of ns-2 over one link: ns single.tcl AGENT TIMESTAMPS SECONDS
# 10 Mbit/s, 20 ms each way, a FIFO of 50 packets of 1500 bytes; a sink that acknowledges each packet and does not SACK.
# Prints a line every 0.1 s (time, window in packets, packets sent again so far) and what it came to as a comment.
lassign $argv agent timestamps seconds
set ns [new Simulator]
set sender [$ns node]
set receiver [$ns node]
$ns duplex-link $sender $receiver 10Mb 20ms DropTail
$ns queue-limit $sender $receiver 50
Agent/TCP set windowInit_ 2
Agent/TCP set window_ 10000
Agent/TCP set packetSize_ 1460
Agent/TCP set minrto_ 0.2
Agent/TCP set timestamps_ $timestamps
set tcp [new Agent/TCP/$agent]
if {$agent eq "Linux"} { $ns at 0 "$tcp select_ca reno" }
set sink [new Agent/TCPSink]
$ns attach-agent $sender $tcp
$ns attach-agent $receiver $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0 "$ftp start"
proc sample {} {
  global ns tcp
  puts "[format %.1f [$ns now]],[format %.3f [$tcp set cwnd_]],[$tcp set nrexmitpack_]"
  $ns at [expr {[$ns now] + 0.1}] sample
}
puts "time_s,cwnd_packets,resent"
$ns at 0.1 sample
$ns at $seconds {
  puts "# acked [$tcp set ack_]"
  puts "# resent [$tcp set nrexmitpack_]"
  puts "# timeouts [$tcp set nrexmit_]"
  exit 0
}
$ns run
