// Bootstrap without a launcher: WEFT_RANK, WEFT_SIZE, WEFT_ADDR and WEFT_TOKEN_FILE.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/os/host_identity.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/token/oob_allgather.hpp"
#include "runtime/bootstrap/token/token_file.hpp"
#include "weft/error.hpp"

namespace weft {
namespace {

using bootstrap::Contributions;
using bootstrap::OobAllgather;

void check_number(const Config& config) {
  const auto rank = config.integer(Setting::rank);
  const auto size = config.integer(Setting::size);
  if (rank && size && *rank >= *size)
    throw_error(Code::bad_config, "join",
                fmt::format("WEFT_RANK={} with WEFT_SIZE={}", *rank, *size),
                "ranks are numbered from 0 to WEFT_SIZE - 1");
}

OobAllgather::Setup setup_of(const Config& config, std::string_view token) {
  std::string missing;
  const auto need = [&](bool is_there, const char* variable) {
    if (!is_there) missing += std::string(missing.empty() ? "" : ", ") + variable;
  };
  const auto rank = config.integer(Setting::rank);
  const auto size = config.integer(Setting::size);
  need(rank.has_value(), "WEFT_RANK");
  need(size.has_value(), "WEFT_SIZE");
  need(!config.text(Setting::addr).empty(), "WEFT_ADDR");
  need(!token.empty() || !config.text(Setting::token_file).empty(), "WEFT_TOKEN_FILE");
  if (!missing.empty())
    throw_error(Code::bad_config, "join", "a job without a launcher also needs " + missing,
                "set all four of WEFT_RANK, WEFT_SIZE, WEFT_ADDR and WEFT_TOKEN_FILE for every "
                "rank, or give "
                "them to World::join(options)");
  check_number(config);
  return {.rank = static_cast<int>(*rank),
          .size = static_cast<int>(*size),
          .address = bootstrap::parse_job_address(config.text(Setting::addr)),
          .key = token.empty() ? bootstrap::read_token(config.text(Setting::token_file))
                               : bootstrap::given_token(token)};
}

class TokenBootstrap final : public Bootstrap {
 public:
  TokenBootstrap(const Config& config, std::string_view token)
      : setup_(setup_of(config, token)), log_(config, os::host_identity().name, setup_.rank) {
    const auto deadline = Deadline::after(config.time(Setting::init_timeout).value());
    allgather_ = setup_.rank == 0 ? bootstrap::serve_oob_allgather(setup_, config, log_, deadline)
                                  : bootstrap::connect_oob_allgather(setup_, deadline);
    find_own_host(deadline);
  }

  std::string_view name() const noexcept override { return "token"; }
  int rank() const noexcept override { return setup_.rank; }
  int size() const noexcept override { return setup_.size; }
  int local_size() const noexcept override { return local_size_; }
  int local_rank() const noexcept override { return local_rank_; }
  std::string job() const override { return job_; }
  int descriptors_until_fence() const noexcept override {
    if (!allgather_ || setup_.size == 1) return 0;
    return setup_.rank == 0 ? setup_.size - 1 : 1;
  }

  std::uint64_t rejected_connections() const noexcept override { return rejected_connections_; }

  void put(std::span<const std::byte> value) override { value_.assign(value.begin(), value.end()); }
  void fence(Deadline deadline) override {
    contributions_ = allgather_->gather(value_, deadline);
    rejected_connections_ = allgather_->rejected_connections();
    allgather_.reset();
  }
  std::vector<std::byte> get(int rank) override {
    return contributions_[static_cast<std::size_t>(rank)];
  }

 private:
  struct FirstContribution {
    std::array<std::byte, 16> host = os::host_identity().id;
    std::uint32_t number = std::random_device{}();  ///< rank 0's tells apart jobs at one address
  };

  /// Finds the ranks that share this rank's host, which must be known before NICs and memory are
  /// chosen; and the job's name.
  void find_own_host(Deadline deadline) {
    const FirstContribution own;
    const Contributions all = allgather_->gather(std::as_bytes(std::span(&own, 1)), deadline);
    for (int rank = 0; rank < setup_.size; ++rank) {
      const auto& words = all[static_cast<std::size_t>(rank)];
      if (words.size() != sizeof own)
        throw_error(Code::bad_config, "join",
                    fmt::format("rank {} contributed {} bytes about its host instead of {}", rank,
                                words.size(), sizeof own),
                    "start every rank with the same weft");
      FirstContribution theirs;
      std::memcpy(&theirs, words.data(), sizeof theirs);
      if (rank == 0) job_ = fmt::format("{}-{:08x}", setup_.address.text(), theirs.number);
      if (theirs.host != own.host) continue;
      if (rank < setup_.rank) ++local_rank_;
      ++local_size_;
    }
  }

  const OobAllgather::Setup setup_;
  Log log_;
  std::unique_ptr<OobAllgather> allgather_;  ///< null after the fence
  std::uint64_t rejected_connections_ = 0;   ///< known after the fence
  int local_rank_ = 0;
  int local_size_ = 0;
  std::string job_;
  std::vector<std::byte> value_;
  Contributions contributions_;
};

}  // namespace

void check_token_settings(const Config& config) {
  check_number(config);
  if (const std::string& address = config.text(Setting::addr); !address.empty())
    (void)bootstrap::parse_job_address(address);
  if (const std::string& file = config.text(Setting::token_file); !file.empty())
    (void)bootstrap::read_token(file);
}

std::unique_ptr<Bootstrap> make_token_bootstrap(const Config& config, std::string_view token) {
  return std::make_unique<TokenBootstrap>(config, token);
}

}  // namespace weft
