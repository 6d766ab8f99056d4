// Subscribers: the readers of publications, outside the job.
#include <memory>
#include <string>
#include <utility>

#include "bindings/c/publication.hpp"
#include "bindings/c/sized.hpp"
#include "bindings/c/tensor.hpp"

using namespace weft::c;

namespace {

weft::pslib::ReaderOptions options_of(const weft_reader_options* given_options) {
  const auto from = read_optional("join", "options", given_options);
  weft::pslib::ReaderOptions to;
  if (from.address != nullptr) to.address = from.address;
  if (from.token_file != nullptr) to.token_file = from.token_file;
  return to;
}

}  // namespace

weft_code weft_reader_join(const char* name, const weft_reader_options* options,
                           double timeout_seconds, weft_reader** reader) {
  return guarded([&] {
    auto& out = given("join", "reader", reader);
    out = new weft_reader{weft::pslib::Reader::join(
        text_of("join", "name", name), options_of(options), deadline("join", timeout_seconds))};
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_close(weft_reader* reader) {
  return guarded([&] {
    delete &given("reader_close", "reader", reader);
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_tensors(const weft_reader* reader, size_t* count) {
  return guarded([&] {
    auto& out = given("tensors", "count", count);
    out = given("tensors", "reader", reader).reader.specs().size();
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_tensor_at(weft_reader* reader, size_t index, weft_published_tensor* tensor) {
  return guarded([&] {
    auto& self = given("tensor_at", "reader", reader);
    check_index("tensor_at", index, self.reader.specs().size());
    const auto& spec = self.reader.specs()[index];
    self.dims.clear();
    for (std::size_t i = 0; i < spec.shape.dims(); ++i) self.dims.push_back(spec.shape[i]);
    write_sized("tensor_at", "tensor", tensor,
                weft_published_tensor{0, spec.name.c_str(), self.dims.data(), self.dims.size(),
                                      static_cast<weft_dtype>(spec.dtype), 0});
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_receive_into(weft_reader* reader, const weft_tensor* const* tensors,
                                   size_t count) {
  return guarded([&] {
    auto& self = given("receive_into", "reader", reader).reader;
    auto list = tensors_of("receive_into", tensors, count);
    for (std::size_t i = 0; i < count; ++i) check_writable("receive_into", *tensors[i]);
    self.receive_into(std::move(list));
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_pull_latest(weft_reader* reader, double timeout_seconds) {
  return guarded([&] {
    auto& self = given("pull", "reader", reader).reader;
    return code_of(self.pull_latest(deadline("pull", timeout_seconds)));
  });
}

weft_code weft_reader_pull_newer(weft_reader* reader, double timeout_seconds) {
  return guarded([&] {
    auto& self = given("pull", "reader", reader).reader;
    return code_of(self.pull_newer(deadline("pull", timeout_seconds)));
  });
}

weft_code weft_reader_version(const weft_reader* reader, uint64_t* version) {
  return guarded([&] {
    auto& out = given("version", "version", version);
    out = given("version", "reader", reader).reader.version();
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_step(const weft_reader* reader, uint64_t* step) {
  return guarded([&] {
    auto& out = given("step", "step", step);
    out = given("step", "reader", reader).reader.step();
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_whole(const weft_reader* reader, int* whole) {
  return guarded([&] {
    auto& out = given("whole", "whole", whole);
    out = given("whole", "reader", reader).reader.whole() ? 1 : 0;
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_tensor(const weft_reader* reader, const char* name, weft_tensor** tensor) {
  return guarded([&] {
    auto& out = given("tensor", "tensor", tensor);
    const auto& self = given("tensor", "reader", reader).reader;
    out = new_tensor(self.tensor(text_of("tensor", "name", name)), WEFT_MEMORY_WRAPPED, true);
    return WEFT_CODE_OK;
  });
}

weft_code weft_reader_get_statistics(const weft_reader* reader,
                                     weft_reader_statistics* statistics) {
  return guarded([&] {
    const auto from = given("statistics", "reader", reader).reader.statistics();
    write_sized("statistics", "statistics", statistics,
                weft_reader_statistics{0, from.full_taken, from.deltas_taken, from.bytes_received,
                                       from.bytes_copied, from.begun_anew});
    return WEFT_CODE_OK;
  });
}
