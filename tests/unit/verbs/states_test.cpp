// The attributes that take a queue pair from RESET to RTS.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "p2p/transport/verbs/device/device.hpp"
#include "tests/unit/verbs/device_rig.hpp"
#include "weft/error.hpp"

namespace weft::p2p::verbs {
namespace {

using fake::FakeNetwork;
using fake::NicSpec;

/// A device with one queue pair.
struct End {
  explicit End(std::shared_ptr<Verbs> library, const VerbsOptions& options = {},
               std::uint8_t port_flags = 0)
      : rig(std::move(library), options),
        device(open(port_flags)),
        queue(device.verbs(), device.verbs().create_cq(device.context(), 16, nullptr)) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = queue.get();
    wanted.recv_cq = queue.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {4, 4, 1, 1, 0};
    qp = QueuePairHandle(device.verbs(), device.verbs().create_qp(device.domain(), &wanted));
  }

  Device& open(std::uint8_t port_flags) {
    rig.verbs->port_flags = port_flags;
    return rig.device();
  }
  const RecordingVerbs::Change& change(std::size_t i) const { return rig.verbs->changes.at(i); }

  DeviceRig rig;
  Device& device;
  CompletionQueue queue;
  QueuePairHandle qp;
};

VerbsAddress elsewhere(const VerbsAddress& address) {
  VerbsAddress other = address;
  other.gid[0] = std::byte{0xfd};
  other.gid[7] ^= std::byte{0x10};
  return other;
}

NicSpec infiniband() {
  NicSpec nic;
  nic.ports[0].ethernet = false;
  return nic;
}

TEST(States, AreReachedWithExactlyTheAttributesThatEachNeeds) {
  FakeNetwork network;
  End end(network.device(0));
  end.device.to_init(end.qp.get());
  end.device.to_ready(end.qp.get(), end.device.address(), end.qp->qp_num, 5, 7);
  end.device.to_error(end.qp.get());
  ASSERT_EQ(end.rig.verbs->changes.size(), 4U);
  EXPECT_EQ(end.change(0).mask,
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(end.change(1).mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                    IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(end.change(2).mask, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(end.change(3).mask, IBV_QP_STATE);
  EXPECT_EQ(end.change(3).attributes.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(end.change(0).attributes.qp_access_flags,
            static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
}

TEST(States, HoldWhatTheSettingsSay) {
  FakeNetwork network;
  VerbsOptions options;
  options.timeout = 20;
  options.service_level = 4;
  options.traffic_class = 106;
  End end(network.device(0, NicSpec{.max_reads = 5}), options);
  VerbsAddress peer = end.device.address();
  peer.mtu = IBV_MTU_1024;
  end.device.to_init(end.qp.get());
  end.device.to_ready(end.qp.get(), peer, end.qp->qp_num, 5, 7);
  const ibv_qp_attr& receive = end.change(1).attributes;
  EXPECT_EQ(receive.path_mtu, IBV_MTU_1024) << "the smaller of both ends'";
  EXPECT_EQ(receive.rq_psn, 5U);
  EXPECT_EQ(receive.max_dest_rd_atomic, 5);
  EXPECT_EQ(receive.ah_attr.sl, 4);
  EXPECT_EQ(receive.ah_attr.is_global, 1);
  EXPECT_EQ(receive.ah_attr.grh.traffic_class, 106);
  EXPECT_EQ(receive.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ(std::memcmp(receive.ah_attr.grh.dgid.raw, peer.gid.data(), 16), 0);
  const ibv_qp_attr& send = end.change(2).attributes;
  EXPECT_EQ(send.sq_psn, 7U);
  EXPECT_EQ(send.timeout, 20);
  EXPECT_EQ(send.retry_cnt, 7);
  EXPECT_LT(send.rnr_retry, 7) << "7 waits for ever";
  EXPECT_EQ(send.max_rd_atomic, 5);
}

TEST(States, TakeNoMoreReadsThanEitherEndAllows) {
  FakeNetwork network;
  End end(network.device(0, NicSpec{.max_reads = 16}));
  VerbsAddress peer = end.device.address();
  peer.reads = 2;
  end.device.to_init(end.qp.get());
  end.device.to_ready(end.qp.get(), peer, end.qp->qp_num, 0, 0);
  EXPECT_EQ(end.change(1).attributes.max_dest_rd_atomic, 2);
  EXPECT_EQ(end.change(2).attributes.max_rd_atomic, 2);
}

TEST(States, UseALidWithinAnInfiniBandSubnetAndAGlobalRouteBetweenTwo) {
  FakeNetwork network;
  End near(network.device(0, infiniband()));
  near.device.to_init(near.qp.get());
  near.device.to_ready(near.qp.get(), near.device.address(), near.qp->qp_num, 0, 0);
  EXPECT_EQ(near.change(1).attributes.ah_attr.is_global, 0);
  EXPECT_EQ(near.change(1).attributes.ah_attr.dlid, near.device.address().lid);
  EXPECT_NE(near.device.address().lid, 0);

  End far(network.device(1, infiniband()));
  far.device.to_init(far.qp.get());
  far.device.to_ready(far.qp.get(), elsewhere(far.device.address()), 9, 0, 0);
  EXPECT_EQ(far.change(1).attributes.ah_attr.is_global, 1);
  EXPECT_EQ(far.change(1).attributes.ah_attr.grh.sgid_index, 0);

  End strict(network.device(2, infiniband()), {}, IBV_QPF_GRH_REQUIRED);
  strict.device.to_init(strict.qp.get());
  strict.device.to_ready(strict.qp.get(), strict.device.address(), 9, 0, 0);
  EXPECT_EQ(strict.change(1).attributes.ah_attr.is_global, 1) << "the port asks for it";
}

TEST(States, SayCallStatesErrorAndWhatToTry) {
  FakeNetwork network;
  End end(network.device(0));
  end.device.to_init(end.qp.get());
  const auto line = [&](int error) -> std::string {
    end.rig.verbs->modify_error = error;
    try {
      end.device.to_ready(end.qp.get(), end.device.address(), 9, 0, 0);
    } catch (const Error& thrown) {
      EXPECT_EQ(thrown.code(), Code::system);
      return thrown.what();
    }
    return "(ready)";
  };
  const std::string invalid = line(EINVAL);
  EXPECT_EQ(
      invalid.find("connect: system: ibv_modify_qp of queue pair " +
                   std::to_string(end.qp->qp_num) + " of fake0:1 from INIT to RTR for the peer "),
      0U)
      << invalid;
  EXPECT_NE(invalid.find("Invalid argument; "), std::string::npos) << invalid;
  EXPECT_NE(invalid.find("WEFT_IB_GID, WEFT_IB_MTU"), std::string::npos) << invalid;
  for (const int error : {ETIMEDOUT, ENETUNREACH, EHOSTUNREACH})
    EXPECT_NE(line(error).find("no route to GID "), std::string::npos) << error;
}

TEST(States, DoNotThrowOnTheWayToError) {
  FakeNetwork network;
  End end(network.device(0));
  end.rig.verbs->modify_error = EIO;
  end.device.to_error(end.qp.get());
  EXPECT_TRUE(end.rig.logged("to ERROR: Input/output error"));
}

}  // namespace
}  // namespace weft::p2p::verbs
