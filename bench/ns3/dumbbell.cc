// One bottleneck shared by TCP flows, in ns-3 3.37: the run that crates/sim is compared with (scripts/bench-ns3).
// Prints what the run came to, as "key value" lines, and on request each flow's window over time.
//
// The path is the simulator's: senders reach the bottleneck without delay, the queue is where packets wait, half the
// round trip lies behind it and half on the way back, where nothing queues.

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{

/// What the run is asked for.
struct Options
{
    std::string cc = "TcpNewReno";
    std::string others;
    uint32_t flows = 1;
    double rateMbps = 10;
    double rttMs = 40;
    double accessGbps = 100;
    double spreadMs = 0;
    std::string queue = "fifo";
    uint32_t packets = 100;
    double markMs = 0;
    double duration = 60;
    double warmup = 0;
    double stagger = 0;
    double sample = 0;
    std::string trace;
};

/// Measures at the bottleneck: how long packets wait there, and how many are dropped or marked.
class Bottleneck
{
  public:
    explicit Bottleneck(double from) : m_from(Seconds(from)) {}

    void Arrived(Ptr<const Packet> packet)
    {
        // Of the object: segments cut from one buffer share the id of its packet.
        m_arrival[PeekPointer(packet)] = Simulator::Now();
        m_arrivals += Measuring();
    }

    void Queued(Ptr<const QueueDiscItem> item) { Arrived(item->GetPacket()); }

    void Sent(Ptr<const Packet> packet)
    {
        auto at = m_arrival.find(PeekPointer(packet));
        if (at == m_arrival.end())
        {
            return;
        }
        if (Measuring())
        {
            m_waited += Simulator::Now() - at->second;
            m_sent++;
        }
        m_arrival.erase(at);
    }

    void DroppedPacket(Ptr<const Packet> packet)
    {
        m_arrival.erase(PeekPointer(packet));
        m_drops += Measuring();
    }

    void DroppedItem(Ptr<const QueueDiscItem> item) { DroppedPacket(item->GetPacket()); }

    void Marked(Ptr<const QueueDiscItem>, const char*) { m_marks += Measuring(); }

    uint32_t Waiting() const { return m_arrival.size(); }

    void Print() const
    {
        std::printf("arrivals %lu\ndrops %lu\nmarks %lu\nqueue_delay_ms %.3f\n",
                    m_arrivals,
                    m_drops,
                    m_marks,
                    m_sent ? m_waited.GetSeconds() * 1e3 / m_sent : 0.0);
    }

  private:
    bool Measuring() const { return Simulator::Now() >= m_from; }

    Time m_from;
    Time m_waited;
    uint64_t m_arrivals{0};
    uint64_t m_sent{0};
    uint64_t m_drops{0};
    uint64_t m_marks{0};
    std::unordered_map<const Packet*, Time> m_arrival;
};

/// The windows of all flows, written at even intervals.
class Windows
{
  public:
    Windows(const Options& options, const Bottleneck& bottleneck)
        : m_options(options), m_bottleneck(bottleneck), m_cwnd(options.flows, 0)
    {
        if (!options.trace.empty() && options.sample > 0)
        {
            m_out.open(options.trace);
            m_out << "time_s,queue_packets";
            for (uint32_t i = 0; i < options.flows; i++)
            {
                m_out << ",cwnd_bytes";
            }
            m_out << "\n";
            Simulator::Schedule(Seconds(options.sample), &Windows::Sample, this);
        }
    }

    void Changed(uint32_t flow, uint32_t, uint32_t now) { m_cwnd[flow] = now; }

  private:
    void Sample()
    {
        m_out << Simulator::Now().GetSeconds() << "," << m_bottleneck.Waiting();
        for (uint32_t cwnd : m_cwnd)
        {
            m_out << "," << cwnd;
        }
        m_out << "\n";
        Simulator::Schedule(Seconds(m_options.sample), &Windows::Sample, this);
    }

    const Options& m_options;
    const Bottleneck& m_bottleneck;
    std::vector<uint32_t> m_cwnd;
    std::ofstream m_out;
};

Options
Parse(int argc, char** argv)
{
    Options o;
    CommandLine cmd;
    cmd.AddValue("cc", "ns-3 class, e.g. TcpCubic; TcpWestwoodPlus is TcpWestwood with its other type", o.cc);
    cmd.AddValue("others", "ns-3 class of all flows but the first, if another", o.others);
    cmd.AddValue("flows", "flows", o.flows);
    cmd.AddValue("rate", "bottleneck, Mbit/s", o.rateMbps);
    cmd.AddValue("rtt", "round trip, ms", o.rttMs);
    cmd.AddValue("access",
                 "rate of all other links, Gbit/s: at 100 an acknowledgement without SACK blocks is a nanosecond or two faster than one with",
                 o.accessGbps);
    cmd.AddValue("spread", "by how much the last flow's round trip is longer, ms", o.spreadMs);
    cmd.AddValue("queue", "fifo, step, codel, pie, fq_codel or fq_pie; step marks all that waited longer than mark", o.queue);
    cmd.AddValue("packets", "limit of the queue", o.packets);
    cmd.AddValue("mark", "threshold of the queue step, ms", o.markMs);
    cmd.AddValue("duration", "seconds", o.duration);
    cmd.AddValue("warmup", "seconds before the measurement begins", o.warmup);
    cmd.AddValue("stagger", "seconds between starts", o.stagger);
    cmd.AddValue("sample", "seconds between the trace's lines", o.sample);
    cmd.AddValue("trace", "file for the windows", o.trace);
    cmd.Parse(argc, argv);
    return o;
}

/// lowtide's TCP where ns-3's defaults differ: segment size, buffers that never limit. CoDel leaves a queue of one packet
/// alone (RFC 8289); ns-3 asks for less than MinBytes, which it sets to just a packet.
void
SetDefaults(const Options& o)
{
    std::string cc = o.cc;
    if (cc == "TcpWestwoodPlus")
    {
        cc = "TcpWestwood";
        Config::SetDefault("ns3::TcpWestwood::ProtocolType", StringValue("WestwoodPlus"));
    }
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + cc)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 24));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 24));
    Config::SetDefault("ns3::CoDelQueueDisc::MinBytes", UintegerValue(1501));
    if (o.queue == "step")
    {
        // CoDel's threshold for marks alone: its own law would act at a delay that is never reached.
        Config::SetDefault("ns3::CoDelQueueDisc::UseEcn", BooleanValue(true));
        Config::SetDefault("ns3::CoDelQueueDisc::CeThreshold", TimeValue(Seconds(o.markMs / 1e3)));
        Config::SetDefault("ns3::CoDelQueueDisc::Target", StringValue("1s"));
    }
}

