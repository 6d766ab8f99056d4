// Publishers and their publications.
#include "bindings/c/publication.hpp"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/c/sized.hpp"

using namespace weft::c;

namespace {

weft::pslib::PublisherOptions options_of(const weft_publisher_options* given_options) {
  const auto from = read_optional("publisher", "options", given_options);
  weft::pslib::PublisherOptions to;
  if (from.address != nullptr) to.address = from.address;
  if (from.token_file != nullptr) to.token_file = from.token_file;
  if (from.most_subscribers != 0) to.most_subscribers = from.most_subscribers;
  return to;
}

weft::pslib::PublicationOptions options_of(const weft_publication_options* given_options) {
  const auto from = read_optional("publication", "options", given_options);
  weft::pslib::PublicationOptions to;
  if (from.buffers != 0) to.buffers = from.buffers;
  if (from.history != 0) to.history = from.history;
  if (from.no_deltas != 0) to.history = 0;
  return to;
}

std::vector<weft::pslib::PublishedTensor> specs_of(const weft_published_tensor* tensors,
                                                   std::size_t count) {
  std::vector<weft::pslib::PublishedTensor> specs;
  if (count > 0)
    check_struct_size("publication", "tensors",
                      given("publication", "tensors", tensors).struct_size);
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = read_sized("publication", "tensors", element_at(tensors, i));
    specs.push_back({text_of("publication", "a tensor's name", from.name),
                     checked_dtype("publication", from.dtype),
                     shape_of("publication", from.dims, from.ndims)});
  }
  return specs;
}

}  // namespace

weft_code weft_publisher_open(weft_world* world, const weft_publisher_options* options,
                              weft_publisher** publisher) {
  return guarded([&] {
    auto& self = in_rank("publisher", "world", world);
    auto& out = given("publisher", "publisher", publisher);
    out = new weft_publisher{OpenIn(self), weft::pslib::Publisher(self.world, options_of(options))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_publisher_close(weft_publisher* publisher) {
  return guarded([&] {
    check_closed("publisher_close", in_rank("publisher_close", "publisher", publisher).publications,
                 "publications of this publisher");
    delete publisher;
    return WEFT_CODE_OK;
  });
}

weft_code weft_publisher_address(const weft_publisher* publisher, char** address) {
  return guarded([&] {
    auto& out = given("address", "address", address);
    out = new_text(in_rank("address", "publisher", publisher).publisher.address());
    return WEFT_CODE_OK;
  });
}

weft_code weft_publisher_subscribers(const weft_publisher* publisher, int* subscribers) {
  return guarded([&] {
    auto& out = given("subscribers", "subscribers", subscribers);
    out = in_rank("subscribers", "publisher", publisher).publisher.subscribers();
    return WEFT_CODE_OK;
  });
}

weft_code weft_publisher_rejected_connections(const weft_publisher* publisher, uint64_t* rejected) {
  return guarded([&] {
    auto& out = given("rejected_connections", "rejected", rejected);
    out = in_rank("rejected_connections", "publisher", publisher).publisher.rejected_connections();
    return WEFT_CODE_OK;
  });
}

weft_code weft_publisher_leave(weft_publisher* publisher, double timeout_seconds) {
  return guarded([&] {
    auto& self = in_rank("leave", "publisher", publisher).publisher;
    return code_of(self.leave(deadline("leave", timeout_seconds)));
  });
}

weft_code weft_publication_open(weft_publisher* publisher, const char* name,
                                const weft_published_tensor* tensors, size_t count,
                                const weft_publication_options* options,
                                weft_publication** publication) {
  return guarded([&] {
    auto& self = in_rank("publication", "publisher", publisher);
    auto& out = given("publication", "publication", publication);
    out = new weft_publication{
        OpenIn(self.open.world()), PublicationOf(self),
        self.publisher.publication(text_of("publication", "name", name), specs_of(tensors, count),
                                   options_of(options))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_publication_close(weft_publication* publication) {
  return guarded([&] {
    delete &in_rank("publication_close", "publication", publication);
    return WEFT_CODE_OK;
  });
}

weft_code weft_publication_publish(weft_publication* publication, const weft_tensor* const* tensors,
                                   size_t count, uint64_t step) {
  return guarded([&] {
    auto& self = in_rank("publish", "publication", publication).publication;
    return code_of(self.publish(tensors_of("publish", tensors, count), step));
  });
}

weft_code weft_publication_version(const weft_publication* publication, uint64_t* version) {
  return guarded([&] {
    auto& out = given("version", "version", version);
    out = in_rank("version", "publication", publication).publication.version();
    return WEFT_CODE_OK;
  });
}

weft_code weft_publication_get_statistics(const weft_publication* publication,
                                          weft_publication_statistics* statistics) {
  return guarded([&] {
    const auto from = in_rank("statistics", "publication", publication).publication.statistics();
    write_sized("statistics", "statistics", statistics,
                weft_publication_statistics{.struct_size = 0,
                                            .version = from.version,
                                            .full_bytes = from.full_bytes,
                                            .rows_changed = from.rows_changed,
                                            .bytes_copied = from.bytes_copied,
                                            .full_sent = from.full_sent,
                                            .deltas_sent = from.deltas_sent,
                                            .full_bytes_sent = from.full_bytes_sent,
                                            .delta_bytes_sent = from.delta_bytes_sent,
                                            .revoked = from.revoked,
                                            .subscribers = from.subscribers,
                                            .reserved = 0});
    return WEFT_CODE_OK;
  });
}
