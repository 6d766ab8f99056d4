// The requirements on every fabric, as a table of test bodies that several runners go through.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "weft/world.hpp"

namespace weft::conformance {

/// One requirement, as a function that every rank of a job runs; it throws if the requirement does
/// not hold. Ranks wait for each other through weft alone (Meeting): no mutex, sleep or clock of
/// the machine.
struct Body {
  std::string_view name;
  void (*run)(World&);
  bool needs_threads = false;  ///< several per rank: not where ranks take turns on one thread
  /// Asserts costs of tensors in host memory, or needs such: not with ends on GPUs.
  bool is_of_host_memory = false;
};

using Bodies = std::vector<Body>;

// By subject, each in the file of its name.
Bodies put_bodies();
Bodies source_bodies();
Bodies adopted_bodies();
Bodies pending_bodies();
Bodies under_way_bodies();
Bodies many_slots_bodies();
Bodies dynamic_bodies();
Bodies published_bodies();
Bodies reader_bodies();
Bodies late_read_bodies();
Bodies teardown_bodies();
Bodies attach_bodies();
Bodies error_bodies();
Bodies counter_bodies();
Bodies collective_bodies();
Bodies thread_bodies();
Bodies wait_set_bodies();
Bodies message_bodies();
Bodies rendezvous_bodies();
Bodies signal_bodies();
Bodies progress_bodies();
Bodies split_bodies();
Bodies random_bodies();

/// Every body, in the order of the files above.
const Bodies& all_bodies();
/// Those that hold too where tensors lie on GPUs (Ends).
Bodies bodies_for_gpus();

// Long bodies, which runners start by name.
void soak(World& world);
void churn(World& world);

}  // namespace weft::conformance
