// Builders for the bytes of safetensors and .npy files, right and wrong ones alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mxgemm::io_corpus {

/// `width` bytes, least significant first.
inline std::string little_endian(std::uint64_t value, int width) {
  std::string out;
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

/// A safetensors file with this header and this many bytes of data, whatever they are.
inline std::string safetensors(std::string_view header, std::size_t data_bytes = 0) {
  std::string out = little_endian(header.size(), 8);
  out += header;
  for (std::size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 37 + 1);
  return out;
}

/// One member of a header: "name":{"dtype":...,"shape":...,"data_offsets":...}.
inline std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                          std::string_view offsets) {
  std::string out = "\"";
  out += name;
  out += "\":{\"dtype\":\"";
  out += dtype;
  out += "\",\"shape\":";
  out += shape;
  out += ",\"data_offsets\":";
  out += offsets;
  return out + "}";
}

/// A file with one tensor called "a".
inline std::string one_tensor(std::string_view dtype, std::string_view shape,
                              std::string_view offsets, std::size_t data_bytes) {
  return safetensors("{" + tensor("a", dtype, shape, offsets) + "}", data_bytes);
}

/// A file whose only tensor "a" is this JSON value.
inline std::string raw_tensor(std::string_view value, std::size_t data_bytes = 4) {
  return safetensors("{\"a\":" + std::string(value) + "}", data_bytes);
}

/// A .npy file; versions 2 and 3 have a longer header length.
inline std::string npy(std::string_view dict, std::size_t data_bytes, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  out += little_endian(dict.size(), version == 1 ? 2 : 4);
  out += dict;
  for (std::size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 37 + 1);
  return out;
}

inline std::string npy_dict(std::string_view descr, std::string_view order,
                            std::string_view shape) {
  std::string out = "{'descr': ";
  out += descr;
  out += ", 'fortran_order': ";
  out += order;
  out += ", 'shape': ";
  out += shape;
  return out + ", }";
}

}  // namespace mxgemm::io_corpus
