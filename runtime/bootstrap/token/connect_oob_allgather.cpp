// The out-of-band allgather on the ranks other than rank 0.
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "runtime/bootstrap/token/oob_allgather.hpp"
#include "runtime/bootstrap/token/oob_records.hpp"
#include "runtime/bootstrap/token/root_connection.hpp"
#include "runtime/bootstrap/token/sealed_socket.hpp"

namespace weft::bootstrap {
namespace {

/// Rank 0 has the same deadline as this rank, and this long afterwards to report the missing ranks.
constexpr std::chrono::seconds kVerdict{1};

[[noreturn]] void refuse(const OobAllgather::Setup& setup, const std::string& refusal) {
  throw Error(ErrorDetail{
      .code = Code::bootstrap,
      .operation = "join",
      .message = fmt::format("rank 0 at {} and this rank don't belong together: {}",
                             setup.address.text(), refusal),
      .hint = "every rank needs the same WEFT_ADDR, WEFT_SIZE, token and weft, and a WEFT_RANK of "
              "its own",
      .rank = setup.rank,
      .peer = 0});
}

[[noreturn]] void fail(const OobAllgather::Setup& setup, const std::string& trouble) {
  throw Error(ErrorDetail{
      .code = Code::timeout,
      .operation = "join",
      .message = fmt::format("rank 0 was not reached at {}: {}", setup.address.text(), trouble),
      .hint =
          "check that rank 0 runs with the same WEFT_ADDR, and the firewalls between the hosts; "
          "WEFT_INIT_TIMEOUT sets how long joining waits",
      .rank = setup.rank,
      .peer = 0});
}

/// Connects to rank 0, and tries again until rank 0 accepts or refuses this rank.
SealedSocket meet(const OobAllgather::Setup& setup, Deadline deadline) {
  const p2p::Identity identity(setup.rank, setup.size, setup.key);
  RootConnection root_connection(identity, p2p::Purpose::oob_allgather);
  auto [met, refusal, trouble] = root_connection.wait(
      [&] {
        Resolved found = resolve(setup.address);
        return RootConnection::Where{.ips = std::move(found.ips),
                                     .port = setup.address.port,
                                     .trouble = std::move(found.trouble)};
      },
      deadline);
  if (!refusal.empty()) refuse(setup, refusal);
  if (!met) fail(setup, trouble);
  const p2p::ConnectionKeys keys = identity.keys(met->own, met->server);
  return {std::move(met->socket), p2p::RecordCipher(keys.to_server, keys.to_client)};
}

class ClientOobAllgather final : public OobAllgather {
 public:
  ClientOobAllgather(const Setup& setup, Deadline deadline)
      : rank_(setup.rank), size_(setup.size), keeper_(meet(setup, deadline)) {}

  Contributions gather(std::span<const std::byte> own, Deadline deadline) override {
    std::optional<OobRecord> record;
    try {
      keeper_.send(own, deadline);
      deadline = Deadline::at(deadline.when() + kVerdict);
      record = parse_record(keeper_.receive(kMostRecord, deadline));
      if (record && !record->failure) {
        const auto table =
            p2p::open_message(record->key, keeper_.receive_as_it_is(most_table(size_), deadline));
        if (auto words = table ? parse_table(*table, size_) : std::nullopt)
          return *std::move(words);
        record.reset();
      }
    } catch (const Error& error) {
      end({.code = error.code(),
           .operation = "join",
           .message = "rank 0 was lost during the out-of-band allgather: " + error.detail().message,
           .hint = "look at the output of rank 0",
           .peer = 0});
    }
    if (!record)
      end({.code = Code::bootstrap,
           .operation = "join",
           .message = "rank 0's record of the other ranks is malformed",
           .hint = "start every rank with the same weft",
           .peer = 0});
    record->failure->hint =
        "rank 0 reports this; look at its output, and at that of the ranks named";
    end(*std::move(record->failure));
  }

 private:
  [[noreturn]] void end(ErrorDetail why) const {
    why.rank = rank_;
    throw Error(std::move(why));
  }

  const int rank_;
  const int size_;
  SealedSocket keeper_;
};

}  // namespace

std::unique_ptr<OobAllgather> connect_oob_allgather(const OobAllgather::Setup& setup,
                                                    Deadline deadline) {
  return std::make_unique<ClientOobAllgather>(setup, deadline);
}

}  // namespace weft::bootstrap
