#include "weft/tensor.hpp"
#include "base/fail.hpp"
#include "base/tensor_checks.hpp"

#include "weft/error.hpp"

namespace weft {
namespace {

std::string list(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (const auto dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + ']';
}

std::size_t bytes_of(DType dtype, const Shape& shape) noexcept {
  return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
}

/// Whether a tensor's last element lies at most Shape::kMaxElements elements behind its first.
bool reaches_within_memory(const Shape& shape, std::span<const std::int64_t> strides) noexcept {
  if (shape.elements() == 0) return true;
  std::int64_t left = Shape::kMaxElements - 1;
  for (std::size_t i = 0; i < shape.dims(); ++i) {
    const std::int64_t steps = shape[i] - 1;
    if (steps != 0 && strides[i] > left / steps) return false;
    left -= steps * strides[i];
  }
  return true;
}

std::string describe(DType dtype, const Shape& shape) {
  return std::string(name(dtype)) + shape.text();
}

}  // namespace

std::string_view name(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::i8:
      return "i8";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
  }
  return "unknown";
}

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : count_(dims.size()) {
  if (dims.size() > kMaxDims)
    throw_error(Code::bad_argument, "shape",
                "it has " + std::to_string(dims.size()) + " dimensions",
                "at most " + std::to_string(kMaxDims) + " are accepted");
  bool is_empty = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto dim = dims[i];
    if (dim < 0)
      throw_error(Code::bad_argument, "shape", list(dims) + " has a negative dimension",
                  "give sizes from 0 on");
    // A zero must not hide an overflow, whether it comes before or after the large dimensions.
    if (dim == 0)
      is_empty = true;
    else if (dim > kMaxElements / elements_)
      throw_error(Code::bad_argument, "shape",
                  list(dims) + " has more elements than memory can hold",
                  "at most " + std::to_string(kMaxElements) + " are accepted");
    else
      elements_ *= dim;
    dims_[i] = dim;
  }
  if (is_empty) elements_ = 0;
}

std::string Shape::text() const { return list({dims_.data(), count_}); }

Tensor::Tensor(std::shared_ptr<Storage> storage, std::size_t offset, DType dtype,
               const Shape& shape)
    : bytes_(bytes_of(dtype, shape)), dtype_(dtype), shape_(shape), storage_(std::move(storage)) {
  check_dtype("tensor", dtype);
  const auto held = storage_ ? storage_->bytes() : 0;
  if (offset > held || bytes_ > held - offset)
    throw_error(Code::bad_argument, "tensor",
                text() + " at byte " + std::to_string(offset) + " needs " + std::to_string(bytes_) +
                    " bytes, and its storage holds " + std::to_string(held) + " in all",
                "give storage that is large enough");
  if (!storage_) return;
  data_ = storage_->data() + offset;
  memory_ = storage_->memory();
}

Tensor Tensor::wrap(void* data, DType dtype, const Shape& shape) noexcept {
  Tensor tensor;
  tensor.data_ = static_cast<std::byte*>(data);
  tensor.bytes_ = data == nullptr ? 0 : bytes_of(dtype, shape);
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::wrap(void* data, DType dtype, const Shape& shape, Memory memory) {
  if (memory.is_own_gpu())
    throw_error(Code::bad_argument, "wrap", "\"this rank's GPU\" does not say where the memory is",
                "name the GPU: Memory::gpu(n)");
  Tensor tensor = wrap(data, dtype, shape);
  tensor.memory_ = memory;
  return tensor;
}

Tensor Tensor::wrap(void* data, DType dtype, const Shape& shape,
                    std::span<const std::int64_t> strides) {
  Tensor tensor = wrap(data, dtype, shape);
  if (strides.size() != shape.dims())
    throw_error(Code::bad_argument, "wrap",
                list(strides) + " are " + std::to_string(strides.size()) +
                    " strides for a tensor " + describe(dtype, shape),
                "give one for each dimension");
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] < 0)
      throw_error(Code::bad_argument, "wrap", list(strides) + " has a negative stride",
                  "give strides from 0 on");
    tensor.strides_[i] = strides[i];
  }
  if (!reaches_within_memory(shape, strides))
    throw_error(Code::bad_argument, "wrap",
                "with the strides " + list(strides) + ", " + describe(dtype, shape) +
                    " ends further away than memory can hold",
                "give strides in elements, not in bytes");
  tensor.settle_density();
  return tensor;
}

