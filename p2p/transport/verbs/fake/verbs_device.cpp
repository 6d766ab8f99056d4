// Devices, their ports and their events.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "p2p/transport/verbs/fake/fake_connection_manager.hpp"
#include "p2p/transport/verbs/fake/fake_verbs.hpp"

namespace weft::p2p::verbs::fake {
namespace {

FakeContext& fake(ibv_context* context) { return static_cast<FakeContext&>(*context); }
constexpr int kGidTable = 16;

}  // namespace

int FakeVerbs::busy(const char* what) {
  engine_->complain(what);
  return EBUSY;
}

ibv_device** FakeVerbs::device_list(int* count) noexcept {
  const auto lock = engine_->lock();
  for (FakeNic* nic : nics_)
    if (const int error = engine_->refused(*nic, VerbsCall::device_list); error != 0) {
      errno = error;
      return nullptr;
    }
  // Ended by a null, and given back as what it is.
  auto list = std::make_unique<ibv_device*[]>(nics_.size() + 1);
  std::transform(nics_.begin(), nics_.end(), list.get(), [](FakeNic* nic) { return &nic->device; });
  if (count != nullptr) *count = static_cast<int>(nics_.size());
  return list.release();
}

void FakeVerbs::free_device_list(ibv_device** list) noexcept { delete[] list; }

const char* FakeVerbs::device_name(ibv_device* device) noexcept { return device->name; }

ibv_context* FakeVerbs::open_device(ibv_device* device) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *static_cast<FakeDevice*>(device)->nic;
  errno = engine_->refused(nic, VerbsCall::open_device);
  if (errno != 0) return nullptr;
  auto context = std::make_unique<FakeContext>();
  if (context->events.fd() < 0) return nullptr;
  context->device = device;
  context->nic = &nic;
  context->cmd_fd = -1;
  context->async_fd = context->events.fd();
  context->num_comp_vectors = 1;
  return nic.contexts.emplace_back(std::move(context)).get();
}

int FakeVerbs::close_device(ibv_context* context) noexcept {
  const auto lock = engine_->lock();
  if (fake(context).users > 0) return busy("a device was closed while objects of it existed");
  auto& contexts = fake(context).nic->contexts;
  contexts.erase(std::find_if(contexts.begin(), contexts.end(),
                              [&](const auto& one) { return one.get() == context; }));
  return 0;
}

int FakeVerbs::query_device(ibv_context* context, ibv_device_attr* attributes) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(context).nic;
  if (const int error = engine_->refused(nic, VerbsCall::query_device); error != 0) return error;
  *attributes = {};
  std::strcpy(attributes->fw_ver, "fake");
  attributes->node_guid = nic.seed;
  attributes->sys_image_guid = nic.seed;
  attributes->max_mr_size = nic.spec.max_region_bytes;
  attributes->max_qp = nic.spec.max_queue_pairs;
  attributes->max_qp_wr = nic.spec.max_depth;
  attributes->max_sge = nic.spec.max_sges;
  attributes->max_sge_rd = nic.spec.max_sges;
  attributes->max_cq = nic.spec.max_completion_queues;
  attributes->max_cqe = nic.spec.max_completions;
  attributes->max_mr = nic.spec.max_regions;
  attributes->max_pd = 1024;
  attributes->max_qp_rd_atom = nic.spec.max_reads;
  attributes->max_qp_init_rd_atom = nic.spec.max_reads;
  attributes->max_pkeys = 1;
  attributes->atomic_cap = IBV_ATOMIC_NONE;
  attributes->phys_port_cnt = static_cast<std::uint8_t>(nic.ports.size());
  return 0;
}

int FakeVerbs::query_port(ibv_context* context, std::uint8_t port,
                          ibv_port_attr* attributes) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(context).nic;
  if (const int error = engine_->refused(nic, VerbsCall::query_port); error != 0) return error;
  if (port < 1 || port > nic.ports.size()) return EINVAL;
  const FakePort& which = nic.ports[port - 1U];
  *attributes = {};
  attributes->state = which.spec.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->phys_state = which.spec.up ? 5 : 3;  // link up, disabled
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = which.spec.mtu;
  attributes->gid_tbl_len = kGidTable;
  attributes->max_msg_sz = nic.spec.max_message;
  attributes->pkey_tbl_len = 1;
  attributes->lid = which.lid;
  attributes->active_width = which.spec.width;
  attributes->active_speed = which.spec.speed;
  attributes->link_layer =
      which.spec.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

int FakeVerbs::query_gid(ibv_context* context, std::uint8_t port, std::uint32_t index,
                         ibv_gid_entry* entry) noexcept {
  const auto lock = engine_->lock();
  FakeNic& nic = *fake(context).nic;
  if (const int error = engine_->refused(nic, VerbsCall::query_gid); error != 0) return error;
  if (port < 1 || port > nic.ports.size() || index >= kGidTable) return EINVAL;
  const std::vector<GidSpec>& gids = nic.ports[port - 1U].spec.gids;
  if (index >= gids.size()) return ENODATA;
  *entry = {};
  std::copy(gids[index].raw.begin(), gids[index].raw.end(), entry->gid.raw);
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = static_cast<std::uint32_t>(gids[index].type);
  return 0;
}

int FakeVerbs::get_async_event(ibv_context* context, ibv_async_event* event) noexcept {
  return fake(context).events.pop(*event, [](const ibv_async_event& taken) {
    switch (taken.event_type) {
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_QP_REQ_ERR:
        ++static_cast<FakeQp*>(taken.element.qp)->unacknowledged;
        break;
      case IBV_EVENT_CQ_ERR:
        ++static_cast<FakeCq*>(taken.element.cq)->unacknowledged;
        break;
      default:
        break;
    }
  });
}

void FakeVerbs::ack_async_event(ibv_async_event* event) noexcept {
  switch (event->event_type) {
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_REQ_ERR:
      --static_cast<FakeQp*>(event->element.qp)->unacknowledged;
      break;
    case IBV_EVENT_CQ_ERR:
      --static_cast<FakeCq*>(event->element.cq)->unacknowledged;
      break;
    default:
      break;
  }
}

const char* FakeVerbs::status_text(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
      return "Work Request Flushed Error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request error";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retry counter exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "RNR retry counter exceeded";
    default:
      return "another error";
  }
}

std::shared_ptr<ConnectionManager> FakeVerbs::connection_manager(std::string& /*why*/) {
  return std::make_shared<FakeConnectionManager>(engine_, nics_);
}

const char* FakeVerbs::event_text(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return "CQ error";
    case IBV_EVENT_QP_REQ_ERR:
      return "invalid request local work queue error";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "local access violation work queue error";
    case IBV_EVENT_DEVICE_FATAL:
      return "device catastrophic error";
    case IBV_EVENT_PORT_ACTIVE:
      return "port active";
    case IBV_EVENT_PORT_ERR:
      return "port error";
    default:
      return "another event";
  }
}

}  // namespace weft::p2p::verbs::fake
