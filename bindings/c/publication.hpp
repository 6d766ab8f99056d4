// Handles of publishers, publications and readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/c/call.hpp"
#include "weft/publication.hpp"

struct weft_publisher {
  weft::c::OpenIn open;
  weft::pslib::Publisher publisher;
  std::atomic<int> publications{0};  ///< handles that must be freed first
};

namespace weft::c {

/// Counts a publication as open in its publisher as long as it lives.
class PublicationOf {
 public:
  explicit PublicationOf(weft_publisher& publisher) noexcept : publisher_(&publisher) {
    ++publisher.publications;
  }
  ~PublicationOf() { --publisher_->publications; }
  PublicationOf(const PublicationOf&) = delete;
  PublicationOf& operator=(const PublicationOf&) = delete;

 private:
  weft_publisher* publisher_;
};

}  // namespace weft::c

struct weft_publication {
  weft::c::OpenIn open;
  weft::c::PublicationOf of;
  weft::pslib::Publication publication;
};

struct weft_reader {
  weft::pslib::Reader reader;
  std::vector<std::int64_t> dims{};  ///< as weft_reader_tensor_at told them
};
