// Ranks as threads, with GPUs: the stand-in's, or the machine's.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/rig.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/soon.hpp"

namespace weft::tests {

/// Tests of worlds with GPU tensors. They run on a real driver too, except those that need the
/// stand-in's control.
class OnGpus : public testing::Test {
 protected:
  void SetUp() override {
    const auto loaded = load_driver();
    control_ = stand_in::control();
    if (std::getenv("WEFT_TEST_STAND_IN") != nullptr) {
      ASSERT_NE(control_, nullptr) << "libcuda.so.1 is not the stand-in";
    }
    if (!loaded.ok()) GTEST_SKIP() << loaded.status().text();
    driver_ = *loaded;
    if (control_ != nullptr) {
      ASSERT_EQ(control_->restart(options()), std::vector<std::string>{});
    }
  }
  void TearDown() override {
    if (control_ == nullptr) return;
    EXPECT_EQ(control_->take_complaints(), std::vector<std::string>{});
    EXPECT_EQ(control_->leftovers(), std::vector<std::string>{});
    control_->restart({});
  }

  virtual stand_in::Options options() const { return {}; }
  stand_in::Control* control() const { return control_; }
  const Driver& driver() const { return *driver_; }

  /// Copies may go on when their world has gone, and a copy of another world looks after them.
  /// Whether nothing is left of them soon.
  bool late_copies_end() const {
    bool all_ended = control_->leftovers().empty();
    if (all_ended) return true;
    run_on(1, [&](World& world) {
      const Tensor host = world.allocate(DType::f32, {8});
      all_ended = soon([&] {
        world.copy(host, host);
        return control_->leftovers().empty();
      });
    });
    return all_ended;
  }

 private:
  stand_in::Control* control_ = nullptr;
  const Driver* driver_ = nullptr;
};

/// The application's own use of CUDA: the context of a GPU is current, for a scope.
class OwnContext {
 public:
  explicit OwnContext(const Driver& driver, int ordinal = 0) : driver_(driver), ordinal_(ordinal) {
    EXPECT_OK(driver_.retain_context(&context_, ordinal_));
    EXPECT_OK(driver_.push_context(context_));
  }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;
  ~OwnContext() {
    EXPECT_OK(driver_.pop_context(&context_));
    EXPECT_OK(driver_.release_context(ordinal_));
  }

 private:
  const Driver& driver_;
  const int ordinal_;
  Context context_ = nullptr;
};

/// Checks that calls in a scope leave the current context as it was.
class SameContext {
 public:
  SameContext(stand_in::Control* control, const char* call) : control_(control) {
    if (control_ != nullptr) control_->call_begins(call);
  }
  SameContext(const SameContext&) = delete;
  SameContext& operator=(const SameContext&) = delete;
  ~SameContext() {
    if (control_ != nullptr) control_->call_ends();
  }

 private:
  stand_in::Control* control_;
};

/// Checks that `turn`, once it has run some times, makes `copies` copies each time and no other
/// call of the driver that allocates, maps, registers or waits; and that it leaves the current
/// context alone.
inline void expect_steady(stand_in::Control& control, std::uint64_t copies,
                          const std::function<void()>& turn) {
  constexpr int kTurns = 10;
  const auto run = [&](int turns) {
    const SameContext same(&control, "a turn");
    for (int i = 0; i < turns; ++i) turn();
  };
  run(4);
  std::map<std::string, std::uint64_t> before;
  const auto calls = {"cuMemCreate",
                      "cuMemAlloc_v2",
                      "cuMemHostRegister_v2",
                      "cuStreamSynchronize",
                      "cuEventCreate",
                      "cuEventSynchronize",
                      "cuStreamCreate",
                      "cuMemcpyAsync",
                      "copies of pageable memory",
                      "cuMemMap",
                      "cuMemSetAccess",
                      "cuMemImportFromShareableHandle"};
  for (const char* function : calls) before[function] = control.calls(function);
  run(kTurns);
  for (const char* function : calls) {
    const bool is_copy = std::string(function) == "cuMemcpyAsync";
    EXPECT_EQ(control.calls(function) - before[function], is_copy ? kTurns * copies : 0U)
        << function;
  }
}

inline std::vector<float> counted(std::size_t count, float first = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

/// The elements of a tensor f32, wherever it lies.
inline std::vector<float> elements_of(World& world, const Tensor& tensor) {
  std::vector<float> host(static_cast<std::size_t>(tensor.shape().elements()));
  world.copy(tensor, Tensor::wrap(host.data(), DType::f32, tensor.shape()));
  return host;
}

}  // namespace weft::tests
