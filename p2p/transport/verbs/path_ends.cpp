// How paths end: by a failure here, by what the other end says, or by its death.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "p2p/transport/verbs/verbs_fabric.hpp"

namespace weft::p2p::verbs {
namespace {

/// How long after a refused request the connector gets to say that the peer has died.
constexpr std::chrono::seconds kVerdict{2};

}  // namespace

void VerbsFabric::ended(int rank, bool orderly, const std::string& why) {
  lose(partner(rank),
       orderly
           ? Status{}
           : Status(ErrorDetail{
                 .code = Code::peer_failed, .operation = "path", .message = why, .peer = rank}));
}

void VerbsFabric::lose(Partner& partner, const Status& why) {
  if (partner.has_ended) return;
  // Earlier messages of the rank come first: perhaps that it leaves.
  if (is_started()) rails_->drain();
  take_messages(partner);
  if (std::exchange(partner.has_ended, true)) return;
  if (partner.channel != nullptr) partner.channel->fail(why);
  if (cm_connector_) cm_connector_->drop(partner.rank);
  if (why.code() == Code::path_failed || why.code() == Code::system) {
    GaveUpMessage last;
    why.detail().message.copy(last.why.data(), last.why.size() - 1);
    connector_.send(partner.rank, as_bytes(last));
  }
  connector_.drop(partner.rank, why.ok() ? "" : why.detail().message);
  events_.lost(partner.rank, why);
}

void VerbsFabric::on_given_up(Partner& partner, const GaveUpMessage& message) {
  // It lives, so what it refused it ought to have allowed.
  if (!partner.refusal.ok()) return lose(partner, partner.refusal);
  std::string words(message.why.data(), ::strnlen(message.why.data(), message.why.size()));
  std::ranges::replace_if(
      words, [](char c) { return c < ' ' || c > '~'; }, '?');
  lose(partner, Status(ErrorDetail{.code = Code::path_failed,
                                   .operation = "path",
                                   .message = fmt::format("rank {} has given the path up: {}",
                                                          partner.rank, words),
                                   .peer = partner.rank}));
}

void VerbsFabric::on_refused(Partner& partner, const Status& why) {
  if (partner.has_ended) return;
  partner.refusal = why;
  partner.verdict_at = Clock::now() + kVerdict;
}

void VerbsFabric::poll_partner(Partner& partner) {
  if (partner.channel == nullptr || partner.has_ended) return;
  if (partner.refusal.ok())
    partner.channel->kick();
  else if (Clock::now() >= partner.verdict_at)
    lose(partner, partner.refusal);
}

bool VerbsFabric::fence(int rank) {
  lose(partner(rank), Status(ErrorDetail{.code = Code::peer_failed,
                                         .operation = "path",
                                         .message = "it was declared dead",
                                         .peer = rank}));
  return true;
}

void VerbsFabric::on_device_event(Rail& rail, ibv_qp* qp) {
  for (Partner& partner : partners_)
    if (partner.channel != nullptr &&
        (qp == nullptr ? partner.channel->uses(rail)
                       : std::ranges::count(partner.channel->handles(), qp) != 0))
      lose(partner, Status(ErrorDetail{
                        .code = Code::path_failed,
                        .operation = "path",
                        .message = fmt::format("{} {}", rail.device->name(),
                                               qp == nullptr ? "failed" : "gave the queue pair up"),
                        .hint = "the system's log has the driver's words",
                        .peer = partner.rank}));
}

void VerbsFabric::on_port(Rail& rail, bool up) {
  rail.is_up = up;
  for (const Partner& partner : partners_)
    if (partner.channel != nullptr && !partner.has_ended) partner.channel->kick();
}

}  // namespace weft::p2p::verbs
