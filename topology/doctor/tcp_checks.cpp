// Checks of TCP between hosts: congestion control, buffers, MTU, queueing disciplines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>

#include "topology/doctor/bytes_text.hpp"
#include "topology/doctor/checks.hpp"
#include "topology/doctor/net_interfaces.hpp"
#include "topology/parse/numbers.hpp"

namespace weft::doctor {
namespace {

// The least that a buffer may grow to: Linux's default for sending.
constexpr std::uint64_t kLeastBuffer = std::uint64_t{4} << 20;
// A buffer holds the data of one round trip. Between hosts under load 0.5 ms is ample. The kernel
// counts the memory of whole packets, up to twice their data: so 1 ms of the interface's rate.
constexpr std::uint64_t kBytesPerMbit = 125;

constexpr long kFastMbit = 10'000;
constexpr long kJumboMtu = 9000;

/// A setting below net.ipv4; empty if it can't be read.
std::string ipv4_setting(const Scene& scene, std::string_view name) {
  return scene.files.read(fmt::format("/proc/sys/net/ipv4/{}", name)).value_or("");
}

std::vector<std::string> words_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool paces(std::string_view congestion_control) { return congestion_control.starts_with("bbr"); }

/// Those that serve a job best, the best first.
std::vector<std::string> without_pacing(const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const char* name : {"cubic", "reno"})
    if (std::ranges::find(names, name) != names.end()) found.emplace_back(name);
  return found;
}

std::string change_congestion_control(const Scene& scene) {
  const auto available =
      without_pacing(words_in(ipv4_setting(scene, "tcp_available_congestion_control")));
  return fmt::format(
      "sysctl net.ipv4.tcp_congestion_control={} on every host, before the job starts; --sysctl "
      "for a container",
      available.empty() ? "cubic" : available.front());
}

struct Need {
  std::uint64_t bytes = kLeastBuffer;
  std::string why = "fast networks need as much; no NIC here reports its rate";
};

Need buffer_need(const Scene& scene) {
  const auto interfaces = interfaces_up(scene.files);
  const NetInterface* fastest = nullptr;
  for (const NetInterface& interface : interfaces)
    if (interface.of_hardware && interface.mbit_per_second > 0 &&
        (fastest == nullptr || interface.mbit_per_second > fastest->mbit_per_second))
      fastest = &interface;
  if (fastest == nullptr) return {};
  const auto bytes = kBytesPerMbit * static_cast<std::uint64_t>(*fastest->mbit_per_second);
  return {std::bit_ceil(std::max(kLeastBuffer, bytes)),
          fmt::format("0.5 ms at {:g} Gb/s ({}), twice for the kernel's accounting, take {}",
                      fastest->gbps(), fastest->name, bytes_text(bytes))};
}

/// `name`: tcp_rmem or tcp_wmem, each the smallest, the first and the largest size of the buffer
/// of a connection.
Finding look_at_buffer(const Scene& scene, const char* name, const Need& need) {
  Finding finding{.subject = name};
  const auto sizes = words_in(ipv4_setting(scene, name));
  const auto most = sizes.size() == 3 ? topology::parse_whole(sizes[2]) : std::nullopt;
  if (!most || *most <= 0) {
    finding.says = fmt::format("net.ipv4.{} can't be read", name);
    return finding;
  }
  const auto bytes = static_cast<std::uint64_t>(*most);
  finding.says = fmt::format("a connection's buffer grows up to {}", bytes_text(bytes));
  finding.verdict = bytes < need.bytes ? Verdict::warn : Verdict::ok;
  if (finding.verdict == Verdict::ok) return finding;
  finding.says += fmt::format(" of {}: {}", bytes_text(need.bytes), need.why);
  finding.fix =
      fmt::format("sysctl net.ipv4.{}=\"{} {} {}\"", name, sizes[0], sizes[1], need.bytes);
  return finding;
}

/// A kind of queueing discipline that holds packets back.
struct Slowing {
  std::string_view kind;
  std::string_view how;
};
constexpr std::array kSlowing{
    Slowing{"tbf", "limits the rate of the interface"},
    Slowing{"htb", "limits the rates of its classes"},
    Slowing{"hfsc", "limits the rates of its classes"},
    Slowing{"cbq", "limits the rates of its classes"},
    Slowing{"cake", "limits the rate to its bandwidth, if it has one"},
    Slowing{"netem", "delays or drops packets, as tests want"},
    Slowing{"etf", "sends packets at set times"},
    Slowing{"taprio", "sends packets at set times"},
};

/// Adds to `finding` what `kind` does to connections under `congestion_control`; `remove`: how to
/// get rid of a kind that holds packets back.
void judge_qdisc(const Scene& scene, const std::string& kind, const std::string& remove,
                 Finding& finding) {
  const auto note = [&](Verdict verdict, std::string_view says, const std::string& fix) {
    finding.says += fmt::format("; {} {}", kind, says);
    if (verdict <= finding.verdict) return;
    finding.verdict = verdict;
    finding.fix = fix;
  };
  const auto* slowing = std::ranges::find(kSlowing, kind, &Slowing::kind);
  if (slowing != kSlowing.end())
    note(Verdict::warn, slowing->how, remove);
  else if (kind == "fq" && paces(ipv4_setting(scene, "tcp_congestion_control")))
    note(Verdict::warn, "paces what asks for it, as bbr does for every connection",
         change_congestion_control(scene));
  else if (kind == "fq")
    note(Verdict::ok, "paces only what asks for it (bbr, SO_MAX_PACING_RATE, its own maxrate)", "");
}

std::vector<std::string> kinds_on(const std::string& interface, const QdiscAnswer& answer) {
  std::vector<std::string> kinds;
  for (const Qdisc& qdisc : answer.qdiscs)
    if (qdisc.interface == interface && std::ranges::find(kinds, qdisc.kind) == kinds.end())
      kinds.push_back(qdisc.kind);
  return kinds;
}

}  // namespace

