#include "p2p/transport/remote_chunks.hpp"
#include "base/fail.hpp"

#include <fmt/format.h>

namespace weft::p2p {

Result<RemoteMemory> RemoteChunks::resolve(const MemoryRef& ref) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = chunks_.find(ref.chunk);
  const bool known = found != chunks_.end();
  if (known && ref.offset <= found->second.bytes && ref.bytes <= found->second.bytes - ref.offset)
    return RemoteMemory{found->second.first.address + ref.offset, found->second.first.key};
  return refuse(known ? Code::system : Code::unreachable, [&] {
    return ErrorDetail{
        .code = known ? Code::system : Code::unreachable,
        .operation = "resolve",
        .message = fmt::format("rank {} named {} bytes at {} of its chunk {:#x}, which {}", peer_,
                               ref.bytes, ref.offset, ref.chunk,
                               known ? "does not hold them" : "is not known here yet"),
        .peer = peer_};
  });
}

}  // namespace weft::p2p
