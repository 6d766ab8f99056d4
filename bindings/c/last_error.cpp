// The error of a thread: its last failing call, as a line and as a struct.
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "bindings/c/call.hpp"
#include "bindings/c/sized.hpp"

namespace weft::c {
namespace {

/// A thread's last failing call. `shown` points into `text`, or at a constant if there was no
/// memory to hold the text.
struct LastError {
  weft_code code = WEFT_CODE_OK;
  std::shared_ptr<const ErrorDetail> detail;
  std::string text;
  const char* shown = "";
};
thread_local LastError last_error;

weft_code keep(weft_code code, std::shared_ptr<const ErrorDetail> detail) noexcept {
  last_error.code = code;
  last_error.detail = std::move(detail);
  try {
    last_error.text = last_error.detail->text();
    last_error.shown = last_error.text.c_str();
  } catch (...) {
    last_error.shown = "no memory for the error's text";
  }
  return code;
}

}  // namespace

weft_code remember(const Status& status) noexcept {
  return keep(static_cast<weft_code>(status.code()), status.shared_detail());
}

weft_code remember(weft_code code, const Status& status) noexcept {
  return keep(code, status.shared_detail());
}

weft_code remember(Code code, const char* operation, const char* message) noexcept {
  return remember(refuse(code, [&] { return error_detail(code, operation, message); }));
}

weft_code remember_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return remember(error.status());
  } catch (const std::bad_alloc&) {
    return remember(Code::exhausted, "", "no memory left on this process' heap");
  } catch (const std::exception& error) {
    return remember(Code::system, "", error.what());
  } catch (...) {
    return remember(Code::system, "", "an exception of unknown type");
  }
}

}  // namespace weft::c

weft_code weft_error_code(void) { return weft::c::last_error.code; }

const char* weft_error_text(void) { return weft::c::last_error.shown; }

weft_code weft_last_error(weft_error* error) {
  using weft::c::last_error;
  return weft::c::guarded([&] {
    weft_error known{};
    known.code = last_error.code;
    known.rank = known.peer = -1;
    known.operation = known.message = known.hint = known.host = known.slot = "";
    if (const weft::ErrorDetail* const detail = last_error.detail.get(); detail != nullptr) {
      known.rank = detail->rank;
      known.peer = detail->peer;
      known.operation = detail->operation.c_str();
      known.message = detail->message.c_str();
      known.hint = detail->hint.c_str();
      known.host = detail->host.c_str();
      known.slot = detail->slot.c_str();
      known.sequence_expected = detail->sequence_expected;
      known.sequence_seen = detail->sequence_seen;
    }
    weft::c::write_sized("last_error", "error", error, known);
    return WEFT_CODE_OK;
  });
}
