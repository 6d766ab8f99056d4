// Joining and leaving the job, and what a rank knows of the others.
#include <chrono>
#include <optional>
#include <string>

#include "bindings/c/call.hpp"
#include "bindings/c/report_json.hpp"
#include "bindings/c/sized.hpp"
#include "runtime/world/services.hpp"

using namespace weft::c;

namespace {

weft::JoinOptions join_options(const weft_join_options* given_options) {
  const auto from = read_sized("join", "options", given_options);
  weft::JoinOptions options;
  if (from.size != 0) {
    options.rank = from.rank;
    options.size = from.size;
  }
  if (from.address != nullptr) options.address = from.address;
  const auto token =
      given("join", "options->token", static_cast<const char*>(from.token), from.token_bytes);
  options.token.assign(token.begin(), token.end());
  return options;
}

}  // namespace

weft_code weft_join(weft_world** world) {
  return guarded([&] {
    auto& out = given("join", "world", world);
    out = new weft_world{weft::World::join()};
    return WEFT_CODE_OK;
  });
}

weft_code weft_join_with(const weft_join_options* options, weft_world** world) {
  return guarded([&] {
    auto& out = given("join", "world", world);
    out = new weft_world{weft::World::join(join_options(options))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_leave(weft_world* world, double timeout_seconds) {
  return guarded([&] {
    auto& leaving = in_rank("leave", "world", world);
    const auto until = deadline("leave", timeout_seconds);
    check_closed("leave", leaving.open, "slots or other handles of this world");
    const auto status = leaving.world.leave(until);
    delete world;
    return code_of(status);
  });
}

weft_code weft_world_leave(weft_world* world, double timeout_seconds) {
  return guarded([&] {
    auto& leaving = given("leave", "world", world).world;
    return code_of(leaving.leave(deadline("leave", timeout_seconds)));
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

weft_code weft_world_timeout(const weft_world* world, double* seconds) {
  return guarded([&] {
    auto& out = given("timeout", "seconds", seconds);
    auto& self = const_cast<weft_world&>(given("timeout", "world", world)).world;
    out = std::chrono::duration<double>(weft::default_timeout(self)).count();
    return WEFT_CODE_OK;
  });
}

weft_code weft_world_host(const weft_world* world, int rank, char** host) {
  return guarded([&] {
    auto& out = given("host", "host", host);
    out = new_text(given("host", "world", world).world.host(rank));
    return WEFT_CODE_OK;
  });
}

weft_code weft_world_local_size(const weft_world* world, int* size) {
  return guarded([&] {
    given("local_size", "size", size) = in_rank("local_size", "world", world).world.local_size();
    return WEFT_CODE_OK;
  });
}

weft_code weft_world_alive(const weft_world* world, const int* ranks, size_t count) {
  return guarded([&] {
    return code_of(
        given("alive", "world", world).world.alive(given("alive", "ranks", ranks, count)));
  });
}

weft_code weft_world_declare_dead(weft_world* world, int rank, const char* why) {
  return guarded([&] {
    in_rank("declare_dead", "world", world)
        .world.declare_dead(rank, text_of("declare_dead", "why", why));
    return WEFT_CODE_OK;
  });
}

weft_code weft_world_event_fd(weft_world* world, int* fd) {
  return guarded([&] {
    given("event_fd", "fd", fd) = given("event_fd", "world", world).world.event_fd();
    return WEFT_CODE_OK;
  });
}

weft_code weft_world_clear_event(weft_world* world) {
  return guarded([&] {
    in_rank("clear_event", "world", world).world.clear_event();
    return WEFT_CODE_OK;
  });
}

weft_code weft_world_report(const weft_world* world, char** json) {
  return guarded([&] {
    auto& out = given("report", "json", json);
    const weft::World& self = given("report", "world", world).world;
    out = new_text(report_json(self.report(), self.rank(), self.size()));
    return WEFT_CODE_OK;
  });
}
