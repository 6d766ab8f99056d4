// A worker's side of a table of any consistency: its pushes and pulls.
#pragma once

#include <cstdint>

#include "weft/pslib.hpp"

namespace weft::pslib {

/// Pushes from a PushSlot and pulls into it. Not thread-safe.
class TableWorker {
 public:
  TableWorker() = default;
  TableWorker(const TableWorker&) = delete;
  TableWorker& operator=(const TableWorker&) = delete;
  virtual ~TableWorker() = default;

  /// True once the initial parameters have been pulled.
  virtual bool has_parameters() const noexcept = 0;
  /// Number of pushes, including the initial one.
  virtual std::uint64_t pushed() const noexcept = 0;
  /// Version last pulled; 0: the initial parameters, or none.
  virtual std::uint64_t version() const noexcept = 0;
  virtual Pulled pulled() const = 0;

  /// The first push; the first worker pushes `parameters` in place of gradients. It waits for
  /// copies of a GPU alone, as push() does; after an error of those the next call makes the push.
  virtual Status push_initial(Deadline deadline) noexcept = 0;
  virtual Status push(Deadline deadline) noexcept = 0;
  /// After an error, the next call resumes where this one stopped.
  virtual Status pull(Deadline deadline) noexcept = 0;
};

}  // namespace weft::pslib
