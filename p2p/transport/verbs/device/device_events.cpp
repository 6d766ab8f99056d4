// Asynchronous events of a device.
#include <fmt/format.h>

#include <cerrno>

#include "base/os/system_error.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/device/gid_choice.hpp"

namespace weft::p2p::verbs {
namespace {

/// Whom an event is about.
enum class About : std::uint8_t { device, port, queue_pair, completion_queue, other };

struct Meaning {
  About about = About::other;
  LogLevel level = LogLevel::info;
  const char* text = "";
};

Meaning meaning_of(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
      return {About::device, LogLevel::error, "the device failed: every path over it is lost"};
    case IBV_EVENT_PORT_ACTIVE:
      return {About::port, LogLevel::info, "the link is up"};
    case IBV_EVENT_PORT_ERR:
      return {About::port, LogLevel::error,
              "the link is down: transfers wait for it until their retries are used up"};
    case IBV_EVENT_LID_CHANGE:
      return {
          About::port, LogLevel::warn,
          "the subnet manager gave the port another LID: what peers send to the old one is lost"};
    case IBV_EVENT_PKEY_CHANGE:
      return {About::port, LogLevel::warn,
              "partition keys changed: a peer of another partition is not reached any more"};
    case IBV_EVENT_SM_CHANGE:
      return {About::port, LogLevel::info, "the subnet has another manager"};
    case IBV_EVENT_CLIENT_REREGISTER:
      return {About::port, LogLevel::info, "the subnet manager asks for registrations anew"};
    case IBV_EVENT_GID_CHANGE:
      return {About::port, LogLevel::info, "the table of GIDs changed"};
    case IBV_EVENT_CQ_ERR:
      return {About::completion_queue, LogLevel::error,
              "a completion queue overran: its queue pairs fail"};
    case IBV_EVENT_QP_FATAL:
      return {About::queue_pair, LogLevel::error, "failed in the device: its path is lost"};
    case IBV_EVENT_QP_REQ_ERR:
      return {About::queue_pair, LogLevel::error,
              "got a request that it can't serve: its path is lost"};
    case IBV_EVENT_QP_ACCESS_ERR:
      return {About::queue_pair, LogLevel::error,
              "refused an access to memory that is not registered for it: its path is lost"};
    case IBV_EVENT_COMM_EST:
      return {About::queue_pair, LogLevel::debug, "got its first packet"};
    case IBV_EVENT_SQ_DRAINED:
      return {About::queue_pair, LogLevel::debug, "has sent all that it had"};
    case IBV_EVENT_PATH_MIG:
      return {About::queue_pair, LogLevel::warn, "moved to its other path"};
    case IBV_EVENT_PATH_MIG_ERR:
      return {About::queue_pair, LogLevel::error, "could not move to its other path"};
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return {About::queue_pair, LogLevel::debug, "used its last shared receive"};
    default:
      return {};
  }
}

/// Whether work on the queue pair goes on as if nothing had been said.
bool is_harmless(ibv_event_type type) noexcept { return meaning_of(type).level < LogLevel::warn; }

}  // namespace

void Device::handle_event(const std::function<void(ibv_qp*)>& on_queue_pair,
                          const std::function<void(bool up)>& on_port) {
  ibv_async_event event{};
  if (const int error = verbs_->get_async_event(context_.get(), &event)) {
    if (error != EAGAIN && error != EINTR)
      log_.error(Subsystem::path, "{}: ibv_get_async_event: {}", name_, os::words(error));
    return;
  }
  const Meaning meaning = meaning_of(event.event_type);
  const auto tell = [&](const std::string& whom) {
    if (log_.enabled(meaning.level, Subsystem::path))
      log_.write(meaning.level, Subsystem::path,
                 fmt::format("{}: {}: {}{}", name_, verbs_->event_text(event.event_type), whom,
                             meaning.text));
  };
  switch (meaning.about) {
    case About::device:
      tell({});
      on_queue_pair(nullptr);
      break;
    case About::port:
      // Other ports of the device say what happens to them here, too.
      if (event.element.port_num != port_) break;
      tell({});
      if (event.event_type == IBV_EVENT_GID_CHANGE) look_for_gid();
      if (on_port && event.event_type == IBV_EVENT_PORT_ERR) on_port(false);
      if (on_port && event.event_type == IBV_EVENT_PORT_ACTIVE) on_port(true);
      break;
    case About::queue_pair:
      tell(fmt::format("queue pair {} ", event.element.qp->qp_num));
      if (!is_harmless(event.event_type)) on_queue_pair(event.element.qp);
      break;
    default:
      tell({});
  }
  verbs_->ack_async_event(&event);
}

void Device::look_for_gid() {
  ibv_gid_entry entry{};
  const int error = verbs_->query_gid(context_.get(), port_, gid_index_, &entry);
  if (error == 0 && bytes_of(entry.gid) == address_.gid)
    log_.info(Subsystem::path, "{}: GID {} ({}), which is in use, is still there", name_,
              gid_index_, gid_text(address_.gid));
  else
    log_.error(
        Subsystem::path,
        "{}: GID {} ({}), which is in use, is gone: peers are not reached any more; give the "
        "network interface its address back",
        name_, gid_index_, gid_text(address_.gid));
}

}  // namespace weft::p2p::verbs
