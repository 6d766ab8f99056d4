#include "p2p/transport/verbs/api/load.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "p2p/transport/verbs/api/connection_manager.hpp"
#include "p2p/transport/verbs/api/verbs.hpp"

namespace {

using weft::p2p::verbs::load_connection_manager;
using weft::p2p::verbs::load_connection_manager_from;
using weft::p2p::verbs::load_verbs;
using weft::p2p::verbs::load_verbs_from;
using weft::p2p::verbs::Verbs;

TEST(VerbsLoad, SaysWhatToInstallWhereTheLibraryIsMissing) {
  std::string why;
  EXPECT_EQ(load_verbs_from("libweft-nothing.so.1", why), nullptr);
  EXPECT_NE(why.find("libweft-nothing.so.1"), std::string::npos) << why;
  EXPECT_NE(why.find("install libibverbs1 and ibverbs-providers"), std::string::npos) << why;
}

TEST(VerbsLoad, NamesTheSymbolThatALibraryLacks) {
  std::string why;
  EXPECT_EQ(load_verbs_from("libc.so.6", why), nullptr);
  EXPECT_NE(why.find("ibv_get_device_list@IBVERBS_1.1"), std::string::npos) << why;
}

TEST(ConnectionManagerLoad, SaysWhatToInstallWhereTheLibraryIsMissing) {
  std::string why;
  EXPECT_EQ(load_connection_manager_from("libweft-nothing.so.1", why), nullptr);
  EXPECT_NE(why.find("libweft-nothing.so.1"), std::string::npos) << why;
  EXPECT_NE(why.find("install librdmacm1"), std::string::npos) << why;
}

TEST(ConnectionManagerLoad, NamesTheSymbolThatALibraryLacks) {
  std::string why;
  EXPECT_EQ(load_connection_manager_from("libc.so.6", why), nullptr);
  EXPECT_NE(why.find("rdma_create_event_channel@RDMACM_1.0"), std::string::npos) << why;
}

TEST(ConnectionManagerLoad, TakesWhatIsInstalled) {
  std::string why;
  const auto manager = load_connection_manager(why);
  if (!manager) GTEST_SKIP() << why;
  EXPECT_EQ(load_connection_manager(why), manager);
  EXPECT_STREQ(manager->event_text(RDMA_CM_EVENT_REJECTED), "RDMA_CM_EVENT_REJECTED");
}

class InstalledVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    verbs_ = load_verbs(why_);
    if (!verbs_) GTEST_SKIP() << why_;
  }
  std::string why_;
  std::shared_ptr<Verbs> verbs_;
};

TEST_F(InstalledVerbs, IsLoadedOnce) {
  std::string why;
  EXPECT_EQ(load_verbs(why), verbs_);
  EXPECT_EQ(why, "");
}

TEST_F(InstalledVerbs, ListsDevicesOrSaysWhyNot) {
  int count = -1;
  ibv_device** list = verbs_->device_list(&count);
  if (list == nullptr) {
    EXPECT_GT(errno, 0);
    return;
  }
  for (int i = 0; i < count; ++i) EXPECT_STRNE(verbs_->device_name(list[i]), "");
  verbs_->free_device_list(list);
}

TEST_F(InstalledVerbs, HasWordsForStatesAndEvents) {
  EXPECT_STREQ(verbs_->status_text(IBV_WC_RNR_RETRY_EXC_ERR), "RNR retry counter exceeded");
  EXPECT_STRNE(verbs_->event_text(IBV_EVENT_PORT_ERR), "");
}

}  // namespace
