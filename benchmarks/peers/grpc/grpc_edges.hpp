// Edges of a dataflow graph by gRPC, between any number of ranks.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/peers/grpc/call.hpp"
#include "runtime/dataflow/execute/executor_access.hpp"
#include "transfer.grpc.pb.h"
#include "weft/world.hpp"

namespace weft::bench {

/// Takes the tensors that other ranks send, by edge. Any thread.
class EdgeService final : public Edges::Service {
 public:
  grpc::Status Tensors(grpc::ServerContext*,
                       grpc::ServerReaderWriter<Largest, EdgeTensor>* stream) override;

  /// Arrivals wake this world's threads from now on.
  void ring(World* world);
  bool has(std::size_t edge);
  /// Requires has(edge).
  EdgeTensor take(std::size_t edge);

 private:
  std::mutex mutex_;
  World* world_ = nullptr;
  std::map<std::size_t, std::deque<EdgeTensor>> arrived_;
};

/// The channel to a place.
using Connect = std::function<std::shared_ptr<grpc::Channel>(const std::string& place)>;

/// The open call to another rank, on which a thread of its own writes: the executor's threads wait
/// neither for copies into messages nor for the connection. Any thread.
class EdgeWriter {
 public:
  EdgeWriter(World& world, const std::shared_ptr<grpc::Channel>& channel);
  /// Sends what is left, and ends the call.
  ~EdgeWriter();
  EdgeWriter(const EdgeWriter&) = delete;
  EdgeWriter& operator=(const EdgeWriter&) = delete;

  /// Returns the tensor's number; the tensor is lent until has_copied(). `with_shape`: the receiver
  /// doesn't know it.
  std::uint64_t write(std::size_t edge, const weft::Tensor& tensor, bool with_shape);
  bool has_copied(std::uint64_t number) const noexcept { return copied_.load() >= number; }
  /// The first error of the call.
  weft::Status status() const;

 private:
  struct Entry {
    std::size_t edge;
    weft::Tensor tensor;
    bool with_shape;
  };

  void run();
  void copy(const Entry& entry);
  std::optional<Entry> next();
  void break_off(const std::string& why);

  World& world_;
  const std::unique_ptr<Edges::Stub> stub_;
  Call<EdgeTensor, Largest> call_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool is_ending_ = false;
  weft::Status status_;
  std::uint64_t written_ = 0;  ///< given to write()
  std::atomic<std::uint64_t> copied_{0};
  std::thread thread_;
};

/// Calls to all other ranks of a world.
class EdgeCalls {
 public:
  /// `place`: that of this rank's server, which has `service`; `connect`: the channel to a place.
  /// Collective.
  EdgeCalls(World& world, const std::string& place, EdgeService& service, const Connect& connect);
  /// Before the world's end.
  ~EdgeCalls();

  /// Refers to this object.
  dataflow::MakeWay way();

 private:
  EdgeService& service_;
  std::map<int, std::unique_ptr<EdgeWriter>> writers_;
};

}  // namespace weft::bench
