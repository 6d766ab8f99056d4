#include "base/control_call.hpp"

#include <cerrno>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/fail.hpp"
#include "base/os/system_error.hpp"

namespace weft {
namespace {

[[noreturn]] void throw_as(Code code, const char* operation, std::string message,
                           std::string hint) {
  throw Error(Status(error_detail(code, operation, std::move(message), std::move(hint))));
}

bool wants_more(const std::error_code& code) {
  return code == std::errc::resource_unavailable_try_again ||
         code == std::errc::not_enough_memory || code == std::errc::too_many_files_open ||
         code == std::errc::too_many_files_open_in_system;
}

[[noreturn]] void translate(const char* operation) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw_as(Code::exhausted, operation, "out of memory", "");
  } catch (const std::length_error& error) {
    throw_as(Code::exhausted, operation, error.what(), "ask for less");
  } catch (const std::filesystem::filesystem_error& error) {
    throw_as(Code::system, operation, error.path1().native() + ": " + error.code().message(),
             os::hint_for(error.code().value()));
  } catch (const std::system_error& error) {
    throw_as(wants_more(error.code()) ? Code::exhausted : Code::system, operation, error.what(),
             os::hint_for(error.code().value()));
  } catch (const std::exception& error) {
    throw_as(Code::system, operation, error.what(), "");
  } catch (...) {
    throw_as(Code::system, operation, "something was thrown that is no std::exception", "");
  }
}

}  // namespace

void rethrow_as_error(const char* operation) {
  try {
    translate(operation);
  } catch (const std::bad_alloc&) {
    // Not even memory for the text: a Status of `exhausted` without text needs none.
    ErrorDetail detail;
    detail.code = Code::exhausted;
    throw Error(Status(std::move(detail)));
  }
}

}  // namespace weft
