#include "pslib/publication/publication_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "pslib/publication/wire.hpp"

namespace weft::pslib::detail {
namespace {

constexpr std::size_t kMostTensorName = 1024;
constexpr int kMostBuffers = 64;

void check(const std::string& name, std::span<const PublishedTensor> specs,
           const PublicationOptions& options) {
  const auto refuse = [&](std::string message, std::string hint) {
    throw_error(Code::bad_argument, "publication", fmt::format("'{}': {}", name, message),
                std::move(hint));
  };
  if (name.empty() || name.size() > wire::Ask::kMostName || name.find('\0') != name.npos)
    refuse(fmt::format("a name of {} bytes", name.size()),
           fmt::format("1 to {} bytes without a NUL", wire::Ask::kMostName));
  if (options.buffers < 2 || options.buffers > kMostBuffers)
    refuse(fmt::format("{} buffers", options.buffers), fmt::format("2 to {}", kMostBuffers));
  if (options.history < 0) refuse(fmt::format("a history of {}", options.history), "0 or more");
  if (specs.empty() || specs.size() > wire::kMostTensors)
    refuse(fmt::format("{} tensors", specs.size()), fmt::format("1 to {}", wire::kMostTensors));
  std::set<std::string_view> names;
  for (const PublishedTensor& spec : specs) {
    if (spec.name.size() > kMostTensorName)
      refuse(fmt::format("a tensor's name of {} bytes", spec.name.size()),
             fmt::format("at most {}", kMostTensorName));
    if (!is_dtype(spec.dtype))
      refuse(fmt::format("tensor '{}': {}", spec.name, no_such_dtype(spec.dtype)), kUseDType);
    if (!names.insert(spec.name).second)
      refuse(fmt::format("two tensors are called '{}'", spec.name), "a name of its own for each");
  }
  if (wire::encode(specs).size() > wire::kMostSpecs)
    refuse("the tensors' names and shapes take too much", "fewer tensors, or shorter names");
}

std::vector<PublishedTensor> checked(const std::string& name, std::vector<PublishedTensor> specs,
                                     const PublicationOptions& options) {
  check(name, specs, options);
  return specs;
}

}  // namespace

PublicationState::PublicationState(std::string name, std::vector<PublishedTensor> specs,
                                   const PublicationOptions& options, std::function<void()> wake,
                                   std::function<Status()> refusal)
    : name_(std::move(name)),
      specs_(checked(name_, std::move(specs), options)),
      wake_(std::move(wake)),
      refusal_(std::move(refusal)),
      snapshots_(std::make_shared<const PublishedLayout>(specs_), options) {}

TensorPlaces PublicationState::places_of(std::span<const Tensor> tensors) const {
  const auto refuse = [&](const std::string& message, Code code = Code::mismatch) {
    throw Error(ErrorDetail{.code = code,
                            .operation = "publish",
                            .message = message,
                            .hint = "dense tensors of the publication's own specs, in their order",
                            .slot = name_});
  };
  if (tensors.size() != specs_.size())
    refuse(fmt::format("{} tensors were given, the publication has {}", tensors.size(),
                       specs_.size()));
  TensorPlaces places;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (lacks_host_memory(tensor))
      refuse(fmt::format("tensor {} ('{}'): {}", i, specs_[i].name,
                         no_host_memory("the one given,", tensor)),
             Code::bad_argument);
    if (tensor.dtype() != specs_[i].dtype || tensor.shape() != specs_[i].shape || !tensor.dense())
      refuse(fmt::format("tensor {} ('{}') is {}{}, given was {}{}", i, specs_[i].name,
                         weft::name(specs_[i].dtype), specs_[i].shape.text(), tensor.text(),
                         tensor.dense() ? "" : " with strides"));
    places.push_back(tensor.data());
  }
  return places;
}

Status PublicationState::publish(std::span<const Tensor> tensors, std::uint64_t step) noexcept {
  try {
    if (Status refused = refusal_(); !refused) return refused;
    const auto done = snapshots_.publish(places_of(tensors), step);
    rows_changed_.store(done.rows_changed);
    bytes_copied_.fetch_add(done.bytes_copied);
    if (counts.waiting.load() > 0) wake_();
    return {};
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return refuse(Code::exhausted, [&] {
      return ErrorDetail{.code = Code::exhausted,
                         .operation = "publish",
                         .message = error.what(),
                         .hint = "this version was not published",
                         .slot = name_};
    });
  }
}

void PublicationState::close() noexcept {
  closed_.store(true);
  wake_();
}

PublicationStatistics PublicationState::statistics() const noexcept {
  return {.version = snapshots_.newest(),
          .full_bytes = snapshots_.layout()->bytes(),
          .rows_changed = rows_changed_.load(),
          .bytes_copied = bytes_copied_.load(),
          .full_sent = counts.full_sent.load(),
          .deltas_sent = counts.deltas_sent.load(),
          .full_bytes_sent = counts.full_bytes.load(),
          .delta_bytes_sent = counts.delta_bytes.load(),
          .revoked = counts.revoked.load(),
          .subscribers = counts.subscribers.load()};
}

}  // namespace weft::pslib::detail