std::int64_t Tensor::stride(std::size_t i) const noexcept {
  if (!dense_) return strides_[i];
  std::int64_t stride = 1;
  for (std::size_t dim = shape_.dims(); --dim > i;) stride *= shape_[dim];
  return stride;
}

std::size_t Tensor::extent() const noexcept {
  if (dense_ || bytes_ == 0) return bytes_;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape_.dims(); ++i) last += strides_[i] * (shape_[i] - 1);
  return static_cast<std::size_t>(last + 1) * size_of(dtype_);
}

void Tensor::settle_density() noexcept {
  std::int64_t expected = 1;
  dense_ = true;
  for (std::size_t i = shape_.dims(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected) dense_ = false;
    expected *= shape_[i];
  }
  if (shape_.elements() == 0) dense_ = true;
}

Tensor Tensor::slice(std::size_t dim, std::int64_t first, std::int64_t count) const {
  if (dim >= shape_.dims() || first < 0 || count < 0 || first > shape_[dim] ||
      count > shape_[dim] - first)
    throw_error(Code::bad_argument, "slice",
                std::to_string(count) + " indices from " + std::to_string(first) +
                    " on of dimension " + std::to_string(dim) + " do not lie within " + text(),
                "ask for indices that it has");
  std::array<std::int64_t, Shape::kMaxDims> dims{};
  Tensor tensor = *this;
  for (std::size_t i = 0; i < shape_.dims(); ++i) {
    dims[i] = i == dim ? count : shape_[i];
    tensor.strides_[i] = stride(i);
  }
  if (data_ != nullptr)
    tensor.data_ += static_cast<std::size_t>(first * stride(dim)) * size_of(dtype_);
  tensor.shape_ = Shape(std::span<const std::int64_t>(dims.data(), shape_.dims()));
  tensor.bytes_ = data_ == nullptr ? 0 : bytes_of(dtype_, tensor.shape_);
  tensor.settle_density();
  return tensor;
}

Tensor Tensor::part(std::int64_t first, const Shape& shape) const {
  if (!dense_)
    throw_error(Code::bad_argument, "part", text() + " is not dense",
                "take the part before the slice, or slice again");
  const auto held =
      bytes_ == 0 ? std::int64_t{0} : static_cast<std::int64_t>(bytes_ / size_of(dtype_));
  if (first < 0 || first > held || shape.elements() > held - first)
    throw_error(Code::bad_argument, "part",
                describe(dtype_, shape) + " from element " + std::to_string(first) +
                    " on does not lie within " + text() + ", which holds " + std::to_string(held) +
                    " elements",
                "ask for elements that it holds");
  Tensor tensor = *this;
  if (data_ != nullptr) tensor.data_ += static_cast<std::size_t>(first) * size_of(dtype_);
  tensor.bytes_ = bytes_of(dtype_, shape);
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (!dense_)
    throw_error(Code::bad_argument, "reshape", text() + " is not dense",
                "copy it into a dense tensor first (for_each_run)");
  if (shape.elements() != shape_.elements())
    throw_error(Code::bad_argument, "reshape",
                text() + " has " + std::to_string(shape_.elements()) + " elements, and " +
                    shape.text() + " has " + std::to_string(shape.elements()),
                "give a shape with as many elements");
  Tensor tensor = *this;
  tensor.shape_ = shape;
  return tensor;
}

std::string Tensor::text() const { return describe(dtype_, shape_); }

void Tensor::refuse_element(DType asked) const {
  if (memory_.is_gpu())
    throw_error(Code::bad_argument, "as",
                text() + " lies on " + memory_.text() + ", which the processor can't read",
                "copy it to host memory (World::copy)");
  if (!dense_)
    throw_error(Code::bad_argument, "as", text() + " is not dense: its elements are not contiguous",
                "walk its runs (for_each_run)");
  throw_error(Code::bad_argument, "as",
              text() + " holds no " + std::string(name(asked)) + " elements",
              "read it as its own element type, or as u8 for its bytes");
}

}  // namespace weft
