// A library that comes with a driver: loaded when it is asked for, never linked.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

namespace weft::topology {

/// Stays loaded until the process ends: a driver that was started must not vanish below its
/// threads.
class DriverLibrary {
 public:
  /// `maker`: what people call it ("CUDA driver").
  DriverLibrary(const char* file, const char* maker)
      : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)), maker_(maker) {
    if (handle_ == nullptr) problem_ = fmt::format("no {} ({} is not installed)", maker, file);
  }

  /// Empty: it is there, with every function that was asked for.
  const std::string& problem() const noexcept { return problem_; }

  template <typename Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol));
    if (function == nullptr && problem_.empty())
      problem_ = fmt::format("the {} has no {}: it is too old", maker_, symbol);
  }

 private:
  void* handle_;
  const char* maker_;
  std::string problem_;
};

}  // namespace weft::topology
