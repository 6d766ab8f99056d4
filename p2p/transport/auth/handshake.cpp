#include "p2p/transport/auth/handshake.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <utility>

namespace weft::p2p {
namespace {

constexpr const char* kUnauthenticated = "it does not know the job's secret";

/// The bytes that a MAC is taken over.
struct Said {
  /// The secret is also the key of other checks; none of them begins so.
  std::array<char, 12> subject = {'w', 'e', 'f', 't', ' ', 'c', 'o', 'n', 'n', 'e', 'c', 't'};
  std::uint32_t end = 0;
  Handshake client;
  Handshake server;
};
static_assert(std::has_unique_object_representations_v<Said>);

bool equal(const Mac& a, const Mac& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

JobId id_of(const Identity::Secret& secret) {
  constexpr std::string_view kPurpose = "weft job's number";
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(),
                     reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size());
  JobId id{};
  static_assert(sizeof id <= sizeof hash);
  std::copy_n(reinterpret_cast<const std::byte*>(hash.data()), id.size(), id.begin());
  return id;
}

std::string text(const JobId& id) {
  std::string text;
  for (const std::byte b : id) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return text;
}

}  // namespace

Refusal Refusal::of(std::string_view reason) noexcept {
  Refusal refusal;
  std::copy_n(reason.begin(), std::min(reason.size(), refusal.reason.size() - 1),
              refusal.reason.begin());
  return refusal;
}

std::string Refusal::text() const {
  std::string text(reason.begin(), std::find(reason.begin(), reason.end(), '\0'));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Identity::Identity(int rank, int job_size, const Secret& secret, bool seals) noexcept
    : rank_(rank), job_size_(job_size), seals_(seals), secret_(secret), job_(id_of(secret)) {}

std::string Identity::validate(const Handshake::Protocol& protocol) {
  if (protocol.magic != Handshake::kMagic) return "it does not speak weft's protocol";
  if (protocol.version != RankAddress::kVersion)
    return fmt::format("it speaks version {}, this rank {}", protocol.version,
                       RankAddress::kVersion);
  return {};
}

std::string Identity::validate_job(const Handshake& handshake) const {
  std::string reason = validate(handshake.protocol);
  if (reason.empty() && handshake.job != job_)
    reason = fmt::format("{}: {}, this end's is {}",
                         handshake.purpose == Purpose::subscriber
                             ? "it has another token, by its number"
                             : "it is of another job, by the secret",
                         text(handshake.job), text(job_));
  if (reason.empty() && handshake.job_size != job_size_)
    reason = fmt::format("its job has {} ranks, this one {}", handshake.job_size, job_size_);
  return reason;
}

Handshake Identity::handshake(int to, Purpose purpose, std::uint16_t rail) const {
  Handshake handshake{.job_size = job_size_,
                      .from = rank_,
                      .to = to,
                      .purpose = purpose,
                      .seals = static_cast<std::uint8_t>(seals_),
                      .rail = rail,
                      .job = job_};
  randombytes_buf(handshake.nonce.data(), handshake.nonce.size());
  return handshake;
}

std::string Identity::validate(const Handshake& client) const {
  std::string reason = validate_job(client);
  if (reason.empty() && (client.to != rank_ || client.from < 0 || client.from >= job_size_ ||
                         // A rank shares memory with itself as with the others.
                         (client.from == rank_ && client.purpose != Purpose::memory)))
    reason = fmt::format("it says it is rank {} calling rank {}", client.from, client.to);
  if (reason.empty() && client.purpose > Purpose::subscriber)
    reason = "it wants a connection of a kind that this rank does not know";
  return reason;
}

bool Identity::is_of_other_job(const Handshake& client) const noexcept {
  return validate(client.protocol).empty() && (client.job != job_ || client.job_size != job_size_);
}

Answer Identity::answer(const Handshake& client) const {
  Answer answer{.handshake = handshake(client.from, client.purpose, client.rail)};
  answer.mac = mac(End::server, client, answer.handshake);
  return answer;
}

std::string Identity::validate(const Handshake& own, const Answer& answer) const {
  std::string reason = validate_job(answer.handshake);
  if (!reason.empty()) return reason;
  if (answer.handshake.from != own.to || answer.handshake.to != rank_)
    return fmt::format("it says it is rank {} called by rank {}", answer.handshake.from,
                       answer.handshake.to);
  if (answer.handshake.purpose != own.purpose || answer.handshake.rail != own.rail)
    return "it takes the connection for another";
  return equal(answer.mac, mac(End::server, own, answer.handshake)) ? "" : kUnauthenticated;
}

Proof Identity::prove(const Handshake& own, const Answer& answer) const {
  return {mac(End::client, own, answer.handshake)};
}

bool Identity::verify(const Handshake& client, const Answer& own, const Proof& proof) const {
  return equal(proof.mac, mac(End::client, client, own.handshake));
}

ConnectionKeys Identity::keys(const Handshake& client, const Handshake& server) const {
  static_assert(sizeof(ConnectionKeys::Key) == crypto_auth_BYTES);
  Said said{.subject = {'w', 'e', 'f', 't', ' ', 'd', 'a', 't', 'a', 'k', 'e', 'y'},
            .client = client,
            .server = server};
  ConnectionKeys keys;
  for (const auto& [end, key] :
       {std::pair(End::client, &keys.to_server), std::pair(End::server, &keys.to_client)}) {
    said.end = static_cast<std::uint32_t>(end);
    crypto_auth(reinterpret_cast<unsigned char*>(key->data()),
                reinterpret_cast<const unsigned char*>(&said), sizeof said,
                reinterpret_cast<const unsigned char*>(secret_.data()));
  }
  return keys;
}

Mac Identity::mac(End end, const Handshake& client, const Handshake& server) const {
  static_assert(sizeof(Mac) == crypto_auth_BYTES && sizeof(Secret) == crypto_auth_KEYBYTES);
  const Said said{.end = static_cast<std::uint32_t>(end), .client = client, .server = server};
  Mac tag{};
  crypto_auth(reinterpret_cast<unsigned char*>(tag.data()),
              reinterpret_cast<const unsigned char*>(&said), sizeof said,
              reinterpret_cast<const unsigned char*>(secret_.data()));
  return tag;
}

}  // namespace weft::p2p
