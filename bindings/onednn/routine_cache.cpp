#include "bindings/onednn/routine_cache.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "base/mix64.hpp"
#include "bindings/onednn/single_thread.hpp"

namespace weft::dataflow::onednn {
namespace {

std::uint64_t hash_of(const Operands& operands) {
  std::uint64_t hash = kFnv1a;
  for (std::size_t i = 0; i < operands.inputs(); ++i) {
    hash = fnv1a(hash, operands.has(i) ? std::uint64_t(operands.dtype(i)) + 1 : 0);
    if (!operands.has(i)) continue;
    const Shape& shape = operands.shape(i);
    hash = fnv1a(hash, shape.dims());
    for (std::size_t d = 0; d < shape.dims(); ++d)
      hash = fnv1a(hash, static_cast<std::uint64_t>(shape[d]));
  }
  return hash;
}

}  // namespace

/// A routine that is this thread's until the end of the scope.
class RoutineCache::Borrowed {
 public:
  Borrowed(RoutineCache& cache, const Operands& operands)
      : cache_(cache), entry_(cache.entry_for(operands)), routine_(cache.take(*entry_, operands)) {}
  ~Borrowed() {
    const std::lock_guard lock(cache_.mutex_);
    entry_->idle.push_back(std::move(routine_));  // has room: see take()
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Routine& operator*() const noexcept { return *routine_; }

 private:
  RoutineCache& cache_;
  const std::shared_ptr<Entry> entry_;
  std::unique_ptr<Routine> routine_;
};

bool RoutineCache::is_for(const Entry& entry, std::uint64_t hash, const Operands& operands) const {
  if (entry.hash != hash || entry.inputs.size() != operands.inputs()) return false;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const Input& input = entry.inputs[i];
    if (input.is_there != operands.has(i)) return false;
    if (input.is_there && (input.dtype != operands.dtype(i) || input.shape != operands.shape(i)))
      return false;
  }
  return entry.attributes == operands.attributes();
}

std::shared_ptr<RoutineCache::Entry> RoutineCache::entry_for(const Operands& operands) {
  const std::uint64_t hash = hash_of(operands);
  const std::lock_guard lock(mutex_);
  ++uses_;
  for (const auto& entry : entries_)
    if (is_for(*entry, hash, operands)) {
      entry->last_use = uses_;
      return entry;
    }
  auto entry = std::make_shared<Entry>();
  entry->hash = hash;
  entry->attributes = operands.attributes();
  for (std::size_t i = 0; i < operands.inputs(); ++i)
    entry->inputs.push_back(operands.has(i) ? Input{true, operands.dtype(i), operands.shape(i)}
                                            : Input{false, DType::u8, {}});
  entry->last_use = uses_;
  if (entries_.size() >= kKept)
    *std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a->last_use < b->last_use;
    }) = entry;
  else
    entries_.push_back(entry);
  return entry;
}

std::unique_ptr<Routine> RoutineCache::take(Entry& entry, const Operands& operands) {
  {
    const std::lock_guard lock(mutex_);
    if (!entry.idle.empty()) {
      auto routine = std::move(entry.idle.back());
      entry.idle.pop_back();
      return routine;
    }
    entry.idle.reserve(++entry.routines);
  }
  auto routine = std::make_unique<Routine>(library_->engine);
  build_(*routine, operands);
  return routine;
}

void RoutineCache::compute(const Operands& operands) {
  const Borrowed routine(*this, operands);
  const ScratchPool::Piece scratch(library_->scratch, (*routine).scratch_bytes());
  (*routine).execute(operands, scratch.data());
}

void RoutineCache::run(KernelCall& call) {
  const Operands operands(call, definition_);
  if (!rules_.takes_any_dtype) operands.need_f32();
  bool has_empty_input = false;
  for (std::size_t i = 0; i < operands.inputs(); ++i)
    has_empty_input |= operands.has(i) && operands.input(i).bytes() == 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < operands.outputs(); ++i) bytes += operands.output(i).bytes();
  if (bytes == 0) return;
  if (has_empty_input) {
    if (rules_.of_nothing == OfNothing::refused)
      operands.refuse("there is no result of no elements");
    for (std::size_t i = 0; i < operands.outputs(); ++i)
      std::memset(operands.output(i).data(), 0, operands.output(i).bytes());
    return;
  }
  const SingleThread limit;
  try {
    compute(operands);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory)
      throw_error(Code::exhausted, "kernel", operands.text() + ": oneDNN is out of memory");
    operands.refuse(std::string("oneDNN refuses it: ") + error.what());
  }
}

}  // namespace weft::dataflow::onednn
