// Groups of ranks, and the agreement on survivors.
#include <utility>

#include "bindings/c/call.hpp"

using namespace weft::c;

weft_code weft_world_group(const weft_world* world, weft_group** group) {
  return guarded([&] {
    auto& out = given("group", "group", group);
    out = new weft_group{in_rank("group", "world", world).world.group()};
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_rank(const weft_group* group, int* place) {
  return guarded([&] {
    given("group_rank", "place", place) = given("group_rank", "group", group).group.rank();
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_size(const weft_group* group, int* size) {
  return guarded([&] {
    given("group_size", "size", size) = given("group_size", "group", group).group.size();
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_members(const weft_group* group, const int** ranks) {
  return guarded([&] {
    given("group_members", "ranks", ranks) =
        given("group_members", "group", group).group.members().data();
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_place_of(const weft_group* group, int rank, int* place) {
  return guarded([&] {
    given("place_of", "place", place) = given("place_of", "group", group).group.place_of(rank);
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_epoch(const weft_group* group, uint32_t* epoch) {
  return guarded([&] {
    given("group_epoch", "epoch", epoch) = given("group_epoch", "group", group).group.epoch();
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_id(const weft_group* group, uint64_t* id) {
  return guarded([&] {
    given("group_id", "id", id) = given("group_id", "group", group).group.id();
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_subset(const weft_group* group, const int* places, size_t count,
                            weft_group** subset) {
  return guarded([&] {
    auto& out = given("subset", "subset", subset);
    const auto wanted = given("subset", "places", places, count);
    out = new weft_group{given("subset", "group", group).group.subset(wanted)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_split(const weft_group* group, int colour, int key, double timeout_seconds,
                           weft_group** part) {
  return guarded([&] {
    auto& out = given("split", "part", part);
    const weft::Group& whole = given("split", "group", group).group;
    auto result = whole.split(colour, key, deadline("split", timeout_seconds));
    if (!result.ok()) return remember(result.status());
    out = new weft_group{std::move(*result)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_shrink(const weft_group* group, double timeout_seconds,
                            weft_group** survivors) {
  return guarded([&] {
    auto& out = given("shrink", "survivors", survivors);
    const weft::Group& members = given("shrink", "group", group).group;
    auto result = members.shrink(deadline("shrink", timeout_seconds));
    if (!result.ok()) return remember(result.status());
    out = new weft_group{std::move(*result)};
    return WEFT_CODE_OK;
  });
}

weft_code weft_group_free(weft_group* group) {
  return guarded([&] {
    delete &given("group_free", "group", group);
    return WEFT_CODE_OK;
  });
}
