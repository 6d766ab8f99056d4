// Soak tests of tables and publications.
#include "tests/threads/pslib/subscribers.hpp"
#include "tests/threads/soak/soak.hpp"
#include "weft/pslib.hpp"

namespace weft::tests {
namespace {

TEST(Soak, TablesMadeUsedAndDestroyed) {
  soak(count_of(seeds(150)), [](World&, Meeting& meeting) -> Operation {
    return [&meeting](World& at, int) {
      {
        pslib::ParameterServer server(at);
        pslib::Table table = server.table("soak", {{"t", {100}}}, pslib::TableOptions{});
        table.initialize().or_throw();
        table.push_pull().or_throw();
        meeting.wait();
      }
      meeting.wait();
    };
  });
}

TEST(Soak, SparseTablesMadeUsedAndDestroyed) {
  soak(count_of(seeds(100)), [](World&, Meeting& meeting) -> Operation {
    return [&meeting](World& at, int) {
      {
        pslib::ParameterServer server(at);
        const pslib::SparseOptions options{.dim = 4};
        pslib::SparseTable table = server.sparse_table("soak", options);
        const std::vector<std::uint64_t> ids{1, 7};
        table.push(ids, std::vector<float>(8, 1.0F)).or_throw();
        std::vector<float> rows(8);
        table.lookup(ids, rows).or_throw();
        meeting.wait();
      }
      meeting.wait();
    };
  });
}

TEST(Soak, PublicationsPublishedReadAndClosed) {
  const SubscriberAddressFile place;
  soak(count_of(seeds(100)), [&](World& world, Meeting& meeting) -> Operation {
    std::shared_ptr<pslib::Publisher> publisher;
    if (world.rank() == 0) publisher = std::make_shared<pslib::Publisher>(world, place.publisher());
    const Tensor tensor = world.allocate(DType::f32, {1000});
    return [=, &meeting, &place](World& at, int number) {
      const std::string name = "soak " + std::to_string(number);
      if (at.rank() == 0) {
        auto publication = publisher->publication(name, {{"t", DType::f32, {1000}}});
        publication.publish(std::span(&tensor, 1)).or_throw();
        meeting.wait();
        meeting.wait();
      } else {
        meeting.wait();
        {
          pslib::Reader reader = pslib::Reader::join(name, place.reader());
          reader.pull_latest().or_throw();
        }
        meeting.wait();
      }
    };
  });
}

}  // namespace
}  // namespace weft::tests
