// Rendezvous: tensors by key and step.
#include "weft/rendezvous.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/c/sized.hpp"
#include "bindings/c/tensor.hpp"

using namespace weft::c;

struct weft_rendezvous {
  OpenIn open;
  weft::Rendezvous exchange;
};

namespace {

static_assert(WEFT_RENDEZVOUS_CANCEL == static_cast<int>(weft::RendezvousMessage::cancel));

/// A value that the caller has encoded.
class EncodedBytes final : public weft::Codec {
 public:
  EncodedBytes(int id, const void* data, std::size_t bytes)
      : id_(static_cast<std::uint16_t>(id)), bytes_(static_cast<const std::byte*>(data), bytes) {}
  std::uint16_t id() const override { return id_; }
  std::size_t size() const override { return bytes_.size(); }
  void encode(std::span<std::byte> to) const override {
    if (!bytes_.empty()) std::memcpy(to.data(), bytes_.data(), bytes_.size());
  }
  void decode(std::span<const std::byte>) override {}  // only sent

 private:
  std::uint16_t id_;
  std::span<const std::byte> bytes_;
};

void observe(weft_rendezvous_observer observer, void* context, const weft::RendezvousEvent& event) {
  weft_rendezvous_event seen{};
  seen.struct_size = sizeof seen;
  seen.key = event.key.data();
  seen.key_bytes = event.key.size();
  seen.step = event.step;
  seen.message = static_cast<weft_rendezvous_message>(event.message);
  seen.peer = event.peer;
  seen.sent = event.sent ? 1 : 0;
  seen.by_name = event.by_name ? 1 : 0;
  seen.with_metadata = event.with_metadata ? 1 : 0;
  observer(context, &seen);
}

weft::RendezvousSpec spec_of(const weft_rendezvous_spec* given_spec) {
  const auto from = read_optional("open", "spec", given_spec);
  weft::RendezvousSpec spec;
  if (from.name != nullptr) spec.name = from.name;
  if (from.max_parked_bytes != 0) spec.max_parked_bytes = from.max_parked_bytes;
  if (from.max_parked != 0) spec.max_parked = from.max_parked;
  if (from.max_parked_requests != 0) spec.max_parked_requests = from.max_parked_requests;
  if (from.message_bytes != 0) spec.message_bytes = from.message_bytes;
  spec.cache_metadata = from.no_metadata_cache == 0;
  spec.index_keys = from.no_key_index == 0;
  spec.batch_requests = from.no_request_batch == 0;
  if (from.place != nullptr) spec.memory = memory_in("open", *from.place);
  if (from.observer != nullptr)
    spec.observer = [observer = from.observer, context = from.observer_context](
                        const weft::RendezvousEvent& event) { observe(observer, context, event); };
  return spec;
}

std::string_view key_of(const char* operation, const char* key) {
  return &given(operation, "key", key);
}

weft_received received_of(const weft::Received& from, std::unique_ptr<weft_tensor> handle) {
  weft_received known{};
  known.is_dead = from.is_dead ? 1 : 0;
  known.codec = from.codec;
  if (from.is_dead) return known;
  handle->tensor = from.tensor;
  handle->memory = WEFT_MEMORY_ARENA;
  known.tensor = handle.release();
  return known;
}

}  // namespace

