// The error of a failed completion names its peer, device and queue pair, and says what to try.
#include "p2p/transport/verbs/device/failures.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/verbs/device_rig.hpp"

namespace weft::p2p::verbs {
namespace {

class AFailedCompletion : public testing::TestWithParam<int> {
 protected:
  ErrorDetail meaning() {
    ibv_wc completion{};
    completion.status = static_cast<ibv_wc_status>(GetParam());
    completion.vendor_err = 0x8a;
    return failure_of(completion, rig_.device(), 7, 3).detail();
  }

  fake::FakeNetwork network_;
  DeviceRig rig_{network_.device(0)};
};

TEST_P(AFailedCompletion, NamesPathDeviceAndReason) {
  const ErrorDetail detail = meaning();
  EXPECT_EQ(detail.peer, 7);
  for (const std::string& part :
       {std::string("fake0:1"), std::string("queue pair 3 to rank 7"), std::string("0x8a"),
        std::string(rig_.device().verbs().status_text(static_cast<ibv_wc_status>(GetParam())))})
    EXPECT_NE(detail.message.find(part), std::string::npos) << part << " in " << detail.message;
  EXPECT_NE(detail.hint, "");
}

TEST_P(AFailedCompletion, IsAPathsOrADefect) {
  const std::set<int> of_the_path = {IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR,
                                     IBV_WC_REM_ABORT_ERR, IBV_WC_FATAL_ERR};
  const ErrorDetail detail = meaning();
  const bool defect = detail.hint.find("defect of weft") != std::string::npos;
  if (of_the_path.contains(GetParam())) {
    EXPECT_EQ(detail.code, Code::path_failed);
    EXPECT_FALSE(defect) << detail.hint;
  } else {
    EXPECT_EQ(detail.code, Code::system);
    EXPECT_TRUE(defect) << detail.hint;
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryStatus, AFailedCompletion,
                         testing::Range(static_cast<int>(IBV_WC_LOC_LEN_ERR),
                                        static_cast<int>(IBV_WC_GENERAL_ERR) + 1));

}  // namespace
}  // namespace weft::p2p::verbs
