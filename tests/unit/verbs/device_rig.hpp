// A device on a fake NIC, with a readable log.
#pragma once

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "p2p/transport/verbs/device/device.hpp"
#include "p2p/transport/verbs/fake/fake_network.hpp"
#include "tests/unit/base/temp_folder.hpp"
#include "tests/unit/verbs/recording_verbs.hpp"

namespace weft::p2p::verbs {

class DeviceRig {
 public:
  explicit DeviceRig(std::shared_ptr<Verbs> library, const VerbsOptions& options = {})
      : verbs(std::make_shared<RecordingVerbs>(std::move(library))), options_(options) {}

  /// Opens the device the first time.
  Device& device() {
    if (!device_) device_ = std::make_unique<Device>(verbs, options_, log_);
    return *device_;
  }

  /// The error of opening the device, which must be of `code`, or "(opened)".
  std::string refusal(Code code) {
    try {
      static_cast<void>(device());
    } catch (const Error& error) {
      if (error.code() != code) return "another code: " + std::string(error.what());
      return error.what();
    }
    return "(opened)";
  }

  bool logged(const std::string& text) const {
    std::ostringstream all;
    all << std::ifstream(folder_.path() / "log").rdbuf();
    return all.str().find(text) != std::string::npos;
  }

  const std::shared_ptr<RecordingVerbs> verbs;

 private:
  tests::TempFolder folder_;
  const VerbsOptions options_;
  Log log_{Config()
               .with(Setting::log, "debug:path")
               .with(Setting::log_file, (folder_.path() / "log").string()),
           "a", 0};
  std::unique_ptr<Device> device_;
};

}  // namespace weft::p2p::verbs
