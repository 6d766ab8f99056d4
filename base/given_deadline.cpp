#include "base/given_deadline.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "base/fail.hpp"

namespace weft {

Status hinted_for(const Deadline& deadline, Status status) noexcept {
  constexpr std::string_view kSetting = ": WEFT_TIMEOUT";  // behind "a longer deadline"
  if (status.code() != Code::timeout || deadline.is_default()) return status;
  const std::size_t at = status.detail().hint.find(kSetting);
  if (at == std::string::npos) return status;
  return altered(std::move(status),
                 [&](ErrorDetail& detail) { detail.hint.erase(at, kSetting.size()); });
}

}  // namespace weft
