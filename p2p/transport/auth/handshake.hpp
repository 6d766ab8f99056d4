// How two ranks authenticate each other: a mutual challenge, keyed with the job's secret.
//
//   client                             server
//     Handshake  --------------------->          which rank connects to which, in which job, a
//     nonce
//                <---------------------  Answer  its own Handshake, and a MAC over both
//     Proof      --------------------->          the client's MAC over both
//                <---------------------  two zero bytes: frames follow, or a fabric's data;
//                                        or Refusal::kMark and a Refusal
//
// The server answers a Handshake of another job too, and one of another version with its Protocol
// alone, so that both ends can say what differs. The client then sends an empty Proof.
//
// Either MAC covers version, job, both ranks, the purpose, both nonces and the end that sends it,
// so that neither a replay nor a reflection of an earlier message is of use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "p2p/transport/address/rank_address.hpp"

namespace weft::p2p {

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

/// Purpose of a connection.
enum class Purpose : std::uint8_t {
  stream,         ///< the one between two ranks, with frames
  data,           ///< a fabric's own, of which there may be several
  memory,         ///< by a Unix socket, within a host
  oob_allgather,  ///< to rank 0 of a job without a launcher, before the ranks know each other
  subscriber      ///< of a process that is no rank, to one that publishes
};

/// A number for a job, which does not give its secret away.
using JobId = std::array<std::byte, 8>;

/// One end's claim of its rank and job, and its nonce. The client sends it first, then the server.
struct Handshake {
  static constexpr std::uint32_t kMagic = 0x6c6c6577;  // "well"

  /// The first bytes, of every version.
  struct Protocol {
    std::uint32_t magic = 0;
    std::uint32_t version = 0;
  };

  Protocol protocol{kMagic, RankAddress::kVersion};
  std::int32_t job_size = 0;
  std::int32_t from = -1;
  std::int32_t to = -1;
  Purpose purpose = Purpose::stream;
  std::uint8_t seals = 0;  ///< 1: frames are to be sealed; they are if either end says so
  std::uint16_t rail = 0;  ///< which of several for data
  JobId job{};
  Nonce nonce{};
};
static_assert(std::has_unique_object_representations_v<Handshake> && sizeof(Handshake) == 64);

struct Answer {
  Handshake handshake;
  Mac mac{};
};

struct Proof {
  Mac mac{};
};

/// Why a rank that is one of the job's is not let in all the same.
struct Refusal {
  static constexpr std::uint16_t kMark = 0xfffe;  ///< in the place of a frame's length

  std::array<char, 80> reason{};  ///< ends with a NUL

  static Refusal of(std::string_view reason) noexcept;
  /// In printable characters, whatever came.
  std::string text() const;
};

/// Secrets of one connection, which only its two ends know; one for each direction.
struct ConnectionKeys {
  using Key = std::array<std::byte, 32>;
  Key to_server{};
  Key to_client{};
};

/// Credentials by which a rank proves who it is and checks others. Immutable.
class Identity {
 public:
  using Secret = std::array<std::byte, 32>;

  Identity() = default;
  /// `seals`: whether its handshakes ask for sealed frames.
  Identity(int rank, int job_size, const Secret& secret, bool seals = false) noexcept;

  int rank() const noexcept { return rank_; }
  int job_size() const noexcept { return job_size_; }

  /// With a fresh nonce.
  Handshake handshake(int to, Purpose purpose = Purpose::stream, std::uint16_t rail = 0) const;
  /// Why the sender of such a protocol can't be understood, or an empty string.
  static std::string validate(const Handshake::Protocol& protocol);
  /// Why an unauthenticated client's handshake can't be a rank's, or an empty string.
  std::string validate(const Handshake& client) const;
  /// Whether it is answered all the same: it is from a rank, of another job.
  bool is_of_other_job(const Handshake& client) const noexcept;
  Answer answer(const Handshake& client) const;
  /// Why the one called is not the rank that `own` was sent to, or an empty string.
  std::string validate(const Handshake& own, const Answer& answer) const;
  Proof prove(const Handshake& own, const Answer& answer) const;
  /// Whether the client knows the secret. `own` is what it was answered.
  bool verify(const Handshake& client, const Answer& own, const Proof& proof) const;
  /// The keys of a proven connection, from the handshakes of its ends.
  ConnectionKeys keys(const Handshake& client, const Handshake& server) const;

 private:
  enum class End : std::uint32_t { client = 1, server = 2 };

  std::string validate_job(const Handshake& handshake) const;
  Mac mac(End end, const Handshake& client, const Handshake& server) const;

  int rank_ = -1;
  int job_size_ = 0;
  bool seals_ = false;
  Secret secret_{};
  JobId job_{};
};

}  // namespace weft::p2p
