// The tensors of this rank that other ranks view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/partition.hpp"
#include "weft/published_slot.hpp"
#include "weft/signal.hpp"
#include "weft/world.hpp"

namespace weft::dataflow {

/// The name of the published slot of a tensor of a part, for its owner and its readers.
std::string publication_name(const std::string& executor, const Graph& part, TensorId root);
/// The name of the signal by which an edge's reader tells that it has let go of versions.
std::string release_name(const std::string& executor, std::size_t edge);

/// One tensor in the memory that others view: version k is that of step k. A tensor that keeps its
/// memory has one buffer, which nobody views when a step ends. Others have two, so that one is
/// filled while the other is viewed; a version is published once every reader has let go of the one
/// before it. Any thread.
class Publication {
 public:
  Publication(World& world, const PublishedSpec& spec);

  /// Exposes the signal of an edge that needs credits. Before the first step.
  void add_release(World& world, std::size_t edge, const std::string& name);

  const std::string& name() const noexcept { return slot_.spec().name; }
  /// The memory of the version that is not published yet, as a flat tensor. Not to be used after
  /// this publication. Errors: flow_overrun, with the rank that views it although the plan proves
  /// that none does.
  Result<Tensor> buffer() noexcept;
  /// Publishes a version, which is copied if it lies elsewhere; `copied` grows by its bytes then.
  /// Nothing happens if it is published already. False: a reader has not let go of the one before.
  Result<bool> publish(std::uint64_t version, const Tensor& tensor, std::uint64_t& copied) noexcept;
  /// True once an edge's reader has let go of a version; at once for an edge without credits.
  bool is_released(std::size_t edge, std::uint64_t version) const noexcept;

 private:
  Result<Tensor> next() noexcept;

  mutable std::mutex mutex_;
  PublishedSlot slot_;
  std::map<std::size_t, Signal> releases_;  ///< by edge
  Tensor only_;                             ///< the one buffer of a tensor that keeps its memory
  bool is_filling_ = false;                 ///< `filling_` is not published yet
  Tensor filling_;
  std::uint64_t version_ = 0;  ///< published last
};

/// The publications of a rank, by the tensor of its part. Any thread.
class Publications {
 public:
  /// Exposes them. Throws Error: as World::expose_published.
  Publications(World& world, const Plan& plan, const std::string& executor);

  /// Null if no rank views the tensor's memory.
  Publication* find(TensorId root) const noexcept;

 private:
  std::map<TensorId, std::unique_ptr<Publication>> all_;
};

}  // namespace weft::dataflow
