// Joining and leaving the job.
#include <string>

#include "bindings/c/call.hpp"

using namespace weft::c;

weft_code weft_join(weft_world** world) {
  return guarded([&] {
    auto& out = given("join", "world", world);
    out = new weft_world{weft::World::join()};
    return WEFT_CODE_OK;
  });
}

weft_code weft_leave(weft_world* world, double timeout_seconds) {
  return guarded([&] {
    auto& leaving = in_rank("leave", "world", world);
    const auto until = deadline("leave", timeout_seconds);
    if (const int open = leaving.open_slots; open > 0)
      weft::throw_error(weft::Code::bad_argument, "leave",
                        std::to_string(open) + " slots are still open; close them first");
    const auto status = leaving.world.leave(until);
    delete world;
    return status.ok() ? WEFT_CODE_OK : remember(status);
  });
}

weft_code weft_rank(const weft_world* world, int* rank) {
  return guarded([&] {
    given("rank", "rank", rank) = in_rank("rank", "world", world).world.rank();
    return WEFT_CODE_OK;
  });
}

weft_code weft_size(const weft_world* world, int* size) {
  return guarded([&] {
    given("size", "size", size) = in_rank("size", "world", world).world.size();
    return WEFT_CODE_OK;
  });
}
