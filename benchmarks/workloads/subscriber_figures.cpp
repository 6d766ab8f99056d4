// Measures the time a subscriber takes to pull a version, and the cost of publishing:
// subscriber_figures publish MIB full|delta SECONDS: a new version every 100 ms
// subscriber_figures read PULLS: pulls of versions that exist already
// subscriber_figures follow: takes every version until the publisher leaves
// WEFT_SUBSCRIBE_ADDR and WEFT_SUBSCRIBE_TOKEN_FILE tell where publisher and subscriber meet.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/pslib.hpp"
#include "weft/weft.hpp"

namespace {

namespace ps = weft::pslib;
using std::chrono::milliseconds;

constexpr std::int64_t kColumns = 64;  // rows of 256 bytes
constexpr milliseconds kPeriod{100};

/// Many measured times, in ms.
struct Times {
  std::vector<double> all;

  template <typename Act>
  void take(const Act& act) {
    const auto began = std::chrono::steady_clock::now();
    act();
    all.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
            .count());
  }
  std::string text() {
    std::ranges::sort(all);
    const auto at = [&](std::size_t percent) { return all[(all.size() - 1) * percent / 100]; };
    return fmt::format("median {:.3f} ms, 10 % {:.3f}, 90 % {:.3f}, of {}", at(50), at(10), at(90),
                       all.size());
  }
};

void publish(std::int64_t mib, bool full, double seconds) {
  weft::World world = weft::World::join();
  const weft::Shape shape{(mib << 20) / 4 / kColumns, kColumns};
  const weft::Tensor tensor = world.allocate(weft::DType::f32, shape);
  const auto values = tensor.as<float>();
  std::ranges::fill(values, 0.0F);
  ps::Publisher publisher(world);
  auto publication = publisher.publication("figures", {{.name = "t", .shape = shape}});
  std::mt19937_64 random(1);
  Times times;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (float step = 1; std::chrono::steady_clock::now() < end; ++step) {
    if (full)
      std::ranges::fill(values, step);
    else
      for (std::int64_t i = 0; i < shape[0] / 100; ++i)
        values[(random() % static_cast<std::uint64_t>(shape[0])) * kColumns] = step;
    times.take([&] { publication.publish({&tensor, 1}).or_throw(); });
    std::this_thread::sleep_for(kPeriod);
  }
  const auto sent = publication.statistics();
  fmt::print("publish: {}\n", times.text());
  fmt::print("{} full answers of {} bytes, {} deltas of {} on average, {} begun anew\n",
             sent.full_sent, sent.full_bytes, sent.deltas_sent,
             sent.delta_bytes_sent / std::max<std::uint64_t>(sent.deltas_sent, 1), sent.revoked);
}

void read(int pulls) {
  ps::Reader reader = ps::Reader::join("figures");
  reader.pull_latest().or_throw();
  Times times;
  for (int i = 0; i < pulls; ++i) {
    // Wait until exactly one newer version exists.
    reader.pull_newer().or_throw();
    std::this_thread::sleep_for(kPeriod + kPeriod / 2);
    times.take([&] { reader.pull_latest().or_throw(); });
  }
  const auto bytes = reader.tensor("t").bytes();
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  Times copies;
  for (int i = 0; i < 20; ++i) copies.take([&] { std::memcpy(to.data(), from.data(), bytes); });
  fmt::print("pull: {}\nmemcpy of as much: {}\n", times.text(), copies.text());
}

void follow() {
  ps::Reader reader = ps::Reader::join("charlm");
  weft::Status status;
  while (status.ok()) status = reader.pull_newer();
  fmt::print("{} versions, {:.1f} MB: {}\n",
             reader.statistics().full_taken + reader.statistics().deltas_taken,
             static_cast<double>(reader.statistics().bytes_received) * 1e-6,
             weft::name(status.code()));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == "publish")
    publish(std::stoll(words[1]), words[2] == "full", std::stod(words[3]));
  else if (words.size() == 2 && words[0] == "read")
    read(std::stoi(words[1]));
  else if (words.size() == 1 && words[0] == "follow")
    follow();
  else
    return 2;
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "subscriber_figures: {}\n", error.what());
  return 1;
}
