// A connection between a subscriber and who publishes.
#pragma once

namespace weft::subscribe {

/// A host that is gone, without a word, is found out within half a minute where nothing is being
/// sent to it.
void watch_for_loss(int socket) noexcept;

}  // namespace weft::subscribe
