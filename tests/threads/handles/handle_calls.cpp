#include "tests/threads/handles/call_lists.hpp"

namespace weft::tests {

const std::vector<HandleCall>& handle_calls() {
  static const std::vector<HandleCall> all = [] {
    std::vector<HandleCall> calls;
    for (auto&& some : {calls_with_a_world(), calls_of_slots(), calls_of_groups_and_messages(),
                        calls_of_pslib(), calls_of_dataflow(), calls_of_the_world()})
      calls.insert(calls.end(), some.begin(), some.end());
    return calls;
  }();
  return all;
}

bool has_handle_for(const EveryHandle& all, const HandleCall& call) {
  const std::string type = call.type();
  const std::string whole = call.name;
  if (whole.find("executor") != std::string::npos && !all.executor) return false;
  const bool takes_table = whole.find("executor, table") != std::string::npos ||
                           whole.find("serve(table") != std::string::npos;
  if (takes_table && !all.table) return false;
  if (type == "Messages") return all.messages.has_value();
  if (type == "ParameterServer") return all.server.has_value();
  if (type == "Table") return all.table.has_value();
  if (type == "SparseTable") return all.sparse.has_value();
  if (type == "Publisher") return all.publisher.has_value();
  if (type == "Publication") return all.publication.has_value();
  if (type == "Reader") return all.reader.has_value();
  if (type == "Executor") return all.executor.has_value();
  if (type == "VariableCheckpoints") return all.checkpoints.has_value();
  if (type == "TableVariables") return all.variables.has_value();
  if (type == "TracingAllocator") return all.tracer.has_value();
  return true;
}

}  // namespace weft::tests
