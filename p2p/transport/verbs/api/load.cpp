#include "p2p/transport/verbs/api/load.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "p2p/transport/verbs/api/symbol.hpp"
#include "p2p/transport/verbs/api/verbs.hpp"

namespace weft::p2p::verbs {
namespace {

constexpr const char* kInstall = "install libibverbs1 and ibverbs-providers";

/// The functions that the header doesn't define itself: weft's name, the library's, its version.
/// Those the header defines (ibv_poll_cq, ibv_post_send and their like) go through the context's
/// own table.
#define WEFT_VERBS_CALLS(CALL)                                        \
  CALL(get_device_list, ibv_get_device_list, "IBVERBS_1.1")           \
  CALL(free_device_list, ibv_free_device_list, "IBVERBS_1.1")         \
  CALL(get_device_name, ibv_get_device_name, "IBVERBS_1.1")           \
  CALL(open_device, ibv_open_device, "IBVERBS_1.1")                   \
  CALL(close_device, ibv_close_device, "IBVERBS_1.1")                 \
  CALL(query_device, ibv_query_device, "IBVERBS_1.1")                 \
  CALL(query_port, ibv_query_port, "IBVERBS_1.1")                     \
  CALL(query_gid, _ibv_query_gid_ex, "IBVERBS_1.11")                  \
  CALL(get_async_event, ibv_get_async_event, "IBVERBS_1.1")           \
  CALL(ack_async_event, ibv_ack_async_event, "IBVERBS_1.1")           \
  CALL(alloc_pd, ibv_alloc_pd, "IBVERBS_1.1")                         \
  CALL(dealloc_pd, ibv_dealloc_pd, "IBVERBS_1.1")                     \
  CALL(reg_mr, ibv_reg_mr, "IBVERBS_1.1")                             \
  CALL(reg_mr_optional, ibv_reg_mr_iova2, "IBVERBS_1.8")              \
  CALL(dereg_mr, ibv_dereg_mr, "IBVERBS_1.1")                         \
  CALL(create_comp_channel, ibv_create_comp_channel, "IBVERBS_1.0")   \
  CALL(destroy_comp_channel, ibv_destroy_comp_channel, "IBVERBS_1.0") \
  CALL(create_cq, ibv_create_cq, "IBVERBS_1.1")                       \
  CALL(destroy_cq, ibv_destroy_cq, "IBVERBS_1.1")                     \
  CALL(get_cq_event, ibv_get_cq_event, "IBVERBS_1.1")                 \
  CALL(ack_cq_events, ibv_ack_cq_events, "IBVERBS_1.1")               \
  CALL(create_qp, ibv_create_qp, "IBVERBS_1.1")                       \
  CALL(destroy_qp, ibv_destroy_qp, "IBVERBS_1.1")                     \
  CALL(modify_qp, ibv_modify_qp, "IBVERBS_1.1")                       \
  CALL(status_text, ibv_wc_status_str, "IBVERBS_1.1")                 \
  CALL(event_text, ibv_event_type_str, "IBVERBS_1.1")                 \
  CALL(fork_init, ibv_fork_init, "IBVERBS_1.1")

/// Null in libraries that don't have them yet.
#define WEFT_OPTIONAL_VERBS_CALLS(CALL)                              \
  CALL(reg_dmabuf_mr, ibv_reg_dmabuf_mr, "IBVERBS_1.12")             \
  CALL(is_fork_initialized, ibv_is_fork_initialized, "IBVERBS_1.13") \
  CALL(query_data_in_order, ibv_query_qp_data_in_order, "IBVERBS_1.14")

struct Symbols {
  WEFT_VERBS_CALLS(WEFT_SYMBOL_POINTER)
  WEFT_OPTIONAL_VERBS_CALLS(WEFT_SYMBOL_POINTER)

  /// The first that is missing, or empty.
  std::string look_up(void* library) {
    std::string missing;
    WEFT_VERBS_CALLS(WEFT_FIND_SYMBOL)
    const std::string needed = missing;
    WEFT_OPTIONAL_VERBS_CALLS(WEFT_FIND_SYMBOL)
    return needed;
  }
};

// Some calls return -1 and set errno, some a positive errno, and some drivers a negative one.
int unified(int result) noexcept {
  if (result >= 0) return result;
  if (result == -1) return errno != 0 ? errno : EIO;
  return -result;
}

// The object that was made, or null and a meaningful errno.
template <typename Make>
auto made(Make make) noexcept {
  errno = 0;
  auto* object = make();
  if (object == nullptr && errno == 0) errno = EIO;
  return object;
}

class LoadedVerbs final : public Verbs {
 public:
  explicit LoadedVerbs(const Symbols& symbols) noexcept
      : call_(symbols), fork_safe_(make_fork_safe()) {}

