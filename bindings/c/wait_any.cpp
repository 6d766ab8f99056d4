// The wait for one of several handles.
#include <cstddef>
#include <functional>
#include <vector>

#include "bindings/c/call.hpp"
#include "bindings/c/sized.hpp"

using namespace weft::c;

namespace {

/// The parts of handles that C++ waits for: `part` of each.
template <typename Handle, typename PartOf>
auto parts(const char* what, Handle* const* handles, std::size_t count, const PartOf& part) {
  std::vector<decltype(&std::invoke(part, **handles))> list;
  list.reserve(count);
  for (Handle* const handle : given("wait_any", what, handles, count))
    list.push_back(&std::invoke(part, given("wait_any", what, handle)));
  return list;
}

}  // namespace

weft_code weft_wait_any(weft_world* world, const weft_wait_set* set, double timeout_seconds,
                        size_t* index) {
  return guarded([&] {
    auto& out = given("wait_any", "index", index);
    auto& self = given("wait_any", "world", world).world;
    const auto from = read_sized("wait_any", "set", set);
    const auto slots = parts("a slot", from.slots, from.slot_count, &weft_slot::slot);
    const auto requests =
        parts("a request", from.requests, from.request_count, &weft_request::request);
    const auto readers =
        parts("a reader", from.readers, from.reader_count, &weft_published_reader::reader);
    const auto plans = parts("a plan", from.plans, from.plan_count, plan_in);
    const auto messages = parts("a message", from.messages, from.message_count, request_in);
    const auto result = self.wait_any(weft::WaitSet{.slots = slots,
                                                    .requests = requests,
                                                    .readers = readers,
                                                    .plans = plans,
                                                    .messages = messages},
                                      deadline("wait_any", timeout_seconds));
    if (!result.ok()) return remember(result.status());
    out = *result;
    return WEFT_CODE_OK;
  });
}