Findings check_tcp_congestion(const Scene& scene) {
  const std::string now = ipv4_setting(scene, "tcp_congestion_control");
  if (now.empty()) return {{.says = "net.ipv4.tcp_congestion_control can't be read"}};
  if (!paces(now))
    return {{.verdict = Verdict::ok, .says = fmt::format("{}, which does not pace", now)}};
  Finding finding{.verdict = Verdict::warn,
                  .says = fmt::format("{} paces what it sends by the rate it has seen, so whatever "
                                      "asks and answers over a fast network waits",
                                      now),
                  .fix = change_congestion_control(scene)};
  const auto allowed =
      without_pacing(words_in(ipv4_setting(scene, "tcp_allowed_congestion_control")));
  if (!allowed.empty())
    finding.says += fmt::format("; a program without rights may choose {} by TCP_CONGESTION",
                                fmt::join(allowed, " or "));
  return {finding};
}

Findings check_tcp_buffers(const Scene& scene) {
  const Need need = buffer_need(scene);
  Findings findings{look_at_buffer(scene, "tcp_rmem", need),
                    look_at_buffer(scene, "tcp_wmem", need)};
  if (ipv4_setting(scene, "tcp_moderate_rcvbuf") == "0")
    findings.push_back({.verdict = Verdict::warn,
                        .subject = "tcp_moderate_rcvbuf",
                        .says = "0: buffers for receiving never grow from their first size",
                        .fix = "sysctl net.ipv4.tcp_moderate_rcvbuf=1"});
  return findings;
}

Findings check_tcp_mtu(const Scene& scene) {
  Findings findings;
  for (const NetInterface& interface : interfaces_up(scene.files)) {
    if (!interface.of_hardware || !interface.is_ethernet || !interface.mtu) continue;
    Finding finding{.verdict = Verdict::ok,
                    .subject = interface.name,
                    .says = fmt::format("MTU {}", *interface.mtu)};
    if (interface.mbit_per_second) finding.says += fmt::format(" at {:g} Gb/s", interface.gbps());
    if (*interface.mtu < kJumboMtu && !interface.mbit_per_second) {
      finding.verdict = Verdict::not_applicable;
      finding.says +=
          fmt::format("; the driver reports no rate: from {} Gb/s on, MTU {} saves time",
                      kFastMbit / 1000, kJumboMtu);
    } else if (*interface.mtu < kJumboMtu && interface.mbit_per_second >= kFastMbit) {
      finding.verdict = Verdict::warn;
      finding.says += fmt::format(
          ": every packet costs processor time, and MTU {} needs a sixth "
          "of those of MTU 1500",
          kJumboMtu);
      finding.fix = fmt::format("ip link set {} mtu {}, on every host and on the switch too",
                                interface.name, kJumboMtu);
    }
    findings.push_back(std::move(finding));
  }
  if (findings.empty())
    return {{.says = "no Ethernet NIC is up here; a container sees only interfaces of software"}};
  return findings;
}

Findings check_tcp_qdisc(const Scene& scene) {
  Findings findings;
  if (const auto kind = scene.files.read("/proc/sys/net/core/default_qdisc")) {
    Finding finding{.verdict = Verdict::ok,
                    .subject = "default",
                    .says = fmt::format("new interfaces: {}", *kind)};
    judge_qdisc(scene, *kind, "sysctl net.core.default_qdisc=fq_codel", finding);
    findings.push_back(std::move(finding));
  }
  const QdiscAnswer answer = scene.host.qdiscs();
  if (answer.error != 0) {
    findings.push_back({.says = fmt::format("the kernel does not list the interfaces' own: {}",
                                            std::strerror(answer.error))});
    return findings;
  }
  for (const NetInterface& interface : interfaces_to_others(scene.files)) {
    const auto kinds = kinds_on(interface.name, answer);
    if (kinds.empty()) continue;
    Finding finding{.verdict = Verdict::ok,
                    .subject = interface.name,
                    .says = fmt::format("{}", fmt::join(kinds, ", "))};
    for (const std::string& kind : kinds)
      judge_qdisc(scene, kind,
                  fmt::format("`tc qdisc show dev {0}` has its options; tc qdisc del dev {0} root",
                              interface.name),
                  finding);
    findings.push_back(std::move(finding));
  }
  if (findings.empty()) return {{.says = "no interface to other hosts is up here"}};
  return findings;
}

}  // namespace weft::doctor
