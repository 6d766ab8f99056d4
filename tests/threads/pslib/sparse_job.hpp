// A job with one sparse table.
#pragma once

#include "tests/support/edges.hpp"
#include "tests/threads/pslib/training.hpp"

namespace weft::tests {

/// Ranks below `workers` run `work`; with `servers` above 0 the others serve, and then `served`
/// sees the table.
template <typename Work, typename Served>
void run_sparse(int workers, int servers, const pslib::SparseOptions& options, const Work& work,
                const Served& served) {
  run_on(workers + servers, [&](World& world) {
    pslib::ParameterServer server(world, {.dedicated_servers = servers});
    {
      pslib::SparseTable table = server.sparse_table("rows", options);
      if (server.works()) {
        work(world, table);
      } else {
        pslib::SparseTable* const tables[] = {&table};
        server.serve({}, tables).or_throw();
        served(table);
      }
      if (servers == 0) world.leave().or_throw();
    }
    if (servers > 0) (void)world.leave();
  });
}

template <typename Work>
void run_sparse(int workers, int servers, const pslib::SparseOptions& options, const Work& work) {
  run_sparse(workers, servers, options, work, [](const pslib::SparseTable&) {});
}

inline pslib::SparseOptions plain(const pslib::Consistency& consistency) {
  pslib::SparseOptions options;
  options.dim = 4;
  options.optimizer = pslib::Optimizer::sgd(1.0F);
  options.spread = 0.0F;
  options.consistency = consistency;
  return options;
}

}  // namespace weft::tests
