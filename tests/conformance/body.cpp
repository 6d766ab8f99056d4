#include "tests/conformance/body.hpp"

namespace weft::conformance {

const Bodies& all_bodies() {
  static const Bodies all = [] {
    Bodies all;
    for (const auto& some :
         {put_bodies,       source_bodies,     adopted_bodies,    pending_bodies,
          under_way_bodies, many_slots_bodies, dynamic_bodies,    published_bodies,
          reader_bodies,    late_read_bodies,  teardown_bodies,   attach_bodies,
          error_bodies,     counter_bodies,    collective_bodies, thread_bodies,
          wait_set_bodies,  message_bodies,    rendezvous_bodies, signal_bodies,
          progress_bodies,  split_bodies,      random_bodies}) {
      const Bodies bodies = some();
      all.insert(all.end(), bodies.begin(), bodies.end());
    }
    return all;
  }();
  return all;
}

Bodies bodies_for_gpus() {
  Bodies bodies = all_bodies();
  std::erase_if(bodies, [](const Body& body) { return body.is_of_host_memory; });
  return bodies;
}

}  // namespace weft::conformance
