#include "topology/import/json_value.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "topology/import/trouble.hpp"

namespace weft::topology {
namespace {

constexpr std::size_t kMostDepth = 64;
constexpr std::size_t kMostValues = 400'000;

/// Counts lines while the parser reads characters, because the parser has no line numbers for
/// values.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  int* line_;
};

/// Receives the parser's events; nlohmann defines the function names.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const std::string& name, const int& line) : name_(name), line_(line) {}

  bool null() override {
    add(JsonValue::Type::null);
    return true;
  }
  bool boolean(bool value) override {
    add(JsonValue::Type::boolean)->boolean = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    add(JsonValue::Type::text)->text = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonValue::Type::object); }
  bool start_array(std::size_t) override { return open(JsonValue::Type::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    const auto& members = open_.back()->members;
    if (std::any_of(members.begin(), members.end(),
                    [&](const auto& member) { return member.first == value; }))
      refuse_file(name_, line_, fmt::format("the key \"{}\" comes twice", excerpt(value)));
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the
    // part in front of the colon is dropped, because refuse_file() adds the line.
    const std::string_view what = error.what();
    const std::size_t colon = what.find(": ");
    refuse_file(name_, line_,
                fmt::format("not well-formed JSON: {}",
                            colon == std::string_view::npos ? what : what.substr(colon + 2)));
  }

  JsonValue take() { return std::move(root_); }

 private:
  JsonValue* add(JsonValue::Type type) {
    if (++values_ > kMostValues) refuse_file(name_, line_, "there are too many values");
    JsonValue* value = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      value = parent.type == JsonValue::Type::array
                  ? &parent.items.emplace_back()
                  : &parent.members.emplace_back(std::move(key_), JsonValue{}).second;
    }
    value->type = type;
    value->line = line_;
    return value;
  }

  bool number(double value) {
    add(JsonValue::Type::number)->number = value;
    return true;
  }

  bool open(JsonValue::Type type) {
    if (open_.size() >= kMostDepth) refuse_file(name_, line_, "values are nested too deeply");
    open_.push_back(add(type));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& name_;
  const int& line_;
  JsonValue root_;
  std::vector<JsonValue*> open_;  // valid, because only the last child of an open value is open
  std::string key_;
  std::size_t values_ = 0;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const auto& member) { return member.first == key; });
  return at == members.end() || at->second.type == Type::null ? nullptr : &at->second;
}

JsonValue parse_json(std::string_view text, const std::string& name) {
  int line = 1;
  Builder builder(name, line);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &line),
                            CountingIterator(text.data() + text.size(), &line), &builder);
  return builder.take();
}

}  // namespace weft::topology
