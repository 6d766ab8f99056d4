// Interfaces that a user names.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/ranks.hpp"

namespace weft::tests {
namespace {

TEST(Interfaces, ThatAreNotThereEndTheJoinWhateverTheFabric) {
  for (const char* const fabric : {"auto", "tcp"}) {
    const auto config =
        settings().with(Setting::fabric, fabric).with(Setting::iface, "none-of-these");
    const ErrorDetail error = thrown_by([&] { run_on(2, config, [](World&) {}); });
    EXPECT_EQ(error.code, Code::bad_config) << fabric;
    EXPECT_NE(error.message.find("WEFT_IFACE=\"none-of-these\""), std::string::npos)
        << error.message;
  }
}

}  // namespace
}  // namespace weft::tests
