// Shared by all tests of the CUDA driver.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "p2p/transport/cuda/api/load.hpp"
#include "tests/cuda/driver/control.hpp"

namespace weft::p2p::cuda {

inline void PrintTo(DriverStatus status, std::ostream* out) {
  const auto driver = load_driver();
  *out << (driver.ok() ? error_text(**driver, status) : "error");
}

}  // namespace weft::p2p::cuda

namespace weft::tests {

using namespace weft::p2p::cuda;

#define EXPECT_OK(call) EXPECT_EQ(call, ::weft::p2p::cuda::DriverStatus::success)
#define ASSERT_OK(call) ASSERT_EQ(call, ::weft::p2p::cuda::DriverStatus::success)

/// The address of host memory, as calls take it.
inline DevicePointer address(const void* host) { return reinterpret_cast<DevicePointer>(host); }

/// A test on whatever driver there is, with the first GPU's context current.
class OnDriver : public testing::Test {
 protected:
  void SetUp() override {
    const auto loaded = load_driver();
    control_ = stand_in::control();
    if (std::getenv("WEFT_TEST_STAND_IN") != nullptr) {
      ASSERT_TRUE(loaded.ok()) << loaded.status().text();
      ASSERT_NE(control_, nullptr) << "libcuda.so.1 is not the stand-in";
    }
    if (!loaded.ok()) GTEST_SKIP() << loaded.status().text();
    driver_ = *loaded;
    if (control_ != nullptr) {
      ASSERT_EQ(control_->restart(options()), std::vector<std::string>{});
      control_->act_for_application(true);
    }
    ASSERT_OK(driver().retain_context(&context_, 0));
    ASSERT_OK(driver().push_context(context_));
  }
  void TearDown() override {
    if (driver_ == nullptr) return;
    if (stream_ != nullptr) {
      EXPECT_OK(driver().destroy_stream(stream_));
    }
    Context popped = nullptr;
    EXPECT_OK(driver().pop_context(&popped));
    EXPECT_OK(driver().release_context(0));
    if (control_ == nullptr) return;
    EXPECT_EQ(control_->take_complaints(), std::vector<std::string>{});
    EXPECT_EQ(control_->leftovers(), std::vector<std::string>{});
    control_->restart({});
  }

  /// The stand-in's, for this test.
  virtual stand_in::Options options() const { return {}; }
  const Driver& driver() const { return *driver_; }
  /// Null on a real driver.
  stand_in::Control* control() const { return control_; }
  Context context() const { return context_; }
  bool has_two_gpus() const {
    int count = 0;
    return driver().device_count(&count) == DriverStatus::success && count > 1;
  }

  /// A stream that the test ends with.
  StreamHandle stream() {
    if (stream_ == nullptr) {
      EXPECT_OK(driver().create_stream(&stream_, kStreamNonBlocking));
    }
    return stream_;
  }
  StreamHandle make_stream() {
    StreamHandle stream = nullptr;
    EXPECT_OK(driver().create_stream(&stream, kStreamNonBlocking));
    return stream;
  }
  Event make_event() {
    Event event = nullptr;
    EXPECT_OK(driver().create_event(&event, kEventDisableTiming));
    return event;
  }
  DevicePointer allocate(std::size_t bytes) {
    DevicePointer pointer = 0;
    EXPECT_OK(driver().allocate(&pointer, bytes));
    return pointer;
  }
  /// All bytes, by a copy that the test waits for.
  std::vector<unsigned char> read(DevicePointer pointer, std::size_t bytes) {
    std::vector<unsigned char> host(bytes);
    EXPECT_OK(driver().copy(address(host.data()), pointer, bytes, stream()));
    EXPECT_OK(driver().synchronize_stream(stream()));
    return host;
  }
  void fill(DevicePointer pointer, std::size_t bytes, unsigned char value) {
    EXPECT_OK(driver().set_bytes(pointer, value, bytes, stream()));
    EXPECT_OK(driver().synchronize_stream(stream()));
  }

 private:
  const Driver* driver_ = nullptr;
  stand_in::Control* control_ = nullptr;
  Context context_ = nullptr;
  StreamHandle stream_ = nullptr;
};

/// Host memory that a GPU reaches.
template <typename T>
class Pinned {
 public:
  Pinned(const Driver& driver, std::size_t count) : driver_(driver), values_(count) {
    EXPECT_OK(driver_.register_host(values_.data(), count * sizeof(T), kHostRegisterPortable));
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { EXPECT_OK(driver_.unregister_host(values_.data())); }

  T& operator[](std::size_t i) { return values_[i]; }
  DevicePointer at() const { return address(values_.data()); }
  const std::vector<T>& values() const { return values_; }

 private:
  const Driver& driver_;
  std::vector<T> values_;
};

}  // namespace weft::tests
