// Shared by the tests of slots with streams.
#pragma once

#include <string>
#include <vector>

#include "p2p/transport/cuda/stream_words.hpp"
#include "tests/cuda/slots/fabrics.hpp"

namespace weft::tests {

/// Expects a call of weft's to go well.
#define EXPECT_OK_STATUS(call) EXPECT_EQ((call).text(), ::weft::Status().text())

/// Tests whose streams the stand-in sees.
class OnStandInStreams : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (control() == nullptr) GTEST_SKIP() << "a real GPU's streams can't be looked at";
  }
};

/// A slot on the given memory.
inline SlotSpec stream_spec(Memory memory, std::size_t count, std::uint32_t depth = 2) {
  return {
      .name = "in", .shape = {static_cast<std::int64_t>(count)}, .depth = depth, .memory = memory};
}

/// A stream of the application's on one GPU, with host memory that it copies to and from.
class OwnStream {
 public:
  OwnStream(World& world, int gpu, std::size_t count, std::size_t copies)
      : world_(world),
        driver_(**load_driver()),
        own_(driver_, gpu),
        count_(count),
        host_(driver_, count * copies) {
    if (auto* control = stand_in::control()) control->act_for_application(true);
    EXPECT_OK(driver_.create_stream(&stream_, kStreamNonBlocking));
    if (auto* control = stand_in::control()) control->act_for_application(false);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() {
    synchronize();
    EXPECT_OK(driver_.destroy_stream(stream_));
  }

  Stream get() const { return Stream::cuda(stream_); }
  StreamHandle handle() const { return stream_; }
  /// Waits as an application does, which may.
  void synchronize() {
    if (auto* control = stand_in::control()) control->act_for_application(true);
    EXPECT_OK(driver_.synchronize_stream(stream_));
    if (auto* control = stand_in::control()) control->act_for_application(false);
  }
  /// Fills the tensor with counted(count, first), behind what is on the stream.
  void fill(std::size_t copy, const Tensor& tensor, float first) {
    const auto values = counted(count_, first);
    std::copy(values.begin(), values.end(), &host_[copy * count_]);
    world_.copy(at(copy), tensor, get());
  }
  /// Copies the tensor's elements, as they are when the stream gets there.
  void read(std::size_t copy, const Tensor& tensor) { world_.copy(tensor, at(copy), get()); }
  /// The host memory of a copy, and what is there copied to the tensor, behind what is on the
  /// stream.
  float* host(std::size_t copy) { return &host_[copy * count_]; }
  void write(std::size_t copy, const Tensor& tensor) { world_.copy(at(copy), tensor, get()); }
  std::vector<float> elements(std::size_t copy) {
    return {&host_[copy * count_], &host_[copy * count_] + count_};
  }

 private:
  Tensor at(std::size_t copy) {
    return Tensor::wrap(&host_[copy * count_], DType::f32, {static_cast<std::int64_t>(count_)});
  }

  World& world_;
  const Driver& driver_;
  const OwnContext own_;
  const std::size_t count_;
  Pinned<float> host_;
  StreamHandle stream_ = nullptr;
};

/// Holds up a stream of the application's, as a long kernel does. Made before streams wait.
class Gate {
 public:
  Gate() : driver_(**load_driver()), word_(driver_, 1) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  void hold(const OwnStream& own) {
    EXPECT_OK(driver_.wait_value32(own.handle(), word_.at(), ++held_, kWaitValueGreaterOrEqual));
  }
  /// Any thread. All that it has held goes on.
  void open() { tell_gpus(word_[0], held_); }

 private:
  const Driver& driver_;
  Pinned<std::uint32_t> word_;
  std::uint32_t held_ = 0;
};

}  // namespace weft::tests
