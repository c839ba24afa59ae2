// Runs a table of malformed files: each is refused as bad_data, with its own sentence.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "malformed.h"
#include "mxgemm/status.h"

namespace mxgemm::io_corpus {

/// `parse` takes the bytes and returns a Status.
template <class Parse>
void check_malformed(const std::vector<MalformedCase>& cases, std::size_t at_least, Parse parse) {
  EXPECT_GE(cases.size(), at_least);
  std::vector<std::string> messages;
  for (const MalformedCase& malformed : cases) {
    const Status status = parse(malformed.bytes);
    messages.emplace_back(status.message());
    EXPECT_EQ(status.code(), StatusCode::bad_data) << malformed.name;
    EXPECT_NE(messages.back().find(malformed.expected), std::string::npos)
        << malformed.name << ": " << messages.back();
    EXPECT_TRUE(messages.back().starts_with("some.file: ")) << messages.back();
    EXPECT_LT(messages.back().size(), static_cast<std::size_t>(Status::kMaxMessage))
        << malformed.name << " is cut off";
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (std::size_t j = 0; j < cases.size(); ++j) {
      if (i == j) continue;
      EXPECT_EQ(messages[j].find(cases[i].expected), std::string::npos)
          << "what tells " << cases[i].name << " is also in " << cases[j].name << ": "
          << messages[j];
    }
  }
}

}  // namespace mxgemm::io_corpus
