#include "bindings/c/call.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <span>

namespace weft::c {
namespace {

static_assert(WEFT_CODE_OK == static_cast<int>(Code::ok));
static_assert(WEFT_CODE_TIMEOUT == static_cast<int>(Code::timeout));
static_assert(WEFT_CODE_PEER_FAILED == static_cast<int>(Code::peer_failed));
static_assert(WEFT_CODE_PEER_LEFT == static_cast<int>(Code::peer_left));
static_assert(WEFT_CODE_CLOSED == static_cast<int>(Code::closed));
static_assert(WEFT_CODE_MISMATCH == static_cast<int>(Code::mismatch));
static_assert(WEFT_CODE_DUPLICATE_NAME == static_cast<int>(Code::duplicate_name));
static_assert(WEFT_CODE_WRITER_TAKEN == static_cast<int>(Code::writer_taken));
static_assert(WEFT_CODE_BAD_ARGUMENT == static_cast<int>(Code::bad_argument));
static_assert(WEFT_CODE_BAD_CONFIG == static_cast<int>(Code::bad_config));
static_assert(WEFT_CODE_EXHAUSTED == static_cast<int>(Code::exhausted));
static_assert(WEFT_CODE_UNREACHABLE == static_cast<int>(Code::unreachable));
static_assert(WEFT_CODE_FLOW_OVERRUN == static_cast<int>(Code::flow_overrun));
static_assert(WEFT_CODE_CANCELLED == static_cast<int>(Code::cancelled));
static_assert(WEFT_CODE_BOOTSTRAP == static_cast<int>(Code::bootstrap));
static_assert(WEFT_CODE_SYSTEM == static_cast<int>(Code::system));
static_assert(WEFT_CODE_FORKED == static_cast<int>(Code::forked));
static_assert(WEFT_CODE_PATH_FAILED == static_cast<int>(Code::path_failed));
static_assert(WEFT_CODE_FENCED == static_cast<int>(Code::fenced));
static_assert(WEFT_CODE_PARTITIONED == static_cast<int>(Code::partitioned));
static_assert(WEFT_CODE_UNDER_WAY > static_cast<int>(Code::partitioned), "it stands for no Code");

static_assert(WEFT_DTYPE_F64 == static_cast<int>(DType::f64));
static_assert(WEFT_DTYPE_F32 == static_cast<int>(DType::f32));
static_assert(WEFT_DTYPE_F16 == static_cast<int>(DType::f16));
static_assert(WEFT_DTYPE_BF16 == static_cast<int>(DType::bf16));
static_assert(WEFT_DTYPE_I64 == static_cast<int>(DType::i64));
static_assert(WEFT_DTYPE_I32 == static_cast<int>(DType::i32));
static_assert(WEFT_DTYPE_I8 == static_cast<int>(DType::i8));
static_assert(WEFT_DTYPE_U8 == static_cast<int>(DType::u8));
static_assert(WEFT_DTYPE_BOOL == static_cast<int>(DType::boolean));

/// A thread's last failing call. `shown` points into `text`, or at a constant if there was no
/// memory to hold the text.
struct LastError {
  weft_code code = WEFT_CODE_OK;
  std::string text;
  const char* shown = "";
};
thread_local LastError last_error;

}  // namespace

weft_code remember(weft_code code, std::string_view text) noexcept {
  last_error.code = code;
  try {
    last_error.text = text;
    last_error.shown = last_error.text.c_str();
  } catch (...) {
    last_error.shown = "no memory for the error's text";
  }
  return code;
}

weft_code remember(const Status& status) {
  return remember(static_cast<weft_code>(status.code()), status.text());
}

weft_code remember_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return remember(static_cast<weft_code>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return remember(WEFT_CODE_EXHAUSTED, "no memory left on this process' heap");
  } catch (const std::exception& error) {
    return remember(WEFT_CODE_SYSTEM, error.what());
  } catch (...) {
    return remember(WEFT_CODE_SYSTEM, "an exception of unknown type");
  }
}

void check_not_forked(const char* operation, const World& world) {
  const Status status = world.alive({});
  if (status.code() != Code::forked) return;
  ErrorDetail detail = status.detail();
  detail.operation = operation;
  throw Error(std::move(detail));
}

Deadline deadline(const char* operation, double seconds) {
  if (std::isnan(seconds))
    throw_error(Code::bad_argument, operation, "the timeout is not a number");
  if (seconds < 0) return {};
  constexpr double kLongest = 1e8;  // three years; larger values could overflow the clock
  return Deadline::after(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::min(seconds, kLongest))));
}

DType checked_dtype(const char* operation, weft_dtype dtype) {
  const auto value = static_cast<int>(dtype);
  if (value < WEFT_DTYPE_F64 || value > WEFT_DTYPE_BOOL)
    throw_error(Code::bad_argument, operation,
                "dtype is " + std::to_string(value) + ", not one of 0 to 8");
  return static_cast<DType>(value);
}

Shape shape_of(const char* operation, const std::int64_t* dims, std::size_t ndims) {
  if (dims == nullptr && ndims > 0)
    throw_error(Code::bad_argument, operation, "dims is NULL, but ndims is not 0");
  return Shape(std::span(dims, ndims));
}

}  // namespace weft::c

weft_code weft_error_code(void) { return weft::c::last_error.code; }

const char* weft_error_text(void) { return weft::c::last_error.shown; }
