// Signals and their remote ends.
#include "weft/signal.hpp"

#include "bindings/c/call.hpp"

using namespace weft::c;

struct weft_signal {
  OpenIn open;
  weft::Signal signal;
};

struct weft_remote_signal {
  OpenIn open;
  weft::RemoteSignal remote;
};

namespace {

weft_code tell(const weft::Result<std::uint64_t>& result, uint64_t* value) {
  if (!result.ok()) return remember(result.status());
  if (value != nullptr) *value = *result;
  return WEFT_CODE_OK;
}

}  // namespace

weft_code weft_signal_expose(weft_world* world, const char* name, uint64_t value,
                             weft_signal** signal) {
  return guarded([&] {
    auto& owner = given("expose", "world", world);
    auto& out = given("expose", "signal", signal);
    out = new weft_signal{
        OpenIn(owner), weft::Signal::expose(owner.world, text_of("expose", "name", name), value)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_signal_value(const weft_signal* signal, uint64_t* value) {
  return guarded([&] {
    auto& out = given("value", "value", value);
    out = in_rank("value", "signal", signal).signal.value();
    return WEFT_CODE_OK;
  });
}

weft_code weft_signal_fetch_add(weft_signal* signal, uint64_t amount, uint64_t* previous) {
  return guarded(
      [&] { return tell(in_rank("add", "signal", signal).signal.fetch_add(amount), previous); });
}

weft_code weft_signal_compare_swap(weft_signal* signal, uint64_t expected, uint64_t desired,
                                   uint64_t* previous) {
  return guarded([&] {
    auto& own = in_rank("compare_swap", "signal", signal).signal;
    return tell(own.compare_swap(expected, desired), previous);
  });
}

weft_code weft_signal_wait_at_least(weft_signal* signal, uint64_t least, double timeout_seconds,
                                    uint64_t* value) {
  return guarded([&] {
    auto& own = given("wait", "signal", signal).signal;
    return tell(own.wait_at_least(least, deadline("wait", timeout_seconds)), value);
  });
}

weft_code weft_signal_also_needs(weft_signal* signal, const int* ranks, size_t count) {
  return guarded([&] {
    in_rank("also_needs", "signal", signal)
        .signal.also_needs(given("also_needs", "ranks", ranks, count));
    return WEFT_CODE_OK;
  });
}

weft_code weft_signal_close(weft_signal* signal) {
  return guarded([&] {
    delete &in_rank("signal_close", "signal", signal);
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_signal_attach(weft_world* world, int owner, const char* name,
                                    double timeout_seconds, weft_remote_signal** remote) {
  return guarded([&] {
    auto& self = given("attach", "world", world);
    auto& out = given("attach", "remote", remote);
    out = new weft_remote_signal{
        OpenIn(self), weft::RemoteSignal::attach(self.world, owner, text_of("attach", "name", name),
                                                 deadline("attach", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_signal_owner(const weft_remote_signal* remote, int* owner) {
  return guarded([&] {
    auto& out = given("owner", "owner", owner);
    out = in_rank("owner", "remote", remote).remote.owner();
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_signal_is_direct(const weft_remote_signal* remote, int* direct) {
  return guarded([&] {
    auto& out = given("is_direct", "direct", direct);
    out = in_rank("is_direct", "remote", remote).remote.is_direct() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_remote_signal_add(weft_remote_signal* remote, uint64_t amount) {
  return guarded([&] { return code_of(given("add", "remote", remote).remote.add(amount)); });
}

weft_code weft_remote_signal_fetch_add(weft_remote_signal* remote, uint64_t amount,
                                       double timeout_seconds, uint64_t* previous) {
  return guarded([&] {
    auto& to = given("add", "remote", remote).remote;
    return tell(to.fetch_add(amount, deadline("add", timeout_seconds)), previous);
  });
}

weft_code weft_remote_signal_compare_swap(weft_remote_signal* remote, uint64_t expected,
                                          uint64_t desired, double timeout_seconds,
                                          uint64_t* previous) {
  return guarded([&] {
    auto& to = given("compare_swap", "remote", remote).remote;
    return tell(to.compare_swap(expected, desired, deadline("compare_swap", timeout_seconds)),
                previous);
  });
}

weft_code weft_remote_signal_put(weft_remote_signal* remote, weft_remote_slot* slot,
                                 const weft_tensor* tensor, uint64_t amount,
                                 double timeout_seconds) {
  return guarded([&] {
    auto& to = given("put", "remote", remote).remote;
    return code_of(to.put(given("put", "slot", slot).remote, given("put", "tensor", tensor).tensor,
                          amount, deadline("put", timeout_seconds)));
  });
}

weft_code weft_remote_signal_close(weft_remote_signal* remote) {
  return guarded([&] {
    delete &in_rank("remote_signal_close", "remote", remote);
    return WEFT_CODE_OK;
  });
}
