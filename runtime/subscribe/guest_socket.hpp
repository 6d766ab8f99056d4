// A connection between a guest and who publishes.
#pragma once

namespace weft::guest {

/// A host that is gone, without a word, is found out within half a minute where nothing is being
/// sent to it.
void watch_for_loss(int socket) noexcept;

}  // namespace weft::guest