/// The queue in front of the bottleneck. An AQM sits on a device queue of one packet, the least ns-3 allows.
void
SetQueue(const Options& o, Ptr<NetDevice> device, Bottleneck& bottleneck)
{
    auto p2p = DynamicCast<PointToPointNetDevice>(device);
    std::string limit = std::to_string(o.packets) + "p";
    p2p->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&Bottleneck::Sent, &bottleneck));
    if (o.queue == "fifo")
    {
        p2p->GetQueue()->SetMaxSize(QueueSize(limit));
        p2p->TraceConnectWithoutContext("MacTx", MakeCallback(&Bottleneck::Arrived, &bottleneck));
        // A device without a discipline stops the layer above when it is full, and there the packet is dropped.
        auto above = device->GetNode()->GetObject<TrafficControlLayer>();
        above->TraceConnectWithoutContext("TcDrop", MakeCallback(&Bottleneck::DroppedPacket, &bottleneck));
        return;
    }
    static const std::map<std::string, std::string> types = {{"step", "ns3::CoDelQueueDisc"},
                                                             {"codel", "ns3::CoDelQueueDisc"},
                                                             {"pie", "ns3::PieQueueDisc"},
                                                             {"fq_codel", "ns3::FqCoDelQueueDisc"},
                                                             {"fq_pie", "ns3::FqPieQueueDisc"}};
    p2p->GetQueue()->SetMaxSize(QueueSize("1p"));
    TrafficControlHelper helper;
    helper.SetRootQueueDisc(types.at(o.queue), "MaxSize", StringValue(limit));
    Ptr<QueueDisc> disc = helper.Install(device).Get(0);
    disc->TraceConnectWithoutContext("Enqueue", MakeCallback(&Bottleneck::Queued, &bottleneck));
    disc->TraceConnectWithoutContext("Drop", MakeCallback(&Bottleneck::DroppedItem, &bottleneck));
    disc->TraceConnectWithoutContext("Mark", MakeCallback(&Bottleneck::Marked, &bottleneck));
}