weft_code weft_rendezvous_open(weft_world* world, const weft_group* group,
                               const weft_rendezvous_spec* spec, double timeout_seconds,
                               weft_rendezvous** rendezvous) {
  return guarded([&] {
    auto& self = in_rank("open", "world", world);
    auto& out = given("open", "rendezvous", rendezvous);
    const auto wanted = spec_of(spec);
    const auto until = deadline("open", timeout_seconds);
    out = new weft_rendezvous{
        OpenIn(self), group == nullptr
                          ? weft::Rendezvous::open(self.world, wanted, until)
                          : weft::Rendezvous::open(self.world, group->group, wanted, until)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_rendezvous_close(weft_rendezvous* rendezvous) {
  return guarded([&] {
    delete &in_rank("rendezvous_close", "rendezvous", rendezvous);
    return WEFT_CODE_OK;
  });
}

weft_code weft_rendezvous_send(weft_rendezvous* rendezvous, int to, const char* key, uint64_t step,
                               const weft_tensor* tensor, double timeout_seconds) {
  return guarded([&] {
    auto& exchange = given("send", "rendezvous", rendezvous).exchange;
    return code_of(exchange.send(to, key_of("send", key), step,
                                 given("send", "tensor", tensor).tensor,
                                 deadline("send", timeout_seconds)));
  });
}

weft_code weft_rendezvous_send_dead(weft_rendezvous* rendezvous, int to, const char* key,
                                    uint64_t step, double timeout_seconds) {
  return guarded([&] {
    auto& exchange = given("send", "rendezvous", rendezvous).exchange;
    return code_of(
        exchange.send_dead(to, key_of("send", key), step, deadline("send", timeout_seconds)));
  });
}

weft_code weft_rendezvous_send_error(weft_rendezvous* rendezvous, int to, const char* key,
                                     uint64_t step, weft_code code, const char* text,
                                     double timeout_seconds) {
  return guarded([&] {
    auto& exchange = given("send", "rendezvous", rendezvous).exchange;
    return code_of(exchange.send_error(
        to, key_of("send", key), step, checked_value("send", "code", code, weft::Code::partitioned),
        text_of("send", "text", text), deadline("send", timeout_seconds)));
  });
}

weft_code weft_rendezvous_send_encoded(weft_rendezvous* rendezvous, int to, const char* key,
                                       uint64_t step, int codec, const void* data, size_t bytes,
                                       double timeout_seconds) {
  return guarded([&] {
    auto& exchange = given("send", "rendezvous", rendezvous).exchange;
    if (codec < 1 || codec > 65535)
      weft::throw_error(weft::Code::bad_argument, "send",
                        "codec is " + std::to_string(codec) + ", not one of 1 to 65535");
    if (bytes > 0) (void)given("send", "data", static_cast<const char*>(data));
    return code_of(exchange.send_encoded(to, key_of("send", key), step,
                                         EncodedBytes(codec, data, bytes),
                                         deadline("send", timeout_seconds)));
  });
}

weft_code weft_rendezvous_lent(const weft_rendezvous* rendezvous, int to, const char* key,
                               uint64_t step, int* lent) {
  return guarded([&] {
    auto& out = given("lent", "lent", lent);
    const auto& exchange = in_rank("lent", "rendezvous", rendezvous).exchange;
    out = exchange.lent(to, key_of("lent", key), step) ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_rendezvous_serve(weft_rendezvous* rendezvous, double timeout_seconds) {
  return guarded([&] {
    auto& exchange = given("serve", "rendezvous", rendezvous).exchange;
    return code_of(exchange.serve(deadline("serve", timeout_seconds)));
  });
}

weft_code weft_rendezvous_ready(weft_rendezvous* rendezvous, int from, const char* key,
                                uint64_t step, int* ready) {
  return guarded([&] {
    auto& out = given("ready", "ready", ready);
    auto& exchange = in_rank("ready", "rendezvous", rendezvous).exchange;
    out = exchange.ready(from, key_of("ready", key), step) ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_rendezvous_recv(weft_rendezvous* rendezvous, int from, const char* key,
                               uint64_t step, double timeout_seconds, weft_received* received) {
  return guarded([&] {
    auto& exchange = given("recv", "rendezvous", rendezvous).exchange;
    check_struct_size("recv", "received", given("recv", "received", received).struct_size);
    // First, so that a failed allocation loses no tensor.
    auto handle = std::make_unique<weft_tensor>();
    const auto result =
        exchange.recv(from, key_of("recv", key), step, deadline("recv", timeout_seconds));
    if (!result.ok()) return remember(result.status());
    write_sized("recv", "received", received, received_of(*result, std::move(handle)));
    return WEFT_CODE_OK;
  });
}

weft_code weft_rendezvous_recv_many(weft_rendezvous* rendezvous, int from, const char* const* keys,
                                    const uint64_t* steps, size_t count, double timeout_seconds,
                                    weft_received* received) {
  return guarded([&] {
    auto& exchange = given("recv", "rendezvous", rendezvous).exchange;
    const auto names = given("recv", "keys", keys, count);
    const auto numbers = given("recv", "steps", steps, count);
    if (count == 0) return WEFT_CODE_OK;
    const std::size_t size = given("recv", "received", received).struct_size;
    check_struct_size("recv", "received", size);
    std::vector<weft::KeyStep> wanted(count);
    std::vector<std::unique_ptr<weft_tensor>> handles(count);
    for (std::size_t i = 0; i < count; ++i) {
      wanted[i] = {key_of("recv", names[i]), numbers[i]};
      handles[i] = std::make_unique<weft_tensor>();
    }
    const auto results = exchange.recv(from, std::span<const weft::KeyStep>(wanted),
                                       deadline("recv", timeout_seconds));
    weft_code first = WEFT_CODE_OK;
    for (std::size_t i = 0; i < count; ++i) {
      weft_received known{};
      if (results[i].ok())
        known = received_of(*results[i], std::move(handles[i]));
      else
        known.code = static_cast<weft_code>(results[i].code());
      auto* const to =
          reinterpret_cast<weft_received*>(reinterpret_cast<std::byte*>(received) + i * size);
      to->struct_size = size;
      write_sized("recv", "received", to, known);
      if (first == WEFT_CODE_OK && !results[i].ok()) first = remember(results[i].status());
    }
    return first;
  });
}

weft_code weft_rendezvous_cancel(weft_rendezvous* rendezvous, int from, const char* key,
                                 uint64_t step) {
  return guarded([&] {
    auto& exchange = given("cancel", "rendezvous", rendezvous).exchange;
    return code_of(exchange.cancel(from, key_of("cancel", key), step));
  });
}
