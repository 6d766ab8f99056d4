#include "runtime/subscribe/subscriber_acceptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "weft/error.hpp"

namespace weft::subscribe {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTick = 50ms;
constexpr std::chrono::seconds kPatience{10};  ///< for a client to authenticate

/// Rank numbers of the two ends, in a job that consists of the two.
constexpr int kHost = 0;
constexpr int kSubscriber = 1;

bool is_of_this_host_alone(const p2p::IpAddress& ip) {
  p2p::IpAddress loopback{};
  loopback.back() = std::byte{1};
  return p2p::is_ipv4(ip) ? ip[12] == std::byte{127} : ip == loopback;
}

std::vector<p2p::IpAddress> ips_of(const SubscriberAcceptor::Setup& setup) {
  auto ips = setup.address.file.empty()
                 ? bootstrap::own_ips(setup.address.fixed, bootstrap::resolve(setup.address.fixed),
                                      setup.iface)
                 : p2p::choose_ip_addresses(p2p::interfaces(), setup.iface).ips;
  if (setup.must_encrypt && !std::all_of(ips.begin(), ips.end(), is_of_this_host_alone))
    throw Error(ErrorDetail{
        .code = Code::bad_config,
        .operation = "publisher",
        .message =
            fmt::format("WEFT_ENCRYPT=1, but connections of subscribers are not encrypted, and {} "
                        "is reachable from other hosts",
                        setup.address.text()),
        .hint =
            "accept subscribers at 127.0.0.1 (a tunnel may lead there), or unset WEFT_ENCRYPT"});
  return ips;
}

}  // namespace

p2p::Identity host_identity(const p2p::Identity::Secret& key) { return {kHost, 2, key}; }
p2p::Identity subscriber_identity(const p2p::Identity::Secret& key) {
  return {kSubscriber, 2, key};
}

SubscriberAcceptor::SubscriberAcceptor(p2p::ProgressThread& thread, Log& log, const Setup& setup,
                                       Came came)
    : identity_(host_identity(setup.key)),
      acceptor_(
          thread, log, rejected_connections_, kPatience,
          {.came = [came = std::move(came)](const p2p::Handshake& client, const p2p::Handshake&,
                                            os::Fd& socket) -> std::string {
             if (client.purpose != p2p::Purpose::subscriber)
               return "only subscribers are let in here";
             return came(socket);
           },
           .short_of =
               [&log](const Error& error) {
                 log.warn(Subsystem::path, "subscribers must wait: {}", error.what());
               },
           .wants_ticks = [this] { ticks_.start(); }}),
      ticks_(thread, kTick, [this](std::uint64_t) {
        if (!acceptor_.tick()) ticks_.stop();
      }) {
  const auto ips = ips_of(setup);
  const std::uint16_t port = acceptor_.listen(ips, setup.address.fixed.port);
  for (const p2p::IpAddress& ip : ips)
    address_ += (address_.empty() ? "" : ",") + p2p::text(ip, port);
  if (setup.address.file.empty()) return;
  file_ = AddressFile(setup.address.file, ips, port);
  if (file_.has_replaced_another())
    log.warn(Subsystem::path,
             "{}: this publisher's address has replaced another's, which new subscribers do not "
             "find any more; if that one still runs, give each publisher a file of its own by "
             "WEFT_SUBSCRIBE_ADDR",
             setup.address.file);
}

}  // namespace weft::subscribe
