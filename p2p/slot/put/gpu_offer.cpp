#include "p2p/slot/put/gpu_offer.hpp"

#include <cstring>
#include <span>
#include <utility>

#include "p2p/transport/cuda/gpu_page.hpp"
#include "p2p/transport/cuda/gpus.hpp"

namespace weft::p2p {

using cuda::GpuWay;

GpuOffer::GpuOffer(LocalRank& local, const Tensor& memory, std::size_t stride)
    : local_(local), memory_(memory), stride_(stride), offer_(prepare(memory)), way_(offer_) {}

GpuWay GpuOffer::prepare(const Tensor& memory) {
  arena_ = local_.gpus->arena(memory.memory());
  const auto at = arena_->locate(memory.data(), memory.bytes());
  if (!at) return GpuWay::not_exported;
  buffers_ = {at->chunk, at->offset, at->bytes};
  if (!local_.gpus->exported(at->chunk)) return GpuWay::not_exported;
  try {
    page_ = Tensor(make_storage(arena_, kGpuPage), 0, DType::u8, {kGpuPage});
  } catch (const Error&) {
    return GpuWay::no_page;
  }
  const auto page = arena_->locate(page_.data(), page_.bytes());
  page_ref_ = {page->chunk, page->offset, page->bytes};
  return local_.gpus->exported(page->chunk) ? GpuWay::mapped : GpuWay::not_exported;
}

GpuWay GpuOffer::offer_to_nic(Mesh& mesh, Peer& peer) noexcept {
  if (buffers_.bytes == 0) return GpuWay::other_host;
  std::string why;
  if (peer.channel->reaches_gpu(memory_, &why) && mesh.share(peer, buffers_.chunk))
    return GpuWay::nic;
  if (why.empty()) return GpuWay::other_host;
  local_.log->info(Subsystem::slot, "puts of rank {} into a slot on {} are staged: {}", peer.rank,
                   memory_.memory().text(), why);
  verdict_ = std::move(why);
  return GpuWay::nic_refused;
}

void GpuOffer::grant(Mesh& mesh, Peer& peer, bool is_copying, AttachedMessage& granted) {
  granted.on_gpu = 1;
  has_writer_ = true;
  verdict_.clear();
  granted.gpu_way = is_copying                                  ? GpuWay::still_copying
                    : peer.channel->fabric() == FabricKind::shm ? offer_
                                                                : offer_to_nic(mesh, peer);
  if (granted.gpu_way == GpuWay::mapped &&
      !(mesh.share(peer, buffers_.chunk) && mesh.share(peer, page_ref_.chunk)))
    granted.gpu_way = GpuWay::not_exported;
  settle(granted.gpu_way == GpuWay::mapped ? GpuWay::unproven : granted.gpu_way);
  if (granted.gpu_way == GpuWay::nic) {
    granted_ = true;
    granted.buffers = buffers_;
    granted.stride = stride_;
  }
  if (granted.gpu_way != GpuWay::mapped) return;
  granted_ = true;
  granted.gpu_buffers = buffers_;
  granted.gpu_stride = stride_;
  granted.gpu_page = page_ref_;
}

void GpuOffer::settle(GpuWay way) noexcept {
  if (cuda::reason_of(way) != nullptr) way_.store(way, std::memory_order_relaxed);
}

void GpuOffer::begin_check(Peer& peer, const GpuWayMessage& question) noexcept {
  check_ = {.peer = &peer, .remote_id = question.remote_id, .nonce = question.nonce};
  try {
    check_->copy = local_.gpus->stage("attach", std::span<const Tensor>(&page_, 1),
                                      OwnedBlock(local_.staging, kGpuPage));
  } catch (...) {
    check_->copy.reset();
  }
}

bool GpuOffer::serve(Mesh& mesh) noexcept {
  if (!check_) return false;
  bool seen = false;
  if (check_->copy) {
    const auto outcome = check_->copy->poll();
    if (!outcome) return true;
    seen = outcome->ok() && holds_page(check_->copy->take_block().data(), check_->nonce);
  }
  mesh.send(*check_->peer,
            GpuPageSeenMessage{
                .seen = seen ? 1U : 0U, .remote_id = check_->remote_id, .nonce = check_->nonce});
  check_.reset();
  return false;
}

bool GpuOffer::is_in_quarantine(int writer) const {
  return has_writer_ && way() == GpuWay::mapped &&
         local_.gpus->quarantine.holds(writer, buffers_.chunk);
}

void GpuOffer::count_quarantine(bool enters) noexcept {
  if (!granted_) return;
  const auto bytes = static_cast<std::int64_t>(buffers_.bytes);
  arena_->add_quarantine(enters ? bytes : -bytes);
}

}  // namespace weft::p2p
