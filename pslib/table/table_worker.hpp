// A worker's side of a table, whatever its consistency.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/pslib.hpp"

namespace weft::pslib {

/// Thread-safety: one thread at a time.
class TableWorker {
 public:
  TableWorker() = default;
  TableWorker(const TableWorker&) = delete;
  TableWorker& operator=(const TableWorker&) = delete;
  virtual ~TableWorker() = default;

  /// Flat, laid out as Layout says.
  virtual const Tensor& gradients() const noexcept = 0;
  virtual const Tensor& parameters() const noexcept = 0;

  /// Whether the initial parameters have come.
  virtual bool has_parameters() const noexcept = 0;
  /// Pushes, the initial one included.
  virtual std::uint64_t pushed() const noexcept = 0;
  /// Of what was pulled; 0: the initial parameters, or none.
  virtual std::uint64_t version() const noexcept = 0;
  virtual Pulled pulled() const = 0;
  virtual CompressionStatistics compression() const noexcept = 0;

  /// The first push: `parameters` as if they were gradients when this is the first worker.
  virtual Status push_initial() noexcept = 0;
  /// After the initial version has come back.
  virtual void clear_gradients() noexcept = 0;
  virtual Status push() noexcept = 0;
  // After an error the next call goes on where this one stopped.
  virtual Status pull(Deadline deadline) noexcept = 0;
  virtual Status wait_updated(Deadline deadline) noexcept = 0;
  /// A piece where it lies.
  virtual Result<std::span<const std::byte>> view(const ShardPiece& piece) const noexcept = 0;
};

}  // namespace weft::pslib
