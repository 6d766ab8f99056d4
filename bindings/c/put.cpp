// Puts: those that wait, and those that are requests.
#include <memory>
#include <span>
#include <vector>

#include "bindings/c/call.hpp"
#include "bindings/c/tensor.hpp"

using namespace weft::c;

namespace {

/// A timeout of C++, told in the terms of this API: with this code and this hint.
weft_code remember_late(weft_code code, const weft::Status& status, const char* hint) {
  return remember(code,
                  weft::altered(status, [&](weft::ErrorDetail& detail) { detail.hint = hint; }));
}

/// Waits for the put that an earlier call has left under way, if there is one.
weft::Status wait_for_put(weft_remote_slot& remote, weft::Deadline until) {
  auto status = remote.under_way.wait(until);
  if (status.code() != weft::Code::timeout && status.code() != weft::Code::forked)
    remote.under_way = {};
  return status;
}

weft_code remember_under_way(const weft::Status& status) {
  return remember_late(WEFT_CODE_UNDER_WAY, status,
                       "the tensor stays lent until weft_put_wait returns another code");
}

}  // namespace

weft_code weft_put(weft_remote_slot* remote, const weft_tensor* tensor, double timeout_seconds) {
  return guarded([&] {
    auto& to = given("put", "remote", remote);
    const auto& from = given("put", "tensor", tensor).tensor;
    const auto until = deadline("put", timeout_seconds);
    const auto earlier = wait_for_put(to, until);
    if (earlier.code() == weft::Code::timeout)
      return remember_late(WEFT_CODE_TIMEOUT, earlier,
                           "that is the put before; nothing was sent of this one");
    if (!earlier.ok()) return remember(earlier);
    auto request = to.remote.put(from);
    auto status = request.wait(until);
    if (status.code() == weft::Code::timeout) {
      if (request.cancel().code() == weft::Code::cancelled)
        return remember_late(WEFT_CODE_TIMEOUT, status,
                             "is the owner at the same step? the put was withdrawn");
      // It has begun, or ended meanwhile.
      status = request.wait(weft::Deadline::after({}));
    }
    if (status.ok()) return WEFT_CODE_OK;
    if (status.code() != weft::Code::timeout) return remember(status);
    to.under_way = request;
    return remember_under_way(status);
  });
}

weft_code weft_put_wait(weft_remote_slot* remote, double timeout_seconds) {
  return guarded([&] {
    auto& to = in_rank("put_wait", "remote", remote);
    const auto status = wait_for_put(to, deadline("put_wait", timeout_seconds));
    if (status.ok()) return WEFT_CODE_OK;
    return status.code() == weft::Code::timeout ? remember_under_way(status) : remember(status);
  });
}

weft_code weft_put_start(weft_remote_slot* remote, const weft_tensor* const* parts, size_t count,
                         weft_until until, weft_request** request) {
  return guarded([&] {
    auto& out = given("put", "request", request);
    auto& to = in_rank("put", "remote", remote);
    const auto when = checked_value("put", "until", until, weft::Until::delivered);
    const auto handles = given("put", "parts", parts, count);
    // First, so that a failed allocation loses no request.
    auto made = std::make_unique<weft_request>(to);
    if (handles.size() == 1) {
      made->request = to.remote.put(given("put", "parts[0]", handles[0]).tensor, when);
    } else {
      const auto tensors = tensors_of("put", parts, count);
      made->request = to.remote.put(std::span<const weft::Tensor>(tensors), when);
    }
    out = made.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_put_start_on(weft_remote_slot* remote, const weft_tensor* tensor,
                            void* const* stream, weft_until until, weft_request** request) {
  return guarded([&] {
    auto& out = given("put", "request", request);
    auto& to = in_rank("put", "remote", remote);
    const auto when = checked_value("put", "until", until, weft::Until::delivered);
    auto made = std::make_unique<weft_request>(to);
    made->request = to.remote.put(given("put", "tensor", tensor).tensor, stream_in(stream), when);
    out = made.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_request_test(weft_request* request, int* ended) {
  return guarded([&] {
    auto& out = given("test", "ended", ended);
    out = in_rank("test", "request", request).request.test() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_request_wait(weft_request* request, double timeout_seconds) {
  return guarded([&] {
    auto& waiting = in_rank("wait", "request", request).request;
    return code_of(waiting.wait(deadline("wait", timeout_seconds)));
  });
}

weft_code weft_request_wait_on(weft_request* request, void* const* stream, double timeout_seconds) {
  return guarded([&] {
    auto& waiting = in_rank("wait", "request", request).request;
    return code_of(waiting.wait_on(stream_in(stream), deadline("wait", timeout_seconds)));
  });
}

weft_code weft_request_cancel(weft_request* request) {
  return guarded([&] { return code_of(in_rank("cancel", "request", request).request.cancel()); });
}

weft_code weft_request_free(weft_request* request) {
  return guarded([&] {
    delete &in_rank("request_free", "request", request);
    return WEFT_CODE_OK;
  });
}
