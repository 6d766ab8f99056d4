#include "runtime/collective/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/fail.hpp"
#include "base/mix64.hpp"
#include "base/tensor_checks.hpp"

namespace weft::detail {
namespace {

using Kind = CollectiveKind;

[[noreturn]] void refuse(const Call& call, std::string what, std::string hint) {
  throw_error(Code::bad_argument, name(call.kind), std::move(what), std::move(hint));
}

std::int64_t elements(const Tensor& tensor) noexcept {
  return static_cast<std::int64_t>(tensor.bytes() / size_of(tensor.dtype()));
}

/// The n + 1 offsets at which parts begin and end: from `counts`, or for `size` parts of `part`
/// elements.
std::vector<std::int64_t> offsets_of(const Call& call, const std::vector<std::int64_t>& counts,
                                     std::int64_t part, int size) {
  std::vector<std::int64_t> parts = counts;
  if (parts.empty()) parts.assign(static_cast<std::size_t>(size), part);
  if (parts.size() != static_cast<std::size_t>(size))
    refuse(call, fmt::format("{} counts for a group of {}", parts.size(), size),
           "give a count for each rank, or none");
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t count : parts) {
    if (count < 0 || offsets.back() > Shape::kMaxElements - count)
      refuse(call, fmt::format("a count of {}", count), "counts are elements, 0 or more");
    offsets.push_back(offsets.back() + count);
  }
  return offsets;
}

void want(const Call& call, const char* which, const Tensor& tensor, std::int64_t count) {
  if (elements(tensor) != count)
    refuse(call,
           fmt::format("{} has {} elements and {} are needed", which, elements(tensor), count),
           "see which parts every rank gives and gets");
}

void want_memory(const Call& call, const char* which, const Tensor& tensor, bool on_gpu) {
  if (on_gpu ? lacks_memory(tensor) : lacks_host_memory(tensor))
    refuse(call, no_host_memory(which, tensor), give_host_memory(tensor));
}

void check_tensors(const Call& call) {
  for (const Tensor* tensor : {&call.in, &call.out})
    if (!is_dtype(tensor->dtype())) refuse(call, no_such_dtype(tensor->dtype()), kUseDType);
  if (!call.in.dense() || !call.out.dense())
    refuse(call, "a tensor has strides", "give dense tensors");
  if (!call.in.empty() && !call.out.empty() && call.in.dtype() != call.out.dtype())
    refuse(call, fmt::format("in is {} and out is {}", call.in.text(), call.out.text()),
           "both must have one element type");
}

void check_root(const Call& call, int size) {
  if (call.root < 0 || call.root >= size)
    refuse(call, fmt::format("root {} in a group of {}", call.root, size),
           fmt::format("roots are places in the group: 0 to {}", size - 1));
}

void check_op(const Call& call, DType dtype) {
  if (!combines(call.kind) || call.op.function() != nullptr) return;
  const Reduction reduction = call.op.reduction();
  if (reduction > Reduction::bit_xor)
    refuse(call, fmt::format("reduction {} does not exist", static_cast<int>(reduction)),
           "use a value of weft::Reduction");
  if (dtype == DType::boolean && (reduction == Reduction::sum || reduction == Reduction::avg))
    refuse(call, "booleans have no sum and no mean",
           "use max for \"any\", min for \"all\"; to count them, wrap them as u8");
  if (dtype <= DType::bf16 && reduction >= Reduction::bit_and)
    refuse(call, fmt::format("{} has no bitwise reduction", weft::name(dtype)),
           "bit_and, bit_or and bit_xor are for integers and booleans");
}

/// `shift`: the distance in bytes from `in` to `out` at which they may share memory.
void check_overlap(const Call& call, const Task& task, std::ptrdiff_t shift) {
  if (task.in_bytes == 0 || task.out_bytes == 0 || task.out - task.in == shift) return;
  const bool apart = task.in + task.in_bytes <= task.out || task.out + task.out_bytes <= task.in;
  if (!apart) refuse(call, "in and out overlap", "give separate tensors, or work in place");
}

std::uint64_t hash_of(const std::vector<std::int64_t>& counts) noexcept {
  std::uint64_t hash = kFnv1a;
  for (const std::int64_t count : counts) hash = fnv1a(hash, static_cast<std::uint64_t>(count));
  return hash;
}

}  // namespace

