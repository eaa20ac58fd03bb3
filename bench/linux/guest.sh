# Runs in the machine whose kernel is compared (scripts/bench-linux), beside `cbr`. Prints lines of the record:
#   KERNEL,KIND,QDISC,RUN,WHAT,PACKETS,DROPPED,MEAN,P50,P95,P99
# udp: each flow's packets that arrived and their one-way delays in ms; `all` has the discipline's drops. tcp: a probe's delays beside
# iperf3's flows, in PACKETS' place the bytes that these delivered.
set -eu
rate=10000 # kbit/s

join() { # A DEVICE ADDRESS B DEVICE ADDRESS
  ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
  for end in "$1 $2 $3" "$4 $5 $6"; do
    set -- $end
    ip -n "$1" addr add "$3/24" dev "$2"
    ip -n "$1" link set "$2" up
    ip netns exec "$1" ethtool -K "$2" tso off gso off gro off >/dev/null 2>&1
  done
}

# A router, whose queue the sender does not see: TCP holds back from a queue of its own host (TSQ).
line() { # QDISC
  for n in a r b; do ip netns add $n; done
  join a va 10.9.0.1 r ra 10.9.0.2
  join r va 10.9.1.1 b vb 10.9.1.2
  ip netns exec r sysctl -qw net.ipv4.ip_forward=1
  ip -n a route add default via 10.9.0.2
  ip -n b route add default via 10.9.1.1
  # A burst of some packets makes up for late timers; a wire's packets would be 14 bytes of Ethernet header longer than IP's, as these are.
  tc -n r qdisc add dev va root handle 1: tbf rate ${rate}kbit burst 4000 limit 100000000
  # shellcheck disable=SC2086  # options are words
  tc -n r qdisc add dev va parent 1:1 handle 10: $1
  ip netns exec a ping -c 2 -i 0.3 -W 1 10.9.1.2 >/dev/null
}

over() { for n in a r b; do ip netns del $n; done; }

dropped() { tc -n r -s qdisc show dev va | grep -A2 "parent 1:1" | sed -n 's/.*dropped \([0-9]*\).*/\1/p'; }

udp() { # RUN QDISC SECONDS BYTES KBPS...
  local run=$1 qdisc=$2 seconds=$3 bytes=$4
  shift 4
  line "$qdisc"
  ip netns exec b ./cbr receive >received &
  local receiver=$!
  ip netns exec a chrt -f 50 ./cbr send 10.9.1.2 "$seconds" "$bytes" "$@"
  wait $receiver
  awk -v head="$(uname -r),udp,$qdisc,$run" -v drops="$(dropped)" '{ print head "," $1 "," $2 "," ($1 == "all" ? drops : "") "," $3 "," $4 "," $5 "," $6 }' received
  over
}

tcp() { # RUN QDISC SECONDS CC FLOWS RTT_MS: and a probe of 100 packets of 100 bytes a second, whose delays are shown
  line "$2"
  tc -n b qdisc add dev vb root netem delay "$6ms" limit 100000
  ip netns exec b ./cbr receive >received &
  local receiver=$!
  ip netns exec b iperf3 -s -1 >/dev/null &
  sleep 0.5
  ip netns exec a iperf3 -c 10.9.1.2 -C "$4" -P "$5" -t "$3" -J >iperf &
  local client=$!
  ip netns exec a chrt -f 50 ./cbr send 10.9.1.2 "$3" 100 80
  wait $client $receiver
  local bytes
  bytes=$(sed -n '/"sum_received"/,/}/s/.*"bytes":[^0-9]*\([0-9]*\).*/\1/p' iperf)
  awk -v head="$(uname -r),tcp $4 $5,$2,$1" -v drops="$(dropped)" -v bytes="$bytes" '$1 == "all" { print head ",probe," bytes "," drops "," $3 "," $4 "," $5 "," $6 }' received
  over
}

modprobe -qa sch_tbf sch_codel sch_fq_codel sch_pie sch_fq_pie sch_netem veth || true
for run in 1 2; do
  udp $run 'codel limit 1000 noecn' 20 1000 2230 2230 2230 2230 2230
  udp $run 'pie limit 1000 noecn' 20 1000 2230 2230 2230 2230 2230
  udp $run 'fq_codel limit 10240 noecn' 20 1000 500 1000 2000 4000 4000
  udp $run 'fq_pie limit 10240 noecn' 20 1000 500 1000 2000 4000 4000
done
for qdisc in 'codel limit 1000 noecn' 'pie limit 1000 noecn' 'fq_codel limit 10240 noecn'; do tcp 1 "$qdisc" 60 cubic 4 40; done
