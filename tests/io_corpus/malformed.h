// Files that must be refused, each for one reason. `expected` is a part of its message that no
// other case's message has; the test checks both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"

namespace mxgemm::io_corpus {

struct MalformedCase {
  std::string name;
  std::string bytes;
  std::string expected;
};

inline std::vector<MalformedCase> malformed_safetensors() {
  const std::string big_string(5u << 20, 'x');
  const std::string many_dims = [] {
    std::string out = "[1";
    for (int i = 0; i < 64; ++i) out += ",1";
    return out + "]";
  }();
  std::string million_objects = "{";
  for (int i = 0; i < 1'000'000; ++i) million_objects += i == 0 ? "\"a\":{}" : ",\"a\":{}";
  million_objects += "}";
  const std::string ok = tensor("a", "U8", "[4]", "[0,4]");
  return {
      // The frame
      {"empty", "", "has 0 bytes"},
      {"seven_bytes", std::string(7, '\0'), "has 7 bytes"},
      {"length_over_limit", little_endian(100'000'001, 8) + "{}", "100000001 is above the limit"},
      {"length_all_ones", std::string(8, '\xFF') + "{}", "18446744073709551615 is above"},
      {"length_over_file", little_endian(100, 8) + "{}",
       "length 100 reaches beyond the file of 10"},
      {"length_one_over", little_endian(3, 8) + "{}", "length 3 reaches beyond the file of 10"},
      {"length_zero", std::string(8, '\0') + "{}", "begins with nothing"},
      {"begins_with_array", safetensors("[]"), "begins with '['"},
      {"begins_with_space", safetensors(" {}"), "begins with ' '"},
      {"begins_with_bom", safetensors("\xEF\xBB\xBF{}"), "begins with '\\xef'"},
      // JSON
      {"not_closed", safetensors("{\"a\":{"), "2 brackets not closed"},
      {"string_not_closed", safetensors("{\"abc"), "inside the string that begins at byte 1"},
      {"missing_colon", safetensors("{\"a\" {}}"), "while parsing object separator"},
      {"missing_comma", safetensors("{\"__metadata__\":{\"a\":\"b\" \"c\":\"d\"}}"),
       "unexpected string literal; expected '}'"},
      {"trailing_comma", safetensors("{" + ok + ",}", 4), "object key - unexpected '}'"},
      {"wrong_brackets", safetensors("{\"a\":{]}}"), "trailing bytes after the JSON: '}'"},
      {"single_quotes", safetensors("{'a':{}}"), "last read: '{''"},
      {"comment", safetensors("{/* */}"), "last read: '{/'"},
      {"bad_escape", safetensors("{\"\\q\":{}}"), "forbidden character after backslash"},
      {"lone_surrogate", safetensors("{\"\\ud800\":{}}"), "surrogate"},
      {"not_a_literal", safetensors("{\"a\":{\"dtype\":nul}}"), ":nul}'"},
      {"leading_zero", raw_tensor(R"({"dtype":"U8","shape":[04],"data_offsets":[0,4]})"),
       "unexpected number literal"},
      {"number_overflow", raw_tensor(R"({"dtype":"U8","shape":[1e999],"data_offsets":[0,4]})"),
       "number overflow"},
      {"bad_utf8", safetensors("{\"\xC3(\":{}}"), "not valid UTF-8 at byte 2"},
      {"overlong_utf8", safetensors("{\"ab\xC0\xAF\":{}}"), "not valid UTF-8 at byte 4"},
      {"surrogate_utf8", safetensors("{\"a\xED\xA0\x80\":{}}"), "not valid UTF-8 at byte 3"},
      {"newline_in_string", safetensors("{\"a\nb\":{}}"), "'\\x0a' inside the string at byte 1"},
      {"nul_after_json", safetensors(std::string("{}\0{", 4)),
       "trailing bytes after the JSON: '\\x00"},
      {"nul_in_json", safetensors(std::string("{\0}", 3)), "control character '\\x00' at byte 1"},
      {"second_value", safetensors("{}{}"), "trailing bytes after the JSON: '{}'"},
      {"nested_too_deep", raw_tensor(R"({"shape":[[[[1]]]]})"),
       "nested more than 3 deep at byte 15"},
      {"long_string", safetensors("{\"" + big_string + "\":{}}"), "a string of more than 4194304"},
      {"long_gap", safetensors("{" + std::string(70'000, ' ') + "}"), "without a string or number"},
      {"long_number", safetensors("{\"a\":" + std::string(300, '1') + "}"), "number of 300 char"},
      {"too_many_objects", safetensors(million_objects), "bytes of memory"},
      // The members
      {"tensor_is_number", safetensors("{\"a\":1}"), "needs to be an object, is 1"},
      {"tensor_is_string", safetensors("{\"a\":\"b\"}"), "needs to be an object, is a string"},
      {"tensor_is_null", safetensors("{\"a\":null}"), "needs to be an object, is null"},
      {"tensor_is_array", safetensors("{\"a\":[]}"),
       "tensor 'a': needs to be an object, is an array"},
      {"empty_name", safetensors("{" + tensor("", "U8", "[4]", "[0,4]") + "}", 4),
       "a tensor with an empty name"},
      {"duplicate_tensor", safetensors("{" + ok + "," + ok + "}", 4), "has tensor 'a' twice"},
      {"duplicate_by_escape",
       safetensors("{" + tensor("b", "U8", "[4]", "[0,4]") + "," +
                       tensor("\\u0062", "U8", "[4]", "[4,8]") + "}",
                   8),
       "has tensor 'b' twice"},
      {"duplicate_metadata", safetensors(R"({"__metadata__":{},"__metadata__":{}})"),
       "has __metadata__ twice"},
      {"duplicate_metadata_key", safetensors(R"({"__metadata__":{"k":"1","k":"2"}})"),
       "metadata key 'k' twice"},
      {"metadata_is_array", safetensors(R"({"__metadata__":[]})"),
       "at __metadata__: needs to be an object, is an array"},
      {"metadata_value_number", safetensors(R"({"__metadata__":{"k":1}})"),
       "the value of 'k' needs to be a string, is 1"},
      {"metadata_value_object", safetensors(R"({"__metadata__":{"k":{}}})"),
       "the value of 'k' needs to be a string, is an object"},
      // A tensor's fields
      {"no_dtype", raw_tensor(R"({"shape":[4],"data_offsets":[0,4]})"), "has no field 'dtype'"},
      {"no_shape", raw_tensor(R"({"dtype":"U8","data_offsets":[0,4]})"), "has no field 'shape'"},
      {"no_offsets", raw_tensor(R"({"dtype":"U8","shape":[4]})"), "has no field 'data_offsets'"},
      {"unknown_field", raw_tensor(R"({"dtype":"U8","strides":[1]})"), "unknown field 'strides'"},
      {"duplicate_dtype", raw_tensor(R"({"dtype":"U8","dtype":"U8"})"), "field 'dtype' twice"},
      {"duplicate_shape", raw_tensor(R"({"shape":[4],"shape":[4]})"), "field 'shape' twice"},
      {"dtype_number", raw_tensor(R"({"dtype":8})"), "dtype needs to be a string, is 8"},
      {"dtype_empty", raw_tensor(R"({"dtype":""})"), "dtype is ''"},
      {"dtype_long", raw_tensor("{\"dtype\":\"" + std::string(33, 'D') + "\"}"), "dtype is 'DDDD"},
      {"shape_string", raw_tensor(R"({"shape":"4"})"), "shape needs to be an array, is a string"},
      {"shape_object", raw_tensor(R"({"shape":{}})"), "shape needs to be an array, is an object"},
      {"dim_negative", raw_tensor(R"({"shape":[4,-1]})"),
       "dimension 1 of shape needs to be an "
       "integer of 0 to 2^63 - 1, is -1"},
      {"dim_fraction", raw_tensor(R"({"shape":[1.5]})"), "2^63 - 1, is 1.5"},
      {"dim_exponent", raw_tensor(R"({"shape":[1e2]})"), "2^63 - 1, is 1e2"},
      {"dim_64_bit", raw_tensor(R"({"shape":[9223372036854775808]})"),
       "is 9223372036854775808, which is too large"},
      {"dim_huge", raw_tensor(R"({"shape":[99999999999999999999]})"),
       "is 99999999999999999999, which is too large"},
      {"dim_string", raw_tensor(R"({"shape":["4"]})"), "2^63 - 1, is a string"},
      {"dim_array", raw_tensor(R"({"shape":[0,[]]})", 0), "nested more than 3 deep at byte 17"},
      {"dim_true", raw_tensor(R"({"shape":[true]})"), "2^63 - 1, is true"},
      {"rank_65", one_tensor("U8", many_dims, "[0,1]", 1), "more than 64 dimensions"},
      {"offsets_number", raw_tensor(R"({"data_offsets":4})"), "data_offsets needs to be an array"},
      {"offsets_one", raw_tensor(R"({"data_offsets":[0]})"), "data_offsets has 1 value, needs 2"},
      {"offsets_none", raw_tensor(R"({"data_offsets":[]})"), "data_offsets has 0 values"},
      {"offsets_three", raw_tensor(R"({"data_offsets":[0,4,8]})"), "has more than 2 values"},
      {"offset_negative", raw_tensor(R"({"data_offsets":[-4,4]})"),
       "value 0 needs to be an integer"},
      {"offset_huge", raw_tensor(R"({"data_offsets":[0,18446744073709551616]})"),
       "value 1 needs to be an integer"},
      // Shape, dtype and offsets together
      {"shape_overflow", one_tensor("U8", "[4294967296,4294967296]", "[0,4]", 4),
       "[4294967296, 4294967296] has more elements than 63 bits"},
      {"shape_overflow_with_zero", one_tensor("U8", "[8589934592,8589934592,0]", "[0,0]", 0),
       "[8589934592, 8589934592, 0] has more elements"},
      {"shape_overflow_unknown_dtype", one_tensor("X1", "[4,9223372036854775807]", "[0,4]", 4),
       "[4, 9223372036854775807] has more elements"},
      {"bytes_overflow", one_tensor("F64", "[4611686018427387904]", "[0,8]", 8),
       "of F64 has more bytes than 63 bits"},
      {"bits_overflow", one_tensor("F4", "[9223372036854775806]", "[0,4]", 4),
       "of F4 has more bytes than 63 bits"},
      {"size_small", one_tensor("F32", "[2]", "[0,4]", 4),
       "[2] of F32 needs 8 bytes, data_offsets [0, 4] are 4"},
      {"size_large", one_tensor("BF16", "[2]", "[0,8]", 8), "[2] of BF16 needs 4 bytes"},
      {"scalar_size", one_tensor("F32", "[]", "[0,8]", 8), "[] of F32 needs 4 bytes"},
      {"f4_counted_as_bytes", one_tensor("F4", "[4]", "[0,4]", 4), "[4] of F4 needs 2 bytes"},
      {"f4_odd", one_tensor("F4", "[3,1]", "[0,2]", 2),
       "[3, 1] of F4 (4 bits an element) does not"},
      {"f6_partial", one_tensor("F6_E2M3", "[5]", "[0,4]", 4), "F6_E2M3 (6 bits an element)"},
      {"zero_elements_with_data", one_tensor("F32", "[0,3]", "[0,4]", 4),
       "[0, 3] of F32 needs 0 bytes"},
      {"begin_after_end", one_tensor("U8", "[4]", "[4,0]", 4), "[4, 0] end before they begin"},
      {"beyond_file", one_tensor("U8", "[4]", "[0,4]", 3),
       "end beyond the file, which has 3 bytes of data"},
      {"offsets_near_2_64",
       one_tensor("U8", "[4]", "[18446744073709551611,18446744073709551615]", 4),
       "[18446744073709551611, 18446744073709551615] end beyond"},
      {"unknown_dtype_beyond", one_tensor("X2", "[4]", "[0,9]", 4), "[0, 9] end beyond the file"},
      // Tensors against each other
      {"overlap", safetensors("{" + ok + "," + tensor("b", "U8", "[4]", "[2,6]") + "}", 6),
       "tensors 'a' and 'b' overlap in data bytes 2 to 4"},
      {"same_bytes", safetensors("{" + ok + "," + tensor("c", "U8", "[4]", "[0,4]") + "}", 4),
       "tensors 'a' and 'c' overlap in data bytes 0 to 4"},
      {"empty_inside", safetensors("{" + ok + "," + tensor("e", "U8", "[0]", "[2,2]") + "}", 4),
       "'a' and 'e' overlap"},
      {"hole", safetensors("{" + ok + "," + tensor("b", "U8", "[2]", "[6,8]") + "}", 8),
       "data bytes 4 to 6, between 'a' and tensor 'b', are a hole"},
      {"hole_at_start", one_tensor("U8", "[4]", "[1,5]", 5),
       "data bytes 0 to 1, between the header and tensor 'a', are a hole"},
      {"data_left", one_tensor("U8", "[4]", "[0,4]", 9), "5 bytes of data after 'a'"},
      {"data_without_tensors", safetensors("{}", 3), "3 bytes of data after the header"},
      {"unknown_dtype_hole",
       safetensors(
           "{" + tensor("x", "X3", "[1]", "[0,3]") + "," + tensor("y", "X3", "[1]", "[4,5]") + "}",
           5),
       "between 'x' and tensor 'y'"},
  };
}

inline std::vector<MalformedCase> malformed_indices() {
  const auto map = [](std::string_view members) {
    return "{\"metadata\":{\"total_size\":4},\"weight_map\":{" + std::string(members) + "}}";
  };
  std::string many_members = "\"t\":\"s\"";
  for (int i = 0; i < 1'100'000; ++i) many_members += ",\"t\":\"s\"";
  std::string many_shards;
  for (int i = 0; i < 5000; ++i) {
    many_shards +=
        (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"s" + std::to_string(i) + "\"";
  }
  return {
      {"empty", "", "begins with nothing"},
      {"array", "[]", "begins with '['"},
      {"cut_off", map("\"a\":\"s\"").substr(0, 50), "2 brackets not closed"},
      {"trailing", map("") + "x", "trailing bytes after the JSON: 'x'"},
      {"syntax", map("\"a\" \"s\""), "not valid JSON"},
      {"too_deep", "{\"metadata\":" + std::string(20, '['), "nested more than 16 deep"},
      {"bad_utf8", map("\"a\":\"\xFF\""), "not valid UTF-8"},
      {"no_weight_map", "{\"metadata\":{}}", "has no weight_map"},
      {"weight_map_array", "{\"weight_map\":[]}", "needs to be an object, is an array"},
      {"weight_map_string", "{\"weight_map\":\"a\"}", "needs to be an object, is a string"},
      {"weight_map_null", "{\"weight_map\":null}", "needs to be an object, is null"},
      {"weight_map_twice", "{\"weight_map\":{},\"weight_map\":{}}", "has weight_map twice"},
      {"shard_number", map("\"a\":1"), "puts tensor 'a' into a number"},
      {"shard_object", map("\"a\":{}"), "puts tensor 'a' into an object"},
      {"shard_array", map("\"a\":[\"s\"]"), "puts tensor 'a' into an array"},
      {"shard_absolute", map("\"a\":\"/etc/passwd\""), "into '/etc/passwd', which is not a plain"},
      {"shard_above", map("\"a\":\"../b.safetensors\""), "into '../b.safetensors', which"},
      {"shard_dots", map("\"a\":\"..\""), "into '..', which"},
      {"shard_subfolder", map("\"a\":\"x/b.safetensors\""), "into 'x/b.safetensors', which"},
      {"shard_backslash", map("\"a\":\"x\\\\b\""), "into 'x\\b', which"},
      {"shard_nul", map("\"a\":\"x\\u0000b\""), "into 'x\\x00b', which"},
      {"shard_empty", map("\"a\":\"\""), "into '', which"},
      {"shard_long_name", map("\"a\":\"" + std::string(300, 'n') + "\""), "into 'nnnnn"},
      {"empty_name", map("\"\":\"s\""), "a tensor with an empty name in weight_map"},
      {"duplicate_tensor", map("\"a\":\"s\",\"a\":\"s\""), "has tensor 'a' twice"},
      {"duplicate_in_two_shards", map("\"b\":\"s\",\"b\":\"t\""), "has tensor 'b' twice"},
      {"many_members", map(many_members), "has 1100004 members"},
      {"many_shards", map(many_shards), "names more than 4096 files"},
  };
}

inline std::vector<MalformedCase> malformed_npys() {
  const std::string ok = npy(npy_dict("'<f4'", "False", "(2,)"), 8);
  std::string bad_magic = ok;
  bad_magic[1] = 'M';
  std::string version_4 = ok, version_1_1 = ok;
  version_4[6] = 4;
  version_1_1[7] = 1;
  std::string many_dims = "(";
  for (int i = 0; i < 65; ++i) many_dims += "1,";
  const auto with_descr = [](std::string_view descr) {
    return npy(npy_dict(descr, "False", "(2,)"), 8);
  };
  const auto with_shape = [](std::string_view shape, std::size_t bytes = 8) {
    return npy(npy_dict("'<f4'", "False", shape), bytes);
  };
  return {
      {"empty", "", "has 0 bytes"},
      {"nine_bytes", ok.substr(0, 9), "has 9 bytes"},
      {"bad_magic", bad_magic, "another magic"},
      {"version_4", version_4, "version 4.0"},
      {"version_1_1", version_1_1, "version 1.1"},
      {"version_2_cut", npy("", 0, 2).substr(0, 11), "inside the header's length"},
      {"header_over_limit", npy(std::string(70'000, ' '), 0, 2), "70000 is above the limit"},
      {"header_over_file", ok.substr(0, 40), "reaches beyond the file of 40 bytes"},
      {"header_bad_utf8", npy("{'\xFF': 1}", 0, 3), "not valid UTF-8 at byte 2"},
      {"not_a_dict", npy("['<f4']", 8), "is not a dict: '['<f4']' at byte 0"},
      {"empty_header", npy("", 8), "is not a dict: its end"},
      {"empty_dict", npy("{}", 8), "has no key 'descr'"},
      {"no_order", npy("{'descr': '<f4', 'shape': (2,)}", 8), "has no key 'fortran_order'"},
      {"no_shape", npy("{'descr': '<f4', 'fortran_order': False}", 8), "has no key 'shape'"},
      {"unknown_key", npy("{'order': 'C'}", 8), "unknown key 'order'"},
      {"duplicate_key", npy("{'descr': '<f4', 'descr': '<f4'}", 8), "has key 'descr' twice"},
      {"key_not_string", npy("{1: 2}", 8), "needs a string at '1: 2}'"},
      {"string_open", npy("{'descr: 1}", 8), "a string without end"},
      {"no_colon", npy("{'descr' '<f4'}", 8), "needs ':' at"},
      {"no_comma", npy("{'descr': '<f4' 'shape': (2,)}", 8), "needs ',' or '}' at"},
      {"not_closed", npy("{'descr': '<f4',", 8), "needs a string at its end"},
      {"trailing_text", npy(npy_dict("'<f4'", "False", "(2,)") + "; x", 8), "trailing text"},
      {"big_endian", with_descr("'>f4'"), "'>f4', which is big-endian, needs '<f4'"},
      {"object", with_descr("'|O'"), "Python objects"},
      {"structured", with_descr("[('x', '<f4')]"), "a structured descr"},
      {"bfloat16", with_descr("'<V2'"), "save bfloat16 as its bits"},
      {"bool", with_descr("'|b1'"), "says descr '|b1'"},
      {"complex", with_descr("'<c8'"), "says descr '<c8'"},
      {"text", with_descr("'<U4'"), "says descr '<U4'"},
      {"descr_empty", with_descr("''"), "says descr ''"},
      {"descr_no_order", with_descr("'f4'"), "says descr 'f4'"},
      {"descr_number", with_descr("4"), "needs a string at '4, 'fortran"},
      {"fortran", npy(npy_dict("'<f4'", "True", "(2,)"), 8), "fortran_order True"},
      {"order_number", npy(npy_dict("'<f4'", "0", "(2,)"), 8), "needs False for fortran_order"},
      {"shape_list", with_shape("[2]"), "needs a tuple for shape"},
      {"shape_number", with_shape("(2)"), "needs ',' in a shape of one dimension"},
      {"shape_no_comma", with_shape("(1 2)"), "in shape at '2)"},
      {"dim_negative", with_shape("(-2,)"), "negative dimension"},
      {"dim_fraction", with_shape("(2.0,)"), "in shape at '.0,)"},
      {"dim_name", with_shape("(n,)"), "needs a dimension at 'n,)"},
      {"dim_too_large", with_shape("(9223372036854775808,)"), "dimension beyond 63 bits"},
      {"rank_65", with_shape(many_dims + ")"), "more than 64 dimensions"},
      {"shape_overflow", with_shape("(4294967296, 4294967296)"),
       "shape [4294967296, 4294967296] of <f4 has more"},
      {"shape_overflow_zero", with_shape("(8589934592, 8589934592, 0)", 0),
       "[8589934592, 8589934592, 0] of <f4 has more"},
      {"size_small", with_shape("(2,)", 7), "[2] of <f4 needs 8 bytes of data, the file has 7"},
      {"no_data", with_shape("(1000000, 1000000)", 0), "needs 4000000000000 bytes"},
      {"trailing_data", with_shape("(2,)", 9), "1 trailing byte after"},
      {"trailing_empty", with_shape("(0,)", 4), "4 trailing bytes after the data of shape [0]"},
  };
}

}  // namespace mxgemm::io_corpus
