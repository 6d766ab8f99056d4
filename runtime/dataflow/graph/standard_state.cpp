// Feeds, variables, fetches, constants, and the nodes that replace cut edges.
#include "runtime/dataflow/graph/standard.hpp"

namespace weft::dataflow {
namespace {

Types from_attributes(const Inference& in) {
  return {{dtype_named(in, in.attributes().word("dtype")),
           PartialShape(in.attributes().sizes("shape"))}};
}

Definition source(std::string name) {
  return {.name = std::move(name),
          .outputs = {{"tensor"}},
          .attributes = {{"dtype", std::string(), true}, {"shape", Sizes(), true}},
          .infer = from_attributes};
}

Definition sink(std::string name) {
  return {.name = std::move(name), .inputs = {{"tensor"}}, .infer = [](const Inference&) {
            return Types{};
          }};
}

Types infer_assign(const Inference& in) {
  need_one_dtype(in);
  // A variable keeps its shape, so the value must have it in every step.
  if (in.shape(0) != in.shape(1)) in.refuse("a variable and its new value must be of one shape");
  return {in.input(0)};
}

}  // namespace

void add_state(Definitions& all) {
  all.add(source("weft.Feed"));
  all.add(source("weft.Variable"));
  all.add(sink("weft.Fetch"));
  all.add({.name = "weft.Assign",
           .inputs = {{"variable"}, {"value"}},
           .outputs = {{"new_value"}},
           .infer = infer_assign,
           .reuses = {{0, 0, Reuse::Kind::must}}});
  Definition fill = source("weft.Fill");
  fill.attributes.push_back({"value", 0.0});
  all.add(std::move(fill));
  all.add({.name = "weft.ZerosLike",
           .inputs = {{"like"}},
           .outputs = {{"zeros"}},
           .infer = like_input(0)});
  for (const char* kind : {"weft.RdmaSend", "weft.RdmaSendDyn", "weft.Publish"}) {
    Definition send = sink(kind);
    send.attributes = {{"edge", std::int64_t{0}, true}};
    all.add(std::move(send));
  }
  for (const char* kind : {"weft.RdmaRecv", "weft.RdmaRecvDyn", "weft.View"}) {
    Definition receive = source(kind);
    receive.attributes.push_back({"edge", std::int64_t{0}, true});
    all.add(std::move(receive));
  }
}

}  // namespace weft::dataflow
