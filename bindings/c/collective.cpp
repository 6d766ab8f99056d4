// Collectives and plans.
#include "weft/collective.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/c/handles.hpp"
#include "bindings/c/sized.hpp"

using namespace weft::c;

struct weft_collectives {
  OpenIn open;
  weft::Collectives group;
  int plans = 0;  ///< handles that must be freed first
};

struct weft_plan {
  explicit weft_plan(weft_collectives& from) : open(from.open.world()), group(&from) {
    ++group->plans;
  }
  ~weft_plan() { --group->plans; }
  weft_plan(const weft_plan&) = delete;
  weft_plan& operator=(const weft_plan&) = delete;

  OpenIn open;
  weft_collectives* group;
  weft::Plan plan;
};

namespace {

static_assert(WEFT_REDUCTION_BIT_XOR == static_cast<int>(weft::Reduction::bit_xor));
static_assert(WEFT_COLLECTIVE_SCAN == static_cast<int>(weft::CollectiveKind::scan));
static_assert(WEFT_ALGORITHM_TWO_LEVEL == static_cast<int>(weft::Algorithm::two_level));

weft::ReduceOp op_of(const char* operation, const weft_call& from) {
  if (from.reduce == nullptr)
    return checked_value(operation, "reduction", from.reduction, weft::Reduction::bit_xor);
  return weft::ReduceFunction(
      [reduce = from.reduce, context = from.reduce_context](std::byte* into, const std::byte* with,
                                                            std::int64_t count, weft::DType dtype) {
        reduce(context, into, with, count, static_cast<weft_dtype>(dtype));
      });
}

std::vector<std::int64_t> counts_of(const std::int64_t* counts, int size) {
  if (counts == nullptr) return {};
  return {counts, counts + size};
}

weft::Call call_of(const char* operation, const weft_collectives& group,
                   const weft_call* given_call) {
  using enum weft::CollectiveKind;
  const auto from = read_sized(operation, "call", given_call);
  weft::Call call;
  call.kind = checked_value(operation, "kind", from.kind, scan);
  // As C++ ranks of the job give it: calls of all ranks are compared.
  if (call.kind == broadcast || call.kind == reduce || call.kind == gather || call.kind == scatter)
    call.root = from.root;
  call.op = op_of(operation, from);
  call.algorithm =
      checked_value(operation, "algorithm", from.algorithm, weft::Algorithm::two_level);
  call.deterministic = from.any_order == 0;
  call.counts = counts_of(from.counts, group.group.size());
  call.out_counts = counts_of(from.out_counts, group.group.size());
  const bool reads_only = call.kind == broadcast && from.root == group.group.rank();
  if (from.out != nullptr && !reads_only) check_writable(operation, *from.out);
  if (from.in != nullptr) call.in = from.in->tensor;
  if (from.out != nullptr) call.out = from.out->tensor;
  if (call.kind == broadcast || (call.kind == all_reduce && from.in == nullptr)) call.in = call.out;
  return call;
}

}  // namespace

weft::Plan& weft::c::plan_in(weft_plan& handle) noexcept { return handle.plan; }

weft_code weft_collectives_open(weft_world* world, const weft_group* group, double timeout_seconds,
                                weft_collectives** collectives) {
  return guarded([&] {
    auto& self = in_rank("open", "world", world);
    auto& out = given("open", "collectives", collectives);
    const auto until = deadline("open", timeout_seconds);
    out = new weft_collectives{
        OpenIn(self), group == nullptr ? weft::Collectives::open(self.world, until)
                                       : weft::Collectives::open(self.world, group->group, until)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_open_ranks(weft_world* world, const int* ranks, size_t count,
                                      double timeout_seconds, weft_collectives** collectives) {
  return guarded([&] {
    auto& self = in_rank("open", "world", world);
    auto& out = given("open", "collectives", collectives);
    out = new weft_collectives{
        OpenIn(self), weft::Collectives::open(self.world, given("open", "ranks", ranks, count),
                                              deadline("open", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_close(weft_collectives* collectives) {
  return guarded([&] {
    check_closed("collectives_close",
                 in_rank("collectives_close", "collectives", collectives).plans,
                 "plans of this group");
    delete collectives;
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_rank(const weft_collectives* collectives, int* place) {
  return guarded([&] {
    auto& out = given("rank", "place", place);
    out = in_rank("rank", "collectives", collectives).group.rank();
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_size(const weft_collectives* collectives, int* size) {
  return guarded([&] {
    auto& out = given("size", "size", size);
    out = in_rank("size", "collectives", collectives).group.size();
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_ranks(const weft_collectives* collectives, const int** ranks) {
  return guarded([&] {
    auto& out = given("ranks", "ranks", ranks);
    out = in_rank("ranks", "collectives", collectives).group.ranks().data();
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_run(weft_collectives* collectives, const weft_call* call,
                               double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("run", "collectives", collectives);
    return code_of(self.group.run(call_of("run", self, call), deadline("run", timeout_seconds)));
  });
}

weft_code weft_collectives_plan(weft_collectives* collectives, const weft_call* call,
                                weft_plan** plan) {
  return guarded([&] {
    auto& out = given("plan", "plan", plan);
    auto& self = in_rank("plan", "collectives", collectives);
    auto made = std::make_unique<weft_plan>(self);
    made->plan = self.group.plan(call_of("plan", self, call));
    out = made.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_start(weft_collectives* collectives, const weft_call* call,
                                 weft_plan** plan) {
  return guarded([&] {
    auto& out = given("start", "plan", plan);
    auto& self = in_rank("start", "collectives", collectives);
    auto made = std::make_unique<weft_plan>(self);
    made->plan = self.group.start(call_of("start", self, call));
    out = made.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_settle(weft_collectives* collectives, double timeout_seconds) {
  return guarded([&] {
    auto& group = given("settle", "collectives", collectives).group;
    return code_of(group.settle(deadline("settle", timeout_seconds)));
  });
}

weft_code weft_collectives_bytes_copied(const weft_collectives* collectives, uint64_t* bytes) {
  return guarded([&] {
    auto& out = given("bytes_copied", "bytes", bytes);
    out = in_rank("bytes_copied", "collectives", collectives).group.bytes_copied();
    return WEFT_CODE_OK;
  });
}

weft_code weft_collectives_staged_bytes(const weft_collectives* collectives, uint64_t* bytes) {
  return guarded([&] {
    auto& out = given("staged_bytes", "bytes", bytes);
    out = in_rank("staged_bytes", "collectives", collectives).group.staged_bytes();
    return WEFT_CODE_OK;
  });
}

weft_code weft_plan_start(weft_plan* plan) {
  return guarded([&] { return code_of(given("start", "plan", plan).plan.start()); });
}

weft_code weft_plan_test(weft_plan* plan, int* ended) {
  return guarded([&] {
    auto& out = given("test", "ended", ended);
    out = in_rank("test", "plan", plan).plan.test() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_plan_wait(weft_plan* plan, double timeout_seconds) {
  return guarded([&] {
    auto& waiting = given("wait", "plan", plan).plan;
    return code_of(waiting.wait(deadline("wait", timeout_seconds)));
  });
}

weft_code weft_plan_run(weft_plan* plan, double timeout_seconds) {
  return guarded([&] {
    auto& running = given("run", "plan", plan).plan;
    return code_of(running.run(deadline("run", timeout_seconds)));
  });
}

weft_code weft_plan_free(weft_plan* plan) {
  return guarded([&] {
    delete &in_rank("plan_free", "plan", plan);
    return WEFT_CODE_OK;
  });
}
