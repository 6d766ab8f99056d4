// How two ranks believe each other: a mutual challenge, keyed with the job's secret.
//
//   caller                          called
//     Hello  ------------------------->        who calls whom, a fresh nonce
//            <-------------------------  Answer  its own nonce, and a MAC over both: it is who it
//            says
//     Proof  ------------------------->        the caller's MAC over both
//            <-------------------------  an empty frame: from now on frames
//
// Either MAC covers version, job, both ranks, both nonces and which end sends it, so that neither a
// replay nor a reflection of what was seen elsewhere is of use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "p2p/address.hpp"

namespace weft::p2p {

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

struct Hello {
  static constexpr std::uint32_t kMagic = 0x6c6c6577;  // "well"

  std::uint32_t magic = kMagic;
  std::uint32_t version = RankAddress::kVersion;
  std::int32_t job_size = 0;
  std::int32_t from = -1;
  std::int32_t to = -1;
  Nonce nonce{};
};
static_assert(std::has_unique_object_representations_v<Hello> && sizeof(Hello) == 52);

struct Answer {
  Hello hello;
  Mac mac{};
};

struct Proof {
  Mac mac{};
};

/// What a rank needs to prove who it is and to check others. Immutable.
class Identity {
 public:
  using Secret = std::array<std::byte, 32>;

  Identity() = default;
  Identity(int rank, int job_size, const Secret& secret) noexcept
      : rank_(rank), job_size_(job_size), secret_(secret) {}

  int rank() const noexcept { return rank_; }

  /// With a fresh nonce.
  Hello hello(int to) const;
  /// Why a stranger's hello can't be a rank's, or an empty string.
  std::string distrust(const Hello& caller) const;
  Answer answer(const Hello& caller) const;
  /// Why the one called is not the rank that `own` was sent to, or an empty string.
  std::string distrust(const Hello& own, const Answer& answer) const;
  Proof prove(const Hello& own, const Answer& answer) const;
  /// Whether the caller knows the secret. `own` is what it was answered.
  bool believes(const Hello& caller, const Answer& own, const Proof& proof) const;

 private:
  enum class End : std::uint32_t { caller = 1, called = 2 };

  Mac mac(End end, const Hello& caller, const Hello& called) const;

  int rank_ = -1;
  int job_size_ = 0;
  Secret secret_{};
};

}  // namespace weft::p2p