  ibv_device** device_list(int* count) noexcept override {
    return made([&] { return call_.get_device_list(count); });
  }
  void free_device_list(ibv_device** list) noexcept override { call_.free_device_list(list); }
  const char* device_name(ibv_device* device) noexcept override {
    return call_.get_device_name(device);
  }
  ibv_context* open_device(ibv_device* device) noexcept override {
    return made([&] { return call_.open_device(device); });
  }
  int close_device(ibv_context* context) noexcept override {
    return unified(call_.close_device(context));
  }
  int query_device(ibv_context* context, ibv_device_attr* attributes) noexcept override {
    return unified(call_.query_device(context, attributes));
  }
  int query_port(ibv_context* context, std::uint8_t port,
                 ibv_port_attr* attributes) noexcept override {
    // As the header's macro has it: the function itself knows only the attributes of the first ABI.
    std::memset(attributes, 0, sizeof *attributes);
    verbs_context* whole = verbs_get_ctx(context);
    if (whole != nullptr && whole->sz >= sizeof *whole - offsetof(verbs_context, query_port) &&
        whole->query_port != nullptr)
      return unified(whole->query_port(context, port, attributes, sizeof *attributes));
    return unified(
        call_.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes)));
  }
  int query_gid(ibv_context* context, std::uint8_t port, std::uint32_t index,
                ibv_gid_entry* entry) noexcept override {
    return unified(call_.query_gid(context, port, index, entry, 0, sizeof *entry));
  }
  int get_async_event(ibv_context* context, ibv_async_event* event) noexcept override {
    return unified(call_.get_async_event(context, event));
  }
  void ack_async_event(ibv_async_event* event) noexcept override { call_.ack_async_event(event); }

  ibv_pd* alloc_pd(ibv_context* context) noexcept override {
    return made([&] { return call_.alloc_pd(context); });
  }
  int dealloc_pd(ibv_pd* pd) noexcept override { return unified(call_.dealloc_pd(pd)); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) noexcept override {
    // The older call refuses the flags that a driver may ignore.
    if ((static_cast<unsigned>(access) & IBV_ACCESS_OPTIONAL_RANGE) == 0)
      return made([&] { return call_.reg_mr(pd, address, bytes, access); });
    return made([&] {
      return call_.reg_mr_optional(pd, address, bytes, reinterpret_cast<std::uintptr_t>(address),
                                   static_cast<unsigned>(access));
    });
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const DmaBuf& memory, int access) noexcept override {
    if (call_.reg_dmabuf_mr == nullptr) {
      errno = EOPNOTSUPP;
      return nullptr;
    }
    return made([&] {
      return call_.reg_dmabuf_mr(pd, memory.offset, memory.bytes, memory.address, memory.fd,
                                 access);
    });
  }
  int dereg_mr(ibv_mr* mr) noexcept override { return unified(call_.dereg_mr(mr)); }

  ibv_comp_channel* create_comp_channel(ibv_context* context) noexcept override {
    return made([&] { return call_.create_comp_channel(context); });
  }
  int destroy_comp_channel(ibv_comp_channel* channel) noexcept override {
    return unified(call_.destroy_comp_channel(channel));
  }
  ibv_cq* create_cq(ibv_context* context, int depth, ibv_comp_channel* channel) noexcept override {
    return made([&] { return call_.create_cq(context, depth, nullptr, channel, 0); });
  }
  int destroy_cq(ibv_cq* cq) noexcept override { return unified(call_.destroy_cq(cq)); }
  int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) noexcept override {
    return ibv_poll_cq(cq, count, completions);
  }
  int req_notify_cq(ibv_cq* cq) noexcept override { return unified(ibv_req_notify_cq(cq, 0)); }
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) noexcept override {
    void* unused = nullptr;
    return unified(call_.get_cq_event(channel, cq, &unused));
  }
  void ack_cq_events(ibv_cq* cq, unsigned count) noexcept override {
    call_.ack_cq_events(cq, count);
  }

  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) noexcept override {
    return made([&] { return call_.create_qp(pd, attributes); });
  }
  int destroy_qp(ibv_qp* qp) noexcept override { return unified(call_.destroy_qp(qp)); }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) noexcept override {
    return unified(call_.modify_qp(qp, attributes, mask));
  }
  bool data_in_order(ibv_qp* qp, ibv_wr_opcode opcode) noexcept override {
    return call_.query_data_in_order != nullptr && call_.query_data_in_order(qp, opcode, 0) == 1;
  }
  int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) noexcept override {
    return unified(ibv_post_send(qp, requests, bad));
  }
  int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) noexcept override {
    return unified(ibv_post_recv(qp, requests, bad));
  }

  bool fork_safe() noexcept override { return fork_safe_; }
  const char* status_text(ibv_wc_status status) noexcept override {
    return call_.status_text(status);
  }
  const char* event_text(ibv_event_type type) noexcept override { return call_.event_text(type); }
  std::shared_ptr<ConnectionManager> connection_manager(std::string& why) override {
    return load_connection_manager(why);
  }

 private:
  // A kernel from 5.12 on copies pinned pages for the child, and the library then has nothing to
  // do. Before that it keeps registered pages out of children, if told so before anything is
  // registered.
  bool make_fork_safe() noexcept {
    if (call_.is_fork_initialized != nullptr && call_.is_fork_initialized() != IBV_FORK_DISABLED)
      return true;
    return call_.fork_init() == 0;
  }

  const Symbols call_;
  const bool fork_safe_;
};

}  // namespace

std::shared_ptr<Verbs> load_verbs_from(const char* file, std::string& why) {
  // Never closed: the library loads its drivers by itself, and they don't expect to be unloaded.
  Symbols symbols;
  if (!load_symbols(symbols, file, kInstall, why)) return nullptr;
  return std::make_shared<LoadedVerbs>(symbols);
}

std::shared_ptr<Verbs> load_verbs(std::string& why) {
  struct Loaded {
    std::string why;
    std::shared_ptr<Verbs> verbs = load_verbs_from("libibverbs.so.1", why);
  };
  static const Loaded loaded;
  why = loaded.why;
  return loaded.verbs;
}

}  // namespace weft::p2p::verbs
