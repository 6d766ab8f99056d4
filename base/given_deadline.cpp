#include "base/given_deadline.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "base/fail.hpp"

namespace weft {

Status hinted_failure(const Deadline& deadline, Status failure) noexcept {
  constexpr std::string_view kSetting = ": WEFT_TIMEOUT";  // behind "a longer deadline"
  if (failure.code() != Code::timeout || deadline.is_default()) return failure;
  const std::size_t at = failure.detail().hint.find(kSetting);
  if (at == std::string::npos) return failure;
  return altered(std::move(failure),
                 [&](ErrorDetail& detail) { detail.hint.erase(at, kSetting.size()); });
}

}  // namespace weft
