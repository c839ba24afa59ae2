// Builders for the bytes of GGUF files, and the ones that must be refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "malformed.h"

namespace mxgemm::io_corpus {

inline std::string gguf_text(std::string_view text) {
  return little_endian(text.size(), 8) += text;
}

inline std::string gguf_entry(std::string_view key, int type, std::string_view value) {
  return gguf_text(key) + little_endian(static_cast<std::uint64_t>(type), 4) += value;
}

inline std::string gguf_array(int type, std::uint64_t n, std::string_view elements) {
  return little_endian(static_cast<std::uint64_t>(type), 4) + little_endian(n, 8) += elements;
}

/// dims in the file's order: the fastest first.
inline std::string gguf_tensor(std::string_view name, std::initializer_list<std::uint64_t> dims,
                               int type, std::uint64_t offset) {
  std::string out = gguf_text(name) + little_endian(dims.size(), 4);
  for (const std::uint64_t dim : dims) out += little_endian(dim, 8);
  return out + little_endian(static_cast<std::uint64_t>(type), 4) + little_endian(offset, 8);
}

struct GgufParts {
  std::vector<std::string> entries = {}, tensors = {};
  std::size_t data_bytes = 0;
  std::uint64_t version = 3;
  std::size_t alignment = 32;
};

inline std::string gguf(const GgufParts& parts) {
  std::string out = "GGUF" + little_endian(parts.version, 4) +
                    little_endian(parts.tensors.size(), 8) + little_endian(parts.entries.size(), 8);
  for (const std::string& entry : parts.entries) out += entry;
  for (const std::string& tensor : parts.tensors) out += tensor;
  if (parts.data_bytes == 0) return out;
  out.resize((out.size() + parts.alignment - 1) / parts.alignment * parts.alignment, '\0');
  for (std::size_t i = 0; i < parts.data_bytes; ++i) out += static_cast<char>(i * 37 + 1);
  return out;
}

/// A file whose only entry is this.
inline std::string gguf_one_entry(std::string_view key, int type, std::string_view value) {
  return gguf({.entries = {gguf_entry(key, type, value)}});
}

/// A file with one tensor "a".
inline std::string gguf_one_tensor(std::initializer_list<std::uint64_t> dims, int type,
                                   std::size_t data_bytes, std::uint64_t offset = 0) {
  return gguf({.tensors = {gguf_tensor("a", dims, type, offset)}, .data_bytes = data_bytes});
}

inline std::string gguf_counts(std::uint64_t tensors, std::uint64_t entries, std::size_t rest = 0) {
  return "GGUF" + little_endian(3, 4) + little_endian(tensors, 8) + little_endian(entries, 8) +
         std::string(rest, '\0');
}

inline std::vector<MalformedCase> legal_ggufs() {
  const std::string two = gguf_text("x") + gguf_text("");
  return {
      {"legal_empty", gguf({}), ""},
      {"legal_v2", gguf({.version = 2}), ""},
      {"legal_mxfp4", gguf_one_tensor({32, 2}, 39, 34), ""},
      {"legal_padded", gguf_one_tensor({32, 2}, 39, 64), ""},
      {"legal_scalar", gguf_one_tensor({}, 0, 4), ""},
      {"legal_zero", gguf_one_tensor({0, 5}, 0, 0), ""},
      {"legal_values",
       gguf({.entries =
                 {gguf_entry("u8", 0, "\xFF"), gguf_entry("i8", 1, "\xFF"),
                  gguf_entry("u16", 2, "ab"), gguf_entry("i16", 3, "ab"),
                  gguf_entry("u32", 4, "abcd"), gguf_entry("i32", 5, "abcd"),
                  gguf_entry("f32", 6, "abcd"), gguf_entry("bool", 7, "\x01"),
                  gguf_entry("string", 8, gguf_text("text")),
                  gguf_entry("array", 9, gguf_array(8, 2, two)), gguf_entry("u64", 10, "abcdefgh"),
                  gguf_entry("i64", 11, "abcdefgh"), gguf_entry("f64", 12, "abcdefgh"),
                  gguf_entry(
                      "arrays", 9,
                      gguf_array(9, 2, gguf_array(2, 1, "ab") + gguf_array(7, 2, {"\0\1", 2}))),
                  gguf_entry("none", 9, gguf_array(4, 0, ""))}}),
       ""},
      {"legal_several",
       gguf({.entries = {gguf_entry("general.alignment", 4, little_endian(8, 4))},
             .tensors = {gguf_tensor("b", {3}, 0, 24), gguf_tensor("a.weight", {32, 1}, 39, 0),
                         gguf_tensor("c", {2, 2}, 30, 40)},
             .data_bytes = 48,
             .alignment = 8}),
       ""},
  };
}

inline std::vector<MalformedCase> malformed_ggufs() {
  const std::uint64_t huge = std::uint64_t{1} << 63;
  const std::string all_ones(8, '\xFF');
  const auto two = [](std::uint64_t first, std::uint64_t second, std::size_t data_bytes) {
    return gguf({.tensors = {gguf_tensor("a", {8}, 0, first), gguf_tensor("b", {8}, 0, second)},
                 .data_bytes = data_bytes});
  };
  std::string nested = gguf_array(4, 0, "");
  for (int i = 0; i < 4; ++i) nested = gguf_array(9, 1, nested);
  const std::string head = gguf_counts(1, 0), entry_head = gguf_counts(0, 1);
  const std::string pad(40, '\0');
  return {
      // The frame
      {"empty", "", "begins with ''"},
      {"short_magic", "GGU", "begins with 'GGU'"},
      {"other_magic", "GGML" + std::string(40, '\0'), "begins with 'GGML'"},
      {"magic_only", "GGUF", "has 4 bytes"},
      {"frame_cut", gguf({}).substr(0, 23), "has 23 bytes"},
      {"many_tensors", gguf_counts(std::uint64_t{1} << 60, 0, 100),
       "tensor records is 1152921504606846976"},
      {"all_tensors", gguf_counts(~std::uint64_t{0}, 0, 100),
       "tensor records is 18446744073709551615"},
      {"one_tensor_too_many", gguf_counts(5, 0, 124), "tensor records is 5"},
      {"many_entries", gguf_counts(0, std::uint64_t{1} << 60, 100),
       "metadata entry records is 1152921504606846976"},
      {"one_entry_too_many", gguf_counts(0, 8, 111), "metadata entry records is 8"},
      {"no_room_for_tensor", gguf({.entries = {gguf_entry("k", 0, "a"), "", ""}}),
       "metadata entry records is 3"},
      {"entries_eat_tensors",
       gguf_counts(1, 1) + gguf_entry("k", 8, gguf_text(std::string(30, 'x'))),
       "tensor records is 1, 0 bytes follow"},
      // Keys and values
      {"empty_key", gguf_one_entry("", 4, "abcd"), "the name of metadata entry 0 is empty"},
      {"key_not_utf8", gguf_one_entry("a\xFF", 4, "abcd"), "'a\\xff' is not valid UTF-8 at byte 1"},
      {"key_too_long", gguf_one_entry(std::string(65'536, 'k'), 4, "abcd"),
       "entry 0 has 65536 bytes, at most 65535"},
      {"key_beyond_file", entry_head + little_endian(100, 8) + pad,
       "entry 0 has 100 bytes, only 40 follow"},
      {"key_all_ones", entry_head + all_ones + pad, "entry 0 has 18446744073709551615 bytes"},
      {"key_twice", gguf({.entries = {gguf_entry("k", 4, "abcd"), gguf_entry("k", 0, "a")}}),
       "metadata key 'k' is there twice"},
      {"second_entry_cut", gguf_counts(0, 2) + gguf_entry("first", 8, gguf_text("xxxx")),
       "ends inside the name of metadata entry 1"},
      {"type_cut", entry_head + gguf_text("type_cut") + "ab", "'type_cut': ends inside its type"},
      {"type_13", gguf_one_entry("k13", 13, "abcd"), "'k13': has type 13"},
      {"type_all_ones", gguf_one_entry("kff", -1, "abcd"), "'kff': has type 4294967295"},
      {"value_cut", gguf_one_entry("value_cut", 10, "abcdefg"), "'value_cut': ends inside a value"},
      {"bool_2", gguf_one_entry("flag", 7, "\x02"), "'flag': a bool is 2"},
      {"bool_in_array", gguf_one_entry("flags", 9, gguf_array(7, 3, {"\0\1\7", 3})),
       "'flags': a bool is 7"},
      {"string_length_cut", gguf_one_entry("slc", 8, "abcd"),
       "'slc': ends inside the length of a string"},
      {"string_beyond_file", gguf_one_entry("sbf", 8, little_endian(9, 8) + "abcdefgh"),
       "'sbf': a string of 9 bytes does not fit in the 8"},
      {"string_all_ones", gguf_one_entry("sao", 8, all_ones + "abcdefgh"),
       "'sao': a string of 18446744073709551615 bytes"},
      {"array_head_cut", gguf_one_entry("ahc", 9, little_endian(4, 4) + "abcdefg"),
       "'ahc': ends inside the head of an array"},
      {"array_type_13", gguf_one_entry("at13", 9, gguf_array(13, 0, "")),
       "'at13': array elements have type 13"},
      {"array_beyond_file", gguf_one_entry("abf", 9, gguf_array(4, 3, "abcdefgh")),
       "'abf': an array of 3 u32 does not fit in the 8 bytes"},
      {"array_overflow", gguf_one_entry("ao", 9, gguf_array(10, huge / 4, "abcdefgh")),
       "'ao': an array of 2305843009213693952 u64"},
      {"array_of_many_strings", gguf_one_entry("aoms", 9, gguf_array(8, huge, "abcdefgh")),
       "'aoms': an array of 9223372036854775808 string"},
      {"array_of_many_arrays", gguf_one_entry("aoma", 9, gguf_array(9, huge, pad)),
       "'aoma': an array of 9223372036854775808 array"},
      {"string_in_array_cut",
       gguf_one_entry("sia", 9, gguf_array(8, 2, gguf_text("12345678") + "abcd")),
       "'sia': ends inside the length"},
      {"nested_too_deep", gguf_one_entry("deep", 9, nested), "'deep': arrays are nested more"},
      {"alignment_string", gguf_one_entry("general.alignment", 8, gguf_text("32")),
       "is of type string, needs to be u32"},
      {"alignment_u64", gguf_one_entry("general.alignment", 10, little_endian(32, 8)),
       "is of type u64, needs to be u32"},
      {"alignment_0", gguf_one_entry("general.alignment", 4, little_endian(0, 4)),
       "'general.alignment': is 0, needs"},
      {"alignment_24", gguf_one_entry("general.alignment", 4, little_endian(24, 4)),
       "'general.alignment': is 24, needs"},
      // Tensors
      {"empty_name", gguf({.tensors = {gguf_tensor("", {8}, 0, 0)}, .data_bytes = 32}),
       "the name of tensor 0 is empty"},
      {"name_not_utf8", gguf({.tensors = {gguf_tensor("\xC0\x80", {8}, 0, 0)}, .data_bytes = 32}),
       "tensor 0 '\\xc0\\x80' is not valid UTF-8"},
      {"name_beyond_file", head + little_endian(1000, 8) + pad,
       "tensor 0 has 1000 bytes, only 40 follow"},
      {"name_too_long",
       gguf({.tensors = {gguf_tensor(std::string(70'000, 'n'), {8}, 0, 0)}, .data_bytes = 32}),
       "tensor 0 has 70000 bytes, at most"},
      {"name_twice",
       gguf({.tensors = {gguf_tensor("w", {8}, 0, 0), gguf_tensor("w", {8}, 0, 32)},
             .data_bytes = 64}),
       "tensor 'w' is there twice"},
      {"rank_cut", head + gguf_text("a tensor of rank cut") + "ab",
       "ends inside its number of dimensions"},
      {"rank_5", gguf_one_tensor({1, 1, 1, 1, 1}, 0, 32), "has 5 dimensions"},
      {"rank_all_ones", head + gguf_text("a") + std::string(4, '\xFF') + pad,
       "has 4294967295 dimensions"},
      {"dims_cut", head + gguf_text("dims") + little_endian(4, 4) + std::string(20, '\1'),
       "'dims': ends inside its dimensions"},
      {"type_of_tensor_cut", head + gguf_text("a tensor cut") + little_endian(0, 4) + "ab",
       "ends inside its tensor type"},
      {"offset_cut", gguf_one_tensor({8}, 0, 0).substr(0, 24 + 9 + 4 + 8 + 4 + 7),
       "ends inside its offset"},
      {"dim_2_63", gguf_one_tensor({huge}, 0, 32), "dimension 0 is 9223372036854775808"},
      {"dim_all_ones", gguf_one_tensor({1, ~std::uint64_t{0}}, 0, 32),
       "dimension 1 is 18446744073709551615"},
      {"elements_overflow", gguf_one_tensor({huge / 2, 4}, 0, 32),
       "shape [4, 4611686018427387904] has more elements"},
      {"zero_times_overflow", gguf_one_tensor({huge / 2, 0, 8}, 0, 0),
       "shape [8, 0, 4611686018427387904] has more elements"},
      {"bytes_overflow", gguf_one_tensor({huge / 2}, 0, 32),
       "shape [4611686018427387904] of F32 has more bytes"},
      {"k_31", gguf_one_tensor({31, 2}, 39, 34), "rows have 31 elements, MXFP4 needs"},
      {"k_48", gguf_one_tensor({48, 2}, 39, 64), "rows have 48 elements, MXFP4 needs"},
      {"k_scalar", gguf_one_tensor({}, 39, 17), "rows have 1 element, MXFP4 needs"},
      {"q4_k_128", gguf_one_tensor({128}, 12, 72), "rows have 128 elements, Q4_K needs"},
      {"offset_1", gguf_one_tensor({8}, 0, 64, 1), "offset is 1, needs to be a multiple of 32"},
      {"offset_beyond_file", gguf_one_tensor({8}, 0, 32, 64), "32 bytes from offset 64"},
      {"offset_overflow", gguf_one_tensor({8}, 0, 32, ~std::uint64_t{31}),
       "from offset 18446744073709551584"},
      {"data_cut", gguf_one_tensor({8, 100}, 0, 3199), "the data has only 3199"},
      {"no_data", gguf_one_tensor({8, 7}, 0, 0), "has 224 bytes from offset 0"},
      {"claims_a_lot", gguf_one_tensor({std::uint64_t{1} << 50}, 39, 17),
       "has 598134325510144 bytes"},
      {"overlap", two(0, 0, 64), "'b' begins at data byte 0, inside 'a', which reaches to 32"},
      {"hole", two(0, 64, 96), "data bytes 32 to 64, between 'a' and tensor 'b'"},
      {"hole_first", two(32, 64, 96), "data bytes 0 to 32, between the header and tensor 'a'"},
      {"trailing", gguf_one_tensor({8}, 0, 33), "1 byte of data after 'a'"},
      {"trailing_without_tensor", gguf({.data_bytes = 40}), "40 bytes of data after the header"},
  };
}

}  // namespace mxgemm::io_corpus