void
Connect(Ptr<Node> sender, Windows* windows, uint32_t flow)
{
    std::ostringstream path;
    path << "/NodeList/" << sender->GetId() << "/$ns3::TcpL4Protocol/SocketList/0/CongestionWindow";
    auto changed = +[](Windows* windows, uint32_t flow, uint32_t was, uint32_t now) { windows->Changed(flow, was, now); };
    Config::ConnectWithoutContext(path.str(), MakeBoundCallback(changed, windows, flow));
}

} // namespace

int
main(int argc, char** argv)
{
    Options o = Parse(argc, argv);
    SetDefaults(o);
    NodeContainer senders(o.flows);
    NodeContainer routers(2);
    InternetStackHelper internet;
    internet.Install(senders);
    internet.Install(routers);
    for (uint32_t i = 1; i < o.flows && !o.others.empty(); i++)
    {
        senders.Get(i)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + o.others)));
    }

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", DataRateValue(DataRate(o.accessGbps * 1e9)));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
    PointToPointHelper line = access;
    line.SetChannelAttribute("Delay", TimeValue(Seconds(o.rttMs / 2e3)));
    NetDeviceContainer ends = line.Install(routers);
    ends.Get(0)->SetAttribute("DataRate", DataRateValue(DataRate(o.rateMbps * 1e6)));

    Bottleneck bottleneck(o.warmup);
    SetQueue(o, ends.Get(0), bottleneck);
    TrafficControlHelper control;
    Ipv4AddressHelper addresses("10.1.0.0", "255.255.255.0");
    std::vector<NetDeviceContainer> links;
    for (uint32_t i = 0; i < o.flows; i++)
    {
        double more = o.flows > 1 ? o.spreadMs * i / (o.flows - 1) : 0;
        access.SetChannelAttribute("Delay", TimeValue(Seconds(more / 2e3)));
        links.push_back(access.Install(senders.Get(i), routers.Get(0)));
        addresses.Assign(links.back());
        addresses.NewNetwork();
        control.Uninstall(links.back());
    }
    Ipv4InterfaceContainer far = addresses.Assign(ends);
    if (o.queue == "fifo")
    {
        control.Uninstall(ends);
    }
    else
    {
        control.Uninstall(ends.Get(1));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    // All receivers live behind the bottleneck, on the router itself: nothing more happens to a packet there.
    Windows windows(o, bottleneck);
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < o.flows; i++)
    {
        InetSocketAddress to(far.GetAddress(1), 5000 + i);
        sinks.Add(PacketSinkHelper("ns3::TcpSocketFactory", to).Install(routers.Get(1)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", to);
        // Less than a segment at a time would make the first ones look limited by the application (CalculateAppLimited).
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        ApplicationContainer sender = bulk.Install(senders.Get(i));
        sender.Start(Seconds(o.stagger * i));
        Simulator::Schedule(Seconds(o.stagger * i) + NanoSeconds(1), &Connect, senders.Get(i), &windows, i);
    }
    std::vector<uint64_t> before(o.flows, 0);
    auto received = [&](uint32_t i) { return DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx(); };
    Simulator::Schedule(Seconds(o.warmup), [&] {
        for (uint32_t i = 0; i < o.flows; i++)
        {
            before[i] = received(i);
        }
    });
    Simulator::Stop(Seconds(o.duration));
    Simulator::Run();

    std::printf("events %lu\n", Simulator::GetEventCount());
    bottleneck.Print();
    for (uint32_t i = 0; i < o.flows; i++)
    {
        std::printf("goodput_bps %.0f\n", (received(i) - before[i]) * 8 / (o.duration - o.warmup));
    }
    Simulator::Destroy();
    return 0;
}
