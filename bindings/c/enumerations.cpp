// The enumerations of weft.h have the values of weft's own.
#include "bindings/c/call.hpp"

namespace weft::c {

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

}  // namespace weft::c

const char* weft_code_name(weft_code code) {
  if (code == WEFT_CODE_UNDER_WAY) return "under_way";
  if (code < WEFT_CODE_OK || code > WEFT_CODE_PARTITIONED) return "unknown";
  return weft::name(static_cast<weft::Code>(code)).data();
}

const char* weft_dtype_name(weft_dtype dtype) {
  if (dtype < WEFT_DTYPE_F64 || dtype > WEFT_DTYPE_BOOL) return "unknown";
  return weft::name(static_cast<weft::DType>(dtype)).data();
}

size_t weft_dtype_bytes(weft_dtype dtype) {
  if (dtype < WEFT_DTYPE_F64 || dtype > WEFT_DTYPE_BOOL) return 0;
  return weft::size_of(static_cast<weft::DType>(dtype));
}
