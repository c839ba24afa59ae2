// A state machine over the parser's events: nothing is stored that was not checked, so a hostile
// header costs no more memory than kMaxBookkeeping beyond the size of its file.
#include "io/safetensors_header.h"

#include <array>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_scan.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

using Json = nlohmann::json;
constexpr int kMaxDepth = 3;  // file, tensor, shape
constexpr std::size_t kMaxRank = 64;
constexpr std::size_t kMaxDTypeLength = 32;
constexpr std::uint64_t kMapNodeBytes = block_bytes(32 + sizeof(Metadata::value_type));

enum class State {
  start,
  file,
  tensor_value,
  metadata_value,
  metadata,
  metadata_entry,
  tensor,
  dtype,
  shape,
  shape_dims,
  offsets,
  offset_values,
  end
};

class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(std::span<const std::uint8_t> data, const std::string& what, std::uint64_t budget,
               ParsedHeader& out)
      : data_(data), what_(what), budget_(budget), out_(out) {}

  const Status& status() const noexcept { return status_; }

  bool charge(std::uint64_t bytes) {
    used_ += bytes;
    if (used_ <= budget_) return true;
    return bad("describes more than " + std::to_string(budget_) +
               " bytes of memory, its file's size + 16 MiB, can hold");
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override { return unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override {
    const bool integer = text.find_first_not_of("0123456789") == std::string::npos;
    return unexpected(printable(text, 40) + (integer ? ", which is too large" : ""));
  }
  bool binary(Json::binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (state_ == State::shape_dims) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return unexpected(std::to_string(value) + ", which is too large");
      }
      if (num_dims_ == kMaxRank) {
        return bad_tensor("shape has more than " + std::to_string(kMaxRank) + " dimensions");
      }
      dims_[num_dims_++] = static_cast<std::int64_t>(value);
      return true;
    }
    if (state_ == State::offset_values) {
      if (num_offsets_ == 2) return bad_tensor("data_offsets has more than 2 values");
      offsets_[num_offsets_++] = value;
      return true;
    }
    return unexpected(std::to_string(value));
  }

  bool string(std::string& value) override {
    if (state_ == State::metadata_entry) {
      if (!charge(kMapNodeBytes + string_heap_bytes(key_.size()) +
                  string_heap_bytes(value.size()))) {
        return false;
      }
      if (!out_.metadata.emplace(key_, std::string(value)).second) {
        return bad("has metadata key " + quote(key_) + " twice");
      }
      state_ = State::metadata;
      return true;
    }
    if (state_ != State::dtype) return unexpected("a string");
    if (value.empty() || value.size() > kMaxDTypeLength) {
      return bad_tensor("dtype is " + quote(value, 40) + ", needs 1 to " +
                        std::to_string(kMaxDTypeLength) + " bytes");
    }
    current_.dtype = std::string(value);
    state_ = State::tensor;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::start:
        state_ = State::file;
        return true;
      case State::metadata_value:
        state_ = State::metadata;
        return true;
      case State::tensor_value:
        state_ = State::tensor;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& value) override {
    switch (state_) {
      case State::file:
        return file_key(value);
      case State::metadata:
        key_ = std::string(value);
        state_ = State::metadata_entry;
        return true;
      default:
        return tensor_key(value);
    }
  }

  bool end_object() override {
    if (state_ == State::tensor) return finish_tensor();
    state_ = state_ == State::metadata ? State::file : State::end;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::shape && state_ != State::offsets) return unexpected("an array");
    state_ = state_ == State::shape ? State::shape_dims : State::offset_values;
    return true;
  }

  bool end_array() override {
    if (state_ == State::offset_values && num_offsets_ != 2) {
      return bad_tensor("data_offsets has " + count(num_offsets_, "value") + ", needs 2");
    }
    state_ = State::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return bad("is not valid JSON at byte " + std::to_string(position) + ": " +
               json_error_reason(error.what()));
  }

 private:
  enum Field : unsigned { kDType = 1, kShape = 2, kOffsets = 4, kAllFields = 7 };

  bool bad(const std::string& sentence) {
    status_ = Status::error(StatusCode::bad_data, "%s %s", what_.c_str(), sentence.c_str());
    return false;
  }
  bool bad_tensor(const std::string& sentence) {
    return bad("is wrong at tensor " + quote(current_.name) + ": " + sentence);
  }

  bool unexpected(const std::string& found) {
    switch (state_) {
      case State::tensor_value:
        return bad_tensor("needs to be an object, is " + found);
      case State::metadata_value:
        return bad("is wrong at __metadata__: needs to be an object, is " + found);
      case State::metadata_entry:
        return bad("is wrong at __metadata__: the value of " + quote(key_) +
                   " needs to be a string, is " + found);
      case State::dtype:
        return bad_tensor("dtype needs to be a string, is " + found);
      case State::shape:
        return bad_tensor("shape needs to be an array, is " + found);
      case State::offsets:
        return bad_tensor("data_offsets needs to be an array, is " + found);
      case State::shape_dims:
        return bad_tensor("dimension " + std::to_string(num_dims_) +
                          " of shape needs to be an integer of 0 to 2^63 - 1, is " + found);
      case State::offset_values:
        return bad_tensor("data_offsets value " + std::to_string(num_offsets_) +
                          " needs to be an integer of 0 to 2^64 - 1, is " + found);
      default:
        return bad("has " + found + " where it needs an object");
    }
  }

  bool file_key(const std::string& name) {
    if (name == "__metadata__") {
      if (has_metadata_) return bad("has __metadata__ twice");
      has_metadata_ = true;
      state_ = State::metadata_value;
      return true;
    }
    if (name.empty()) return bad("has a tensor with an empty name");
    if (!charge(string_heap_bytes(name.size()))) return false;
    current_ = TensorView{.name = std::string(name), .dtype = {}, .shape = {}, .data = {}};
    fields_ = 0;
    num_dims_ = num_offsets_ = 0;
    state_ = State::tensor_value;
    return true;
  }

  bool tensor_key(const std::string& name) {
    Field field{};
    if (name == "dtype") {
      field = kDType;
      state_ = State::dtype;
    } else if (name == "shape") {
      field = kShape;
      state_ = State::shape;
    } else if (name == "data_offsets") {
      field = kOffsets;
      state_ = State::offsets;
    } else {
      return bad_tensor("has an unknown field " + quote(name));
    }
    if ((fields_ & field) != 0) return bad_tensor("has field " + quote(name) + " twice");
    fields_ |= field;
    return true;
  }

  bool finish_tensor() {
    state_ = State::file;
    for (const auto& [field, name] : {std::pair{kDType, "dtype"}, std::pair{kShape, "shape"},
                                      std::pair{kOffsets, "data_offsets"}}) {
      if ((fields_ & field) == 0) {
        return bad_tensor(std::string("has no field '") + name + "'");
      }
    }
    const auto [begin, end] = offsets_;
    const std::string range = "[" + std::to_string(begin) + ", " + std::to_string(end) + "]";
    if (begin > end) return bad_tensor("data_offsets " + range + " end before they begin");
    if (end > data_.size()) {
      return bad_tensor("data_offsets " + range + " end beyond the file, which has " +
                        count(data_.size(), "byte") + " of data");
    }
    const std::span<const std::int64_t> dims(dims_.data(), num_dims_);
    const Result<std::uint64_t> needed = tensor_bytes(current_.dtype, dims);
    if (!needed.is_ok() && needed.status().code() != StatusCode::unsupported) {
      return bad_tensor(needed.status().c_str());
    }
    if (needed.is_ok() && *needed != end - begin) {
      return bad_tensor("shape " + shape_string(dims) + " of " + printable(current_.dtype, 40) +
                        " needs " + count(*needed, "byte") + ", data_offsets " + range + " are " +
                        std::to_string(end - begin));
    }
    if (!charge(string_heap_bytes(current_.dtype.size()) + block_bytes(8 * num_dims_))) {
      return false;
    }
    current_.shape.assign(dims.begin(), dims.end());
    current_.data =
        data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    out_.tensors.push_back(std::move(current_));
    return true;
  }

  const std::span<const std::uint8_t> data_;
  const std::string& what_;
  const std::uint64_t budget_;
  ParsedHeader& out_;
  Status status_;
  State state_ = State::start;
  std::uint64_t used_ = 0;
  bool has_metadata_ = false;
  std::string key_;
  TensorView current_;
  unsigned fields_ = 0;
  std::array<std::int64_t, kMaxRank> dims_{};
  std::array<std::uint64_t, 2> offsets_{};
  std::size_t num_dims_ = 0, num_offsets_ = 0;
};

}  // namespace

Result<ParsedHeader> parse_header(std::string_view text, std::span<const std::uint8_t> data,
                                  const std::string& file) {
  const std::string what = file + ": the header";
  const Result<JsonScan> scan = scan_json(text, what, kMaxDepth);
  if (!scan.is_ok()) return scan.status();
  ParsedHeader out;
  // Exact from the start: growing would need the old and the new block at once.
  const std::uint64_t most = scan->objects - 1;
  HeaderReader reader(data, what, 8 + text.size() + data.size() + kMaxBookkeeping, out);
  if (!reader.charge(most * (sizeof(TensorView) + sizeof(std::uint32_t)))) return reader.status();
  out.tensors.reserve(static_cast<std::size_t>(most));
  if (!Json::sax_parse(scan->text.begin(), scan->text.end(), &reader)) return reader.status();
  return out;
}

}  // namespace mxgemm::io
