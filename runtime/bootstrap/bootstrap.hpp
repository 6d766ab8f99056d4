// How ranks learn of each other before they are connected: put, fence, get.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "weft/deadline.hpp"

namespace weft {

/// One rank's way to the others' introductions. Methods throw Error(bootstrap | timeout).
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Ranks on this rank's host, itself included.
  virtual int local_size() const noexcept = 0;
  /// This rank's place among them, from 0.
  virtual int local_rank() const noexcept = 0;

  /// This rank's introduction; once, before fence().
  virtual void put(std::span<const std::byte> value) = 0;
  /// Returns when every rank has put; the error names the ranks that have not.
  virtual void fence(Deadline deadline) = 0;
  /// A rank's introduction, after fence().
  virtual std::vector<std::byte> get(int rank) = 0;

  /// What tells the job from others, for people and the names of files; empty: nothing does.
  virtual std::string job() const { return {}; }
  /// The process whose end means that the job's launcher is gone; 0 when there is none.
  virtual int launcher_pid() const noexcept { return 0; }
};

/// A world of one.
std::unique_ptr<Bootstrap> make_alone_bootstrap();
/// The launcher's PMIx server.
std::unique_ptr<Bootstrap> make_pmix_bootstrap();
/// No launcher: rank 0 waits for the others at WEFT_ADDR. Returns when all have come.
std::unique_ptr<Bootstrap> make_token_bootstrap(const Config& config);
/// By WEFT_BOOTSTRAP and by what the launcher left in the environment. Throws Error(bootstrap) when
/// a launcher started several processes but gave them no PMIx: they'd be so many worlds of one.
std::unique_ptr<Bootstrap> choose_bootstrap(const Config& config);

}  // namespace weft
