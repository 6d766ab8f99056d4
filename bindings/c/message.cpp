// Messages and their requests.
#include "weft/message.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/c/handles.hpp"
#include "bindings/c/sized.hpp"

using namespace weft::c;

struct weft_message_request {
  OpenIn open;
  weft::MessageRequest request;
  bool listed = false;  ///< by a call that waits for several
};

namespace {

weft::Messages messages_of(const char* operation, weft_world* world) {
  weft::World& of = given(operation, "world", world).world;
  try {
    return weft::Messages(of);
  } catch (const weft::Error& error) {
    weft::ErrorDetail detail = error.detail();
    detail.operation = operation;
    throw weft::Error(std::move(detail));
  }
}

weft_code tell(const char* operation, const weft::MessageInfo& message, weft_message_info* info) {
  if (info == nullptr) return WEFT_CODE_OK;
  weft_message_info known{};
  known.source = message.source;
  known.tag = message.tag;
  known.bytes = message.bytes;
  known.dtype = static_cast<weft_dtype>(message.dtype);
  write_sized(operation, "info", info, known);
  return WEFT_CODE_OK;
}

weft_code tell(const char* operation, const weft::Result<weft::MessageInfo>& result,
               weft_message_info* info) {
  return result.ok() ? tell(operation, *result, info) : remember(result.status());
}

const weft::Tensor& target_of(const char* operation, const weft_tensor* into) {
  const weft_tensor& to = given(operation, "into", into);
  check_writable(operation, to);
  return to.tensor;
}

void check_info(const char* operation, const weft_message_info* info) {
  if (info != nullptr) check_struct_size(operation, "info", info->struct_size);
}

/// Requests of several handles in one row, as C++ takes them; they go back at the end.
class Gathered {
 public:
  Gathered(const char* operation, std::span<weft_message_request* const> handles)
      : handles_(handles) {
    requests_.reserve(handles.size());
    try {
      for (weft_message_request* const handle : handles) take(operation, handle);
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Gathered() { give_back(); }
  Gathered(const Gathered&) = delete;
  Gathered& operator=(const Gathered&) = delete;

  std::span<weft::MessageRequest> requests() noexcept { return requests_; }

 private:
  void take(const char* operation, weft_message_request* handle) {
    if (in_rank(operation, "a request", handle).listed)
      weft::throw_error(weft::Code::bad_argument, operation, "a request is listed twice");
    handle->listed = true;
    requests_.push_back(std::move(handle->request));
  }
  void give_back() noexcept {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      handles_[i]->request = std::move(requests_[i]);
      handles_[i]->listed = false;
    }
  }

  std::span<weft_message_request* const> handles_;
  std::vector<weft::MessageRequest> requests_;
};

}  // namespace

weft::MessageRequest& weft::c::request_in(weft_message_request& handle) noexcept {
  return handle.request;
}

weft_code weft_message_send(weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                            double timeout_seconds) {
  return guarded([&] {
    return code_of(messages_of("send", world)
                       .send(to, tag, given("send", "tensor", tensor).tensor,
                             deadline("send", timeout_seconds)));
  });
}

weft_code weft_message_isend(weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                             weft_message_request** request) {
  return guarded([&] {
    auto& out = given("isend", "request", request);
    auto messages = messages_of("isend", world);
    const auto& from = given("isend", "tensor", tensor).tensor;
    std::unique_ptr<weft_message_request> made(new weft_message_request{OpenIn(*world), {}});
    made->request = messages.isend(to, tag, from);
    out = made.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_message_recv(weft_world* world, int from, uint64_t tag, uint64_t mask,
                            const weft_tensor* into, double timeout_seconds,
                            weft_message_info* info) {
  return guarded([&] {
    check_info("recv", info);
    return tell("recv",
                messages_of("recv", world)
                    .recv(from, weft::Tag(tag, mask), target_of("recv", into),
                          deadline("recv", timeout_seconds)),
                info);
  });
}

weft_code weft_message_irecv(weft_world* world, int from, uint64_t tag, uint64_t mask,
                             const weft_tensor* into, weft_message_request** request) {
  return guarded([&] {
    auto& out = given("irecv", "request", request);
    auto messages = messages_of("irecv", world);
    const auto& to = target_of("irecv", into);
    std::unique_ptr<weft_message_request> made(new weft_message_request{OpenIn(*world), {}});
    made->request = messages.irecv(from, weft::Tag(tag, mask), to);
    out = made.release();
    return WEFT_CODE_OK;
  });
}

weft_code weft_message_sendrecv(weft_world* world, int to, uint64_t tag, const weft_tensor* tensor,
                                int from, uint64_t from_tag, uint64_t from_mask,
                                const weft_tensor* into, double timeout_seconds,
                                weft_message_info* info) {
  constexpr auto kOperation = "sendrecv";
  return guarded([&] {
    check_info(kOperation, info);
    return tell(kOperation,
                messages_of(kOperation, world)
                    .sendrecv(to, tag, given(kOperation, "tensor", tensor).tensor, from,
                              weft::Tag(from_tag, from_mask), target_of(kOperation, into),
                              deadline(kOperation, timeout_seconds)),
                info);
  });
}

weft_code weft_message_probe(weft_world* world, int from, uint64_t tag, uint64_t mask,
                             double timeout_seconds, weft_message_info* info) {
  return guarded([&] {
    check_info("probe", info);
    return tell("probe",
                messages_of("probe", world)
                    .probe(from, weft::Tag(tag, mask), deadline("probe", timeout_seconds)),
                info);
  });
}

weft_code weft_message_iprobe(weft_world* world, int from, uint64_t tag, uint64_t mask,
                              weft_message_info* info, int* found) {
  return guarded([&] {
    check_info("iprobe", info);
    auto& out = given("iprobe", "found", found);
    const auto message = messages_of("iprobe", world).iprobe(from, weft::Tag(tag, mask));
    out = message ? 1 : 0;
    return message ? tell("iprobe", *message, info) : WEFT_CODE_OK;
  });
}

weft_code weft_message_request_test(weft_message_request* request, int* ended) {
  return guarded([&] {
    auto& out = given("test", "ended", ended);
    out = in_rank("test", "request", request).request.test() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_message_request_wait(weft_message_request* request, double timeout_seconds,
                                    weft_message_info* info) {
  return guarded([&] {
    check_info("wait", info);
    auto& waiting = given("wait", "request", request).request;
    return tell("wait", waiting.wait(deadline("wait", timeout_seconds)), info);
  });
}

weft_code weft_message_request_cancel(weft_message_request* request) {
  return guarded([&] { return code_of(in_rank("cancel", "request", request).request.cancel()); });
}

weft_code weft_message_request_free(weft_message_request* request) {
  return guarded([&] {
    delete &in_rank("message_request_free", "request", request);
    return WEFT_CODE_OK;
  });
}

weft_code weft_message_wait_all(weft_world* world, weft_message_request* const* requests,
                                size_t count, double timeout_seconds) {
  return guarded([&] {
    auto messages = messages_of("wait_all", world);
    const auto until = deadline("wait_all", timeout_seconds);
    Gathered all("wait_all", given("wait_all", "requests", requests, count));
    return code_of(messages.wait_all(all.requests(), until));
  });
}

weft_code weft_message_wait_any(weft_world* world, weft_message_request* const* requests,
                                size_t count, double timeout_seconds, size_t* index) {
  return guarded([&] {
    auto& out = given("wait_any", "index", index);
    auto messages = messages_of("wait_any", world);
    const auto until = deadline("wait_any", timeout_seconds);
    Gathered all("wait_any", given("wait_any", "requests", requests, count));
    const auto result = messages.wait_any(all.requests(), until);
    if (!result.ok()) return remember(result.status());
    out = *result;
    return WEFT_CODE_OK;
  });
}
