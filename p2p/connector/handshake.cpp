#include "p2p/connector/handshake.hpp"

#include <fmt/format.h>
#include <sodium.h>

namespace weft::p2p {
namespace {

constexpr const char* kStranger = "it does not know the job's secret";

/// What a MAC is taken over.
struct Said {
  /// The secret is also the key of other checks; none of them begins so.
  std::array<char, 12> purpose = {'w', 'e', 'f', 't', ' ', 'c', 'o', 'n', 'n', 'e', 'c', 't'};
  std::uint32_t end = 0;
  Hello caller;
  Hello called;
};
static_assert(std::has_unique_object_representations_v<Said>);

bool equal(const Mac& a, const Mac& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

std::string distrust_form(const Hello& hello, int job_size) {
  if (hello.magic != Hello::kMagic) return "it does not speak weft's protocol";
  if (hello.version != RankAddress::kVersion)
    return fmt::format("it speaks version {}, this rank {}", hello.version, RankAddress::kVersion);
  if (hello.job_size != job_size)
    return fmt::format("its job has {} ranks, this one {}", hello.job_size, job_size);
  return {};
}

}  // namespace

Hello Identity::hello(int to) const {
  Hello hello{.job_size = job_size_, .from = rank_, .to = to};
  randombytes_buf(hello.nonce.data(), hello.nonce.size());
  return hello;
}

std::string Identity::distrust(const Hello& caller) const {
  std::string reason = distrust_form(caller, job_size_);
  if (reason.empty() &&
      (caller.to != rank_ || caller.from < 0 || caller.from >= job_size_ || caller.from == rank_))
    reason = fmt::format("it says it is rank {} calling rank {}", caller.from, caller.to);
  return reason;
}

Answer Identity::answer(const Hello& caller) const {
  Answer answer{.hello = hello(caller.from)};
  answer.mac = mac(End::called, caller, answer.hello);
  return answer;
}

std::string Identity::distrust(const Hello& own, const Answer& answer) const {
  std::string reason = distrust_form(answer.hello, job_size_);
  if (!reason.empty()) return reason;
  if (answer.hello.from != own.to || answer.hello.to != rank_)
    return fmt::format("it says it is rank {} called by rank {}", answer.hello.from,
                       answer.hello.to);
  return equal(answer.mac, mac(End::called, own, answer.hello)) ? "" : kStranger;
}

Proof Identity::prove(const Hello& own, const Answer& answer) const {
  return {mac(End::caller, own, answer.hello)};
}

bool Identity::believes(const Hello& caller, const Answer& own, const Proof& proof) const {
  return equal(proof.mac, mac(End::caller, caller, own.hello));
}

Mac Identity::mac(End end, const Hello& caller, const Hello& called) const {
  static_assert(sizeof(Mac) == crypto_auth_BYTES && sizeof(Secret) == crypto_auth_KEYBYTES);
  const Said said{.end = static_cast<std::uint32_t>(end), .caller = caller, .called = called};
  Mac tag{};
  crypto_auth(reinterpret_cast<unsigned char*>(tag.data()),
              reinterpret_cast<const unsigned char*>(&said), sizeof said,
              reinterpret_cast<const unsigned char*>(secret_.data()));
  return tag;
}

}  // namespace weft::p2p