Task make_task(const Call& call, int rank, int size, bool on_gpu) {
  if (call.kind > Kind::scan)
    refuse(call, fmt::format("operation {} does not exist", static_cast<int>(call.kind)),
           "use a value of weft::CollectiveKind");
  if (call.algorithm > Algorithm::two_level)
    refuse(call, fmt::format("algorithm {} does not exist", static_cast<int>(call.algorithm)),
           "use a value of weft::Algorithm");
  check_tensors(call);
  Task task;
  const bool rooted = call.kind == Kind::broadcast || call.kind == Kind::reduce ||
                      call.kind == Kind::gather || call.kind == Kind::scatter;
  if (rooted) check_root(call, size);
  const bool is_root = rank == call.root;
  const Tensor& any = call.in.empty() ? call.out : call.in;
  const DType dtype = call.kind == Kind::barrier ? DType::u8 : any.dtype();
  check_op(call, dtype);
  task.element = size_of(dtype);
  const auto take = [&](bool in, bool out) {
    if (in) {
      want_memory(call, "in", call.in, on_gpu);
      task.in = call.in.data();
      task.in_bytes = call.in.bytes();
    }
    if (out) {
      want_memory(call, "out", call.out, on_gpu);
      task.out = call.out.data();
      task.out_bytes = call.out.bytes();
    }
  };
  const auto me = static_cast<std::size_t>(rank);
  std::ptrdiff_t shift = 0;
  switch (call.kind) {
    case Kind::barrier:
      break;
    case Kind::broadcast:
      take(is_root, !is_root);
      task.count = elements(call.in);
      break;
    case Kind::reduce:
    case Kind::all_reduce:
    case Kind::scan: {
      const bool gets = call.kind != Kind::reduce || is_root;
      take(true, gets);
      task.count = elements(call.in);
      if (gets) want(call, "out", call.out, task.count);
      break;
    }
    case Kind::reduce_scatter:
      take(true, true);
      task.offsets = offsets_of(call, call.counts, elements(call.out), size);
      want(call, "in", call.in, task.offsets.back());
      want(call, "out", call.out, task.part(rank));
      shift = static_cast<std::ptrdiff_t>(task.at(rank));
      break;
    case Kind::all_gather:
    case Kind::gather: {
      const bool gets = call.kind == Kind::all_gather || is_root;
      take(true, gets);
      task.offsets = offsets_of(call, call.counts, elements(call.in), size);
      want(call, "in", call.in, task.part(rank));
      if (gets) want(call, "out", call.out, task.offsets.back());
      shift = -static_cast<std::ptrdiff_t>(task.at(rank));
      break;
    }
    case Kind::scatter:
      take(is_root, true);
      task.offsets = offsets_of(call, call.counts, elements(call.out), size);
      if (is_root) want(call, "in", call.in, task.offsets.back());
      want(call, "out", call.out, task.part(rank));
      shift = static_cast<std::ptrdiff_t>(task.at(rank));
      break;
    case Kind::all_to_all:
      take(true, true);
      if (call.counts.empty() != call.out_counts.empty())
        refuse(call, "counts were given for one side only", "give both, or none");
      if (call.counts.empty() && elements(call.in) % size != 0)
        refuse(call, fmt::format("{} elements in {} parts", elements(call.in), size),
               "equal parts must fill the tensor; otherwise give counts");
      task.offsets = offsets_of(call, call.counts, elements(call.in) / size, size);
      task.out_offsets = offsets_of(call, call.out_counts, elements(call.in) / size, size);
      want(call, "in", call.in, task.offsets.back());
      want(call, "out", call.out, task.out_offsets.back());
      if (task.out_offsets[me + 1] - task.out_offsets[me] != task.part(rank))
        refuse(call, "the counts for this rank's part for itself differ",
               "counts and out_counts must agree for a rank's part for itself");
      break;
  }
  if (!task.offsets.empty()) task.count = task.offsets.back();
  check_overlap(call, task, shift);

  const bool by_rank = call.kind == Kind::all_to_all && !call.counts.empty();
  task.signature = {.kind = call.kind,
                    .dtype = dtype,
                    .reduction = call.op.function() != nullptr
                                     ? Signature::kUserFunction
                                     : static_cast<std::uint8_t>(call.op.reduction()),
                    .parts = static_cast<std::uint8_t>(call.counts.empty() ? 0 : 1),
                    .root = rooted ? call.root : -1,
                    .count = by_rank ? -1 : task.count,
                    .counts_hash = by_rank ? 0 : hash_of(call.counts),
                    .algorithm = call.algorithm,
                    .any_order = static_cast<std::uint8_t>(call.deterministic ? 0 : 1)};
  if (!combines(call.kind)) task.signature.reduction = 0;
  task.most_bytes = static_cast<std::size_t>(task.count) * task.element;
  if (call.kind == Kind::all_gather || call.kind == Kind::gather) {
    std::int64_t most = 0;
    for (int r = 0; r < size; ++r) most = std::max(most, task.part(r));
    task.most_bytes = static_cast<std::size_t>(most) * task.element;
  }
  if (by_rank) task.most_bytes = std::numeric_limits<std::size_t>::max();
  return task;
}

}  // namespace weft::detail
