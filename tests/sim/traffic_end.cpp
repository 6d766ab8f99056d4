#include "tests/sim/traffic_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

namespace weft::tests {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// No wait of a healthy job takes as long, pauses included.
constexpr seconds kStuck{10};
constexpr int kIdleSteps = 100;  // other ends of the rank may have taken that time

}  // namespace

Label make_label(int edge, std::uint32_t attach, std::int64_t count, std::int64_t left) {
  Label label{.attach = attach,
              .count = static_cast<std::uint16_t>(count),
              .left = static_cast<std::uint16_t>(left)};
  label.check = mix(label.pattern(edge));
  return label;
}

void fill_after_label(const Tensor& tensor, int edge, const Label& label) {
  for (std::size_t at = sizeof label; at < tensor.bytes(); ++at)
    tensor.data()[at] = static_cast<std::byte>(mix(label.pattern(edge) + at));
}

Label read_label(const Tensor& tensor, const Edge& edge) {
  Label label;
  std::memcpy(&label, tensor.data(), sizeof label);
  bool whole = label.check == mix(label.pattern(edge.id));
  for (std::size_t at = sizeof label; whole && at < tensor.bytes(); ++at)
    whole = tensor.data()[at] == static_cast<std::byte>(mix(label.pattern(edge.id) + at));
  if (!whole) throw std::runtime_error(fmt::format("data mismatch in slot \"{}\"", edge.spec.name));
  return label;
}

void End::step() {
  if (losses_ && !world_.alive(std::span(&peer_, 1)).ok()) {
    finish();
    return;
  }
  const bool moved = act();
  if (moved) {
    patience_ = microseconds(50);
    moved_ = Clock::now();
    idle_ = 0;
    return;
  }
  ++idle_;
  // Nothing came: longer waits, so that simulated time passes in few steps.
  patience_ = std::min<std::chrono::nanoseconds>(2 * patience_, milliseconds(500));
  if (Clock::now() - moved_ > kStuck && idle_ > kIdleSteps)
    throw std::runtime_error(
        fmt::format("timeout: no progress on slot \"{}\" ({})", edge_.spec.name, where()));
}

void End::explain(const Status& status) {
  const bool lost = status.code() == Code::peer_failed || status.code() == Code::peer_left ||
                    status.code() == Code::path_failed;
  if (!losses_ || !lost) throw std::runtime_error(status.text());
  finish();
}

bool Attached::attach() {
  try {
    remote_ = random_.chance(0.5) ? world_.attach(edge_.owner, edge_.spec, soon())
                                  : world_.attach(edge_.owner, edge_.spec.name, soon());
    attached_ = true;
    ++attaches_;
  } catch (const Error& error) {
    const Code code = error.status().code();
    // This end's last attachment may still be held: the owner learns in its own time that it is
    // gone.
    if (code != Code::timeout && code != Code::writer_taken) explain(error.status());
    refusal_ = error.what();
  }
  return attached_;
}

}  // namespace weft::tests
