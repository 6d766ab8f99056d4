#include "tests/conformance/bodies/random_news.hpp"

#include "tests/conformance/ends.hpp"
#include "tests/pattern.hpp"

namespace weft::conformance {
namespace {

using std::chrono::microseconds;
using tests::pattern_of;

constexpr std::int64_t kGenerations = 4;
constexpr std::int64_t kElements = 900;
constexpr std::chrono::milliseconds kReading{200};

Deadline shortly(std::mt19937_64& random) { return Deadline::after(microseconds(random() % 300)); }

/// Between hosts the owner's answer may take longer than a short wait, again and again.
Deadline for_answer(std::mt19937_64& random) {
  constexpr std::chrono::milliseconds kAnswer{30};
  return random() % 4 == 0 ? Deadline::after(kAnswer) : shortly(random);
}

/// The deadline of a read; between hosts a read of a value that is there may take longer than a
/// short wait.
Deadline for_reading(std::mt19937_64& random, bool is_there) {
  return is_there && random() % 2 == 0 ? Deadline::after(kReading) : shortly(random);
}

/// A value begins with its generation and version; the rest follows from them.
Tensor head_of(const Tensor& value) { return value.part(0, {2}); }
Tensor rest_of(const Tensor& value) { return value.part(2, {kElements - 2}); }

std::uint64_t pattern(int owner, std::int64_t generation, std::uint64_t version) {
  return pattern_of(owner, static_cast<int>(generation), version);
}

}  // namespace

void RandomPublisher::step(std::mt19937_64& random) {
  if (!slot_) {
    slot_.emplace(world_.expose_published(
        owned(PublishedSpec{.name = "news",
                            .dtype = DType::i64,
                            .shape = {kElements},
                            .depth = static_cast<std::uint32_t>(1 + random() % 4)})));
    version_ = 0;
    return;
  }
  const auto buffer = slot_->next(shortly(random));
  if (buffer.code() == Code::timeout) return;  // readers hold everything
  check_.ok(buffer.status(), "next");
  const Tensor& value = *buffer;
  set_values(world_, head_of(value),
             std::vector{generation_, static_cast<std::int64_t>(++version_)});
  fill(world_, rest_of(value), pattern(world_.rank(), generation_, version_));
  check_.ok(slot_->publish(), "publish");
  if (generation_ + 1 == kGenerations || random() % 20 != 0) return;
  slot_.reset();
  ++generation_;
}

void RandomReader::step(std::mt19937_64& random) {
  if (reads_ == 0) {
    if (!held_.empty()) return let_one_go(random);
    return remote_.reset();
  }
  if (!remote_) return attach(random);
  if (random() % 16 == 0) return detach();
  if (held_.size() < 4 && random() % 2 == 0) return read(random);
  if (!held_.empty()) let_one_go(random);
}

void RandomReader::attach(std::mt19937_64& random) {
  try {
    remote_.emplace(world_.attach_published(owner_, "news", for_answer(random)));
    if (version_ > 0) --version_;  // a returning reader sees the newest again
  } catch (const Error& error) {
    check_.ends(error.status(), Code::timeout, "attach to news");
  }
}

void RandomReader::read(std::mt19937_64& random) {
  if (random() % 2 == 0) {
    auto view = remote_->view(for_reading(random, remote_->ready()));
    if (view.code() == Code::timeout) return;
    if (view.code() == Code::closed) return detach();
    held_.push_back(check_.ok(std::move(view), "view"));
    see(held_.back().tensor(), held_.back().sequence());
  } else {
    const auto into = allocate_source(world_, DType::i64, {kElements});
    const Status status = remote_->get(into, for_reading(random, remote_->ready()));
    if (status.code() == Code::timeout) return;
    if (status.code() == Code::closed) return detach();
    check_.ok(status, "get");
    see(into, static_cast<std::uint64_t>(values_of<std::int64_t>(world_, head_of(into))[1]));
  }
  --reads_;
}

void RandomReader::see(const Tensor& tensor, std::uint64_t version) {
  const auto head = values_of<std::int64_t>(world_, head_of(tensor));
  const auto generation = head[0];
  check_.equal(static_cast<std::uint64_t>(head[1]), version, "version");
  check_.holds(rest_of(tensor), pattern(owner_, generation, version), "a version");
  check_(generation > generation_ || (generation == generation_ && version > version_),
         "a version came twice, or too late");
  generation_ = generation;
  version_ = version;
}

void RandomReader::let_one_go(std::mt19937_64& random) {
  const auto at = held_.begin() + static_cast<std::ptrdiff_t>(random() % held_.size());
  const auto generation = at->tensor().as<std::int64_t>()[0];
  check_.holds(rest_of(at->tensor()), pattern(owner_, generation, at->sequence()), "held version");
  held_.erase(at);
}

void RandomReader::detach() {
  held_.clear();
  remote_.reset();
}

}  // namespace weft::conformance
