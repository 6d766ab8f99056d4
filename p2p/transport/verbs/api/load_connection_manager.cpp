#include <arpa/inet.h>

#include <cerrno>

#include "p2p/transport/verbs/api/connection_manager.hpp"
#include "p2p/transport/verbs/api/load.hpp"
#include "p2p/transport/verbs/api/symbol.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr const char* kInstall = "install librdmacm1";

/// weft's name, the library's, its version.
#define WEFT_CONNECTION_MANAGER_CALLS(CALL)                             \
  CALL(create_event_channel, rdma_create_event_channel, "RDMACM_1.0")   \
  CALL(destroy_event_channel, rdma_destroy_event_channel, "RDMACM_1.0") \
  CALL(get_event, rdma_get_cm_event, "RDMACM_1.0")                      \
  CALL(ack_event, rdma_ack_cm_event, "RDMACM_1.0")                      \
  CALL(create_id, rdma_create_id, "RDMACM_1.0")                         \
  CALL(destroy_id, rdma_destroy_id, "RDMACM_1.0")                       \
  CALL(bind, rdma_bind_addr, "RDMACM_1.0")                              \
  CALL(listen, rdma_listen, "RDMACM_1.0")                               \
  CALL(port, rdma_get_src_port, "RDMACM_1.0")                           \
  CALL(resolve_address, rdma_resolve_addr, "RDMACM_1.0")                \
  CALL(resolve_route, rdma_resolve_route, "RDMACM_1.0")                 \
  CALL(queue_pair_attributes, rdma_init_qp_attr, "RDMACM_1.2")          \
  CALL(connect, rdma_connect, "RDMACM_1.0")                             \
  CALL(accept, rdma_accept, "RDMACM_1.0")                               \
  CALL(reject, rdma_reject, "RDMACM_1.0")                               \
  CALL(establish, rdma_establish, "RDMACM_1.2")                         \
  CALL(event_text, rdma_event_str, "RDMACM_1.0")

struct Symbols {
  WEFT_CONNECTION_MANAGER_CALLS(WEFT_SYMBOL_POINTER)

  /// The first that is missing, or empty.
  std::string look_up(void* library) {
    std::string missing;
    WEFT_CONNECTION_MANAGER_CALLS(WEFT_FIND_SYMBOL)
    return missing;
  }
};

// -1 and errno, or (from the wrappers of newer libraries) a positive errno.
int unified(int result) noexcept {
  if (result >= 0) return result;
  return errno != 0 ? errno : EIO;
}

class LoadedConnectionManager final : public ConnectionManager {
 public:
  explicit LoadedConnectionManager(const Symbols& symbols) noexcept : call_(symbols) {}

  rdma_event_channel* create_event_channel() noexcept override {
    errno = 0;
    rdma_event_channel* channel = call_.create_event_channel();
    if (channel == nullptr && errno == 0) errno = ENODEV;
    return channel;
  }
  int destroy_event_channel(rdma_event_channel* channel) noexcept override {
    call_.destroy_event_channel(channel);
    return 0;
  }
  int get_event(rdma_event_channel* channel, rdma_cm_event** event) noexcept override {
    return unified(call_.get_event(channel, event));
  }
  void ack_event(rdma_cm_event* event) noexcept override { call_.ack_event(event); }

  rdma_cm_id* create_id(rdma_event_channel* channel, void* context) noexcept override {
    rdma_cm_id* id = nullptr;
    const int error = unified(call_.create_id(channel, &id, context, RDMA_PS_TCP));
    if (error == 0) return id;
    errno = error;
    return nullptr;
  }
  int destroy_id(rdma_cm_id* id) noexcept override { return unified(call_.destroy_id(id)); }
  int bind(rdma_cm_id* id, const sockaddr* address) noexcept override {
    return unified(call_.bind(id, const_cast<sockaddr*>(address)));
  }
  int listen(rdma_cm_id* id, int backlog) noexcept override {
    return unified(call_.listen(id, backlog));
  }
  std::uint16_t port(rdma_cm_id* id) noexcept override { return ntohs(call_.port(id)); }

  int resolve_address(rdma_cm_id* id, const sockaddr* from, const sockaddr* to,
                      int timeout_ms) noexcept override {
    return unified(call_.resolve_address(id, const_cast<sockaddr*>(from), const_cast<sockaddr*>(to),
                                         timeout_ms));
  }
  int resolve_route(rdma_cm_id* id, int timeout_ms) noexcept override {
    return unified(call_.resolve_route(id, timeout_ms));
  }
  int queue_pair_attributes(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) noexcept override {
    return unified(call_.queue_pair_attributes(id, attributes, mask));
  }
  int connect(rdma_cm_id* id, rdma_conn_param* parameters) noexcept override {
    return unified(call_.connect(id, parameters));
  }
  int accept(rdma_cm_id* id, rdma_conn_param* parameters) noexcept override {
    return unified(call_.accept(id, parameters));
  }
  int reject(rdma_cm_id* id) noexcept override { return unified(call_.reject(id, nullptr, 0)); }
  int establish(rdma_cm_id* id) noexcept override { return unified(call_.establish(id)); }

  const char* event_text(rdma_cm_event_type type) noexcept override {
    return call_.event_text(type);
  }

 private:
  const Symbols call_;
};

}  // namespace

std::shared_ptr<ConnectionManager> load_connection_manager_from(const char* file,
                                                                std::string& why) {
  // Never closed: it keeps the devices open for itself.
  Symbols symbols;
  if (!load_symbols(symbols, file, kInstall, why)) return nullptr;
  return std::make_shared<LoadedConnectionManager>(symbols);
}

std::shared_ptr<ConnectionManager> load_connection_manager(std::string& why) {
  struct Loaded {
    std::string why;
    std::shared_ptr<ConnectionManager> manager =
        load_connection_manager_from("librdmacm.so.1", why);
  };
  static const Loaded loaded;
  why = loaded.why;
  return loaded.manager;
}

}  // namespace weft::p2p::verbs
