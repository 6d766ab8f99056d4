#include "tests/conformance/bodies/random_puts.hpp"

#include "tests/conformance/ends.hpp"
#include "tests/conformance/settings.hpp"
#include "tests/pattern.hpp"

namespace weft::conformance {
namespace {

using std::chrono::microseconds;
using tests::mix;
using tests::pattern_of;

Deadline shortly(Random& random) { return Deadline::after(microseconds(random() % 300)); }

/// The wait reads an announced dynamic tensor, which may take longer between hosts.
Deadline for_reading(Random& random, bool is_there) {
  constexpr std::chrono::milliseconds kReading{200};
  return is_there && random() % 2 == 0 ? Deadline::after(kReading) : shortly(random);
}

/// Between hosts the owner's answer may take longer than a short wait, again and again.
Deadline for_answer(Random& random) {
  constexpr std::chrono::milliseconds kAnswer{30};
  return random() % 4 == 0 ? Deadline::after(kAnswer) : shortly(random);
}

}  // namespace

std::string Line::name() const {
  return std::to_string(writer) + " to " + std::to_string(owner) +
         (placement == Placement::fixed ? ", fixed" : ", dynamic");
}

std::uint64_t Line::pattern(int generation, std::uint64_t n) const {
  return mix(seed ^
             pattern_of(writer, owner * 64 + static_cast<int>(placement) * 16 + generation, n));
}

Shape Line::shape(int generation, std::uint64_t n) const {
  constexpr std::int64_t kSizes[] = {0, 1, 7, 56, 57, 64, 1000, 4096, 70'001};
  const std::uint64_t of = placement == Placement::fixed ? 0 : n;
  return {kSizes[pattern(generation, of) % std::size(kSizes)]};
}

SlotSpec Line::spec(int generation) const {
  const auto random = pattern(generation, 0) >> 32U;
  return {.name = name(),
          .dtype = DType::u8,
          .shape = shape(generation, 0),
          .depth = static_cast<std::uint32_t>(1 + generation % 2 + 2 * (random % 3)),
          .placement = placement};
}

void RandomOwner::step(Random& random) {
  if (done()) return;
  if (!slot_) {
    slot_.emplace(world_.expose(owned(line_.spec(generation_))));
    quota_ = 1 + random() % 12;
    seen_ = 0;
    return;
  }
  if (seen_ < quota_ && held_.size() < slot_->spec().depth && random() % 3 != 0)
    return take(random);
  if (!held_.empty()) {
    const auto at = held_.begin() + static_cast<std::ptrdiff_t>(random() % held_.size());
    check_.holds(at->tensor(), line_.pattern(generation_, at->sequence()), line_.name());
    held_.erase(at);
  } else if (seen_ == quota_) {
    slot_.reset();
    ++generation_;
  }
}

void RandomOwner::take(Random& random) {
  auto result = slot_->wait(for_reading(random, slot_->ready()));
  if (result.code() == Code::timeout) return;
  held_.push_back(check_.ok(std::move(result), line_.name()));
  check_.equal(held_.back().sequence(), ++seen_, line_.name() + ": sequence");
  check_.equal(held_.back().tensor().shape(), line_.shape(generation_, seen_), line_.name());
}

void RandomWriter::step(Random& random) {
  if (done_) return;
  if (!remote_) return attach(random);
  // The owner ends the last generation, so that its writer learns of the end.
  if (generation_ + 1 < kGenerations && random() % 24 == 0) return detach();
  if (pending_.size() < 8 && random() % 2 == 0) return put(random);
  if (!pending_.empty()) wait_for_first(random);
}

void RandomWriter::attach(Random& random) {
  try {
    remote_.emplace(world_.attach(line_.owner, line_.name(), for_answer(random)));
  } catch (const Error& error) {
    check_.ends(error.status(), Code::timeout, line_.name() + ": attach");
    return;
  }
  const bool another =
      generation_ < 0 || remote_->spec().depth % 2 != line_.spec(generation_).depth % 2;
  if (another) {
    ++generation_;
    put_ = 0;
  }
  check_(generation_ < kGenerations, line_.name() + ": one generation too many");
  check_.equal(remote_->spec().depth, line_.spec(generation_).depth, line_.name() + ": depth");
}

void RandomWriter::put(Random& random) {
  const Shape shape = line_.shape(generation_, put_ + 1);
  Pending pending;
  if (random() % 4 == 0) {
    pending.own = std::make_shared<std::vector<std::byte>>(shape.elements() + 1);
    pending.tensor = Tensor::wrap(pending.own->data(), DType::u8, shape);
  } else {
    const auto skipped = static_cast<std::int64_t>(random() % 4);
    pending.tensor =
        allocate_source(world_, DType::u8, {shape.elements() + skipped}).part(skipped, shape);
  }
  fill(world_, pending.tensor, line_.pattern(generation_, ++put_));
  const auto until = random() % 2 == 0 ? Until::reusable : Until::delivered;
  pending.request = remote_->put(pending.tensor, until);
  pending_.push_back(std::move(pending));
  if (random() % 8 == 0) cancel_last();
}

void RandomWriter::wait_for_first(Random& random) {
  Pending& first = pending_.front();
  const Status status = first.request.wait(shortly(random));
  if (status.code() == Code::timeout) return;
  if (status.code() == Code::closed) return on_closed();
  check_.ok(status, line_.name() + ": put");
  fill(world_, first.tensor, 0);  // reusable: the arriving tensor must not change
  pending_.pop_front();
}

void RandomWriter::cancel_last() {
  Pending& last = pending_.back();
  const Status status = last.request.cancel();
  if (status.code() == Code::closed) return on_closed();
  if (status.code() == Code::bad_argument) return;  // on its way, or announced
  if (status.code() == Code::cancelled)
    --put_;
  else
    check_.ok(status, line_.name() + ": cancel");
  pending_.pop_back();
}

void RandomWriter::detach() {
  // Cancel from the last put on, so that the remaining puts have no gap.
  while (remote_ && !pending_.empty()) {
    const auto before = pending_.size();
    cancel_last();
    if (!remote_ || pending_.size() < before) continue;
    // Announced, so it will be read; but what a GPU copies to a fixed slot goes with its end.
    const bool on_gpus = settings().ends.owner.is_gpu() || settings().ends.other.is_gpu();
    if (on_gpus && line_.placement == Placement::fixed) {
      const Status status = pending_.back().request.wait();
      if (status.code() == Code::closed) return on_closed();
      check_.ok(status, line_.name() + ": put");
    }
    pending_.pop_back();
  }
  remote_.reset();
}

void RandomWriter::on_closed() {
  pending_.clear();
  remote_.reset();
  done_ = generation_ + 1 == kGenerations;
}

}  // namespace weft::conformance
