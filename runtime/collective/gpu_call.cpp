#include "runtime/collective/gpu_call.hpp"

#include "base/fail.hpp"
#include "base/tensor_checks.hpp"
#include "p2p/slot/attach/device_wait.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::detail {
namespace {

/// Whether `part` lies within `whole`, in whole elements.
bool lies_within(const Tensor& part, const Tensor& whole) noexcept {
  return part.data() >= whole.data() &&
         part.data() + part.bytes() <= whole.data() + whole.bytes() &&
         part.dtype() == whole.dtype() &&
         static_cast<std::size_t>(part.data() - whole.data()) % size_of(part.dtype()) == 0;
}

bool overlap(const Tensor& one, const Tensor& other) noexcept {
  return one.memory() == other.memory() && one.bytes() != 0 && other.bytes() != 0 &&
         one.data() < other.data() + other.bytes() && other.data() < one.data() + one.bytes();
}

/// The part of `host` that stands in for `part` of the tensor that `host` stands in for.
Tensor matching_part(const Tensor& part, const Tensor& whole, const Tensor& host) {
  const std::ptrdiff_t first =
      (part.data() - whole.data()) / static_cast<std::ptrdiff_t>(size_of(part.dtype()));
  return host.part(first, part.shape());
}

}  // namespace

GpuCall::GpuCall(p2p::LocalRank& local, const Call& call)
    : local_(local), call_(call), host_(call) {
  const char* const operation = name(call.kind);
  for (const Tensor* tensor : {&call.in, &call.out}) {
    if (tensor->memory().is_host()) continue;
    if (lacks_memory(*tensor))
      throw_error(Code::bad_argument, operation, no_host_memory("a tensor", *tensor),
                  give_host_memory(*tensor));
    if (local.gpus == nullptr)
      throw_error(Code::bad_argument, operation, "a tensor lies on a GPU, and this rank has none",
                  give_host_memory(*tensor));
    local.gpus->check_parts(operation, std::span(tensor, 1));
  }
}

void GpuCall::make_host() {
  if (!overlap(call_.in, call_.out)) {
    host_.in = make_host(call_.in);
    host_.out = make_host(call_.out);
  } else if (lies_within(call_.out, call_.in)) {
    host_.in = make_host(call_.in);
    host_.out = matching_part(call_.out, call_.in, host_.in);
  } else if (lies_within(call_.in, call_.out)) {
    host_.out = make_host(call_.out);
    host_.in = matching_part(call_.in, call_.out, host_.out);
  } else {
    throw_error(Code::bad_argument, name(call_.kind), "in and out overlap",
                "give separate tensors, or work in place");
  }
}

Tensor GpuCall::make_host(const Tensor& gpu) const {
  if (gpu.memory().is_host()) return gpu;
  return {p2p::make_storage(local_.data, gpu.bytes()), 0, gpu.dtype(), gpu.shape()};
}

Status GpuCall::bring_in(Deadline until) noexcept { return copy(call_.in, host_.in, until); }
Status GpuCall::take_out(Deadline until) noexcept { return copy(host_.out, call_.out, until); }

Status GpuCall::copy(const Tensor& from, const Tensor& to, Deadline until) noexcept {
  if (!is_needed(from, to)) return {};
  const Status status = p2p::copy_and_wait(local_, name(call_.kind), local_.data, from, to, until);
  if (status.ok()) staged_bytes_ += from.bytes();
  return status;
}

bool GpuCall::begin(const Tensor& from, const Tensor& to) {
  if (!is_needed(from, to)) return false;
  copy_ = local_.gpus->copy_pinned(name(call_.kind), local_.data, from, to);
  copied_bytes_ = from.bytes();
  return true;
}

std::optional<Status> GpuCall::poll() noexcept {
  const std::optional<Status> outcome = copy_->poll();
  if (!outcome) return outcome;
  copy_.reset();
  if (outcome->ok()) staged_bytes_ += copied_bytes_;
  return outcome;
}

}  // namespace weft::detail
