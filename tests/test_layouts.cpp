// Layouts: closed forms are bijections, equal their published derivations, and conversions are
// lossless with written pads.
#include <algorithm>
#include <map>
#include <set>

#include "layout/layouts.h"
#include "testing.h"

namespace mxgemm {
namespace {

using namespace testing;

constexpr std::int64_t kNs[] = {1, 15, 16, 17, 48, 272, 300};
constexpr std::int64_t kKs[] = {1,   2,   31,  32,  33,  45,  64,  96,
                                100, 128, 160, 192, 256, 320, 544, 784};

// aiter's shuffle_weight: view(N/16, 16, KB/32, 2, 16).permute(0, 2, 3, 1, 4).
TEST(Layouts, AiterCodesEqualTheViewAndPermuteForm) {
  for (const std::int64_t n : {16, 48, 272})
    for (const std::int64_t kb : {32, 64, 256}) {
      std::int64_t offset = 0;
      for (std::int64_t a = 0; a < n / 16; ++a)
        for (std::int64_t c = 0; c < kb / 32; ++c)
          for (std::int64_t d = 0; d < 2; ++d)
            for (std::int64_t b = 0; b < 16; ++b)
              for (std::int64_t e = 0; e < 16; ++e)
                ASSERT_EQ(layout::aiter_code_offset(a * 16 + b, c * 32 + d * 16 + e, kb), offset++);
    }
}

// aiter's e8m0_shuffle: view(R/32, 2, 16, C/8, 2, 4).permute(0, 3, 5, 2, 4, 1).
TEST(Layouts, AiterScalesEqualTheViewAndPermuteForm) {
  for (const std::int64_t rows : {256, 512})
    for (const std::int64_t cols : {8, 24}) {
      std::int64_t offset = 0;
      for (std::int64_t a = 0; a < rows / 32; ++a)
        for (std::int64_t d = 0; d < cols / 8; ++d)
          for (std::int64_t f = 0; f < 4; ++f)
            for (std::int64_t c = 0; c < 16; ++c)
              for (std::int64_t e = 0; e < 2; ++e)
                for (std::int64_t b = 0; b < 2; ++b)
                  ASSERT_EQ(
                      layout::aiter_scale_offset(a * 32 + b * 16 + c, d * 8 + e * 4 + f, cols),
                      offset++);
    }
}

TEST(Layouts, PanelOffsetsAreABijectionOntoTheStoredBytes) {
  for (const std::int64_t n : {16, 48})
    for (const std::int64_t k : {128, 384}) {
      std::set<std::int64_t> seen;
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t j = 0; j < k / 2; ++j) seen.insert(layout::panel_code_offset(row, j, k));
        for (std::int64_t b = 0; b < k / 32; ++b)
          seen.insert(layout::panel_scale_offset(row, b, k));
        for (std::int64_t i = 0; i < layout::kPanelHeaderBytes; ++i)
          seen.insert(layout::panel_offset(row, k) + i);
      }
      const auto bytes = layout_bytes(Layout::cpu_panel16, n, k);
      ASSERT_OK(bytes);
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), bytes->codes_bytes);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), bytes->codes_bytes - 1);
    }
}

// A matrix in which every code and scale position is told apart from its neighbours.
HostMxfp4 telling_matrix(std::int64_t n, std::int64_t k) {
  HostMxfp4 m(n, k);
  Rng rng(static_cast<unsigned>(n * 1000 + k));
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < k; ++c) m.set_code(r, c, rng() & 15u);
    for (std::int64_t b = 0; b < scales_per_row(k); ++b)
      m.scale(r, b) = static_cast<std::uint8_t>((r * 37 + b * 101) % 256);
  }
  return m;
}

Weights make(const HostMxfp4& m, std::int64_t experts = 1) {
  Weights::Options options;
  options.num_experts = experts;
  options.scale_rule = "even";
  return *Weights::from_row_major(m.view(), options);
}

HostMxfp4 read_back(const Weights& w) {
  HostMxfp4 out(w.n() * w.num_experts(), w.k());
  EXPECT_OK(w.copy_row_major(out.buffer()));
  return out;
}

TEST(Layouts, EveryConversionIsLossless) {
  for (const std::int64_t n : kNs)
    for (const std::int64_t k : kKs) {
      const HostMxfp4 m = telling_matrix(n, k);
      for (const Layout first :
           {Layout::row_major, Layout::aiter_16x16, Layout::gguf_mxfp4, Layout::cpu_panel16})
        for (const Layout second :
             {Layout::row_major, Layout::aiter_16x16, Layout::gguf_mxfp4, Layout::cpu_panel16}) {
          if (k % 32 != 0 && (first == Layout::gguf_mxfp4 || second == Layout::gguf_mxfp4))
            continue;
          const auto a = make(m).to_layout(first);
          ASSERT_OK(a);
          const auto b = a->to_layout(second);
          ASSERT_OK(b);
          EXPECT_EQ(b->layout(), second);
          const HostMxfp4 got = read_back(*b);
          ASSERT_EQ(got.codes, m.codes) << n << " " << k;
          ASSERT_EQ(got.scales, m.scales) << n << " " << k;
        }
    }
}

// Element by element against the index maps, and every byte that is no element is a written pad.
TEST(Layouts, PackedBytesAreElementsOrWrittenPads) {
  for (const std::int64_t n : kNs)
    for (const std::int64_t k : kKs) {
      const HostMxfp4 m = telling_matrix(n, k);
      const std::int64_t row_bytes = layout::padded_k(Layout::aiter_16x16, k) / 2;
      const std::int64_t cols = layout::aiter_scale_cols(k);
      const auto aiter = make(m).to_layout(Layout::aiter_16x16);
      const auto panel = make(m).to_layout(Layout::cpu_panel16);
      ASSERT_OK(aiter);
      ASSERT_OK(panel);
      std::vector<std::uint8_t> want_codes(aiter->codes().size(), 0);
      std::vector<std::uint8_t> want_scales(aiter->scales().size(), 127);
      std::vector<std::uint8_t> want_panel(panel->codes().size(), 0);
      for (std::int64_t r = 0; r < layout::round_up(n, 16); ++r)  // scale slots first: all 127
        for (std::int64_t b = 0; b < layout::round_up(k, 128) / 32; ++b)
          want_panel[static_cast<std::size_t>(layout::panel_scale_offset(r, b, k))] = 127;
      for (std::int64_t r = 0; r < layout::round_up(n, 16); ++r) {  // headers
        int largest = 0, smallest = 255;
        for (std::int64_t b = 0; r < n && b < scales_per_row(k); ++b) {
          bool zero = m.scale(r, b) != 255;
          for (std::int64_t c = b * 32; c < std::min(k, b * 32 + 32); ++c)
            zero = zero && (m.code(r, c) & 7u) == 0;
          if (zero) continue;
          largest = std::max<int>(largest, m.scale(r, b));
          smallest = std::min<int>(smallest, m.scale(r, b));
        }
        const bool any = largest >= smallest;
        const auto at = static_cast<std::size_t>(layout::panel_offset(r, k) + r % 16);
        want_panel[at] = static_cast<std::uint8_t>(any ? largest : 127);
        want_panel[at + 16] = static_cast<std::uint8_t>(any ? smallest : 127);
      }
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t j = 0; j < codes_per_row_bytes(k); ++j) {
          const std::uint8_t byte =
              m.codes[static_cast<std::size_t>(r * codes_per_row_bytes(k) + j)];
          want_codes[static_cast<std::size_t>(layout::aiter_code_offset(r, j, row_bytes))] = byte;
          want_panel[static_cast<std::size_t>(layout::panel_code_offset(r, j, k))] = byte;
        }
        for (std::int64_t b = 0; b < scales_per_row(k); ++b) {
          want_scales[static_cast<std::size_t>(layout::aiter_scale_offset(r, b, cols))] =
              m.scale(r, b);
          want_panel[static_cast<std::size_t>(layout::panel_scale_offset(r, b, k))] = m.scale(r, b);
        }
      }
      ASSERT_TRUE(std::equal(want_codes.begin(), want_codes.end(), aiter->codes().begin()));
      ASSERT_TRUE(std::equal(want_scales.begin(), want_scales.end(), aiter->scales().begin()));
      ASSERT_TRUE(std::equal(want_panel.begin(), want_panel.end(), panel->codes().begin()));
    }
}

TEST(Layouts, GgufBlocksHoldHalves) {
  const HostMxfp4 m = telling_matrix(3, 96);
  const auto gguf = make(m).to_layout(Layout::gguf_mxfp4);
  ASSERT_OK(gguf);
  ASSERT_EQ(gguf->codes().size(), 3u * 3 * 17);
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::uint8_t* block = gguf->codes().data() + (r * 3 + b) * 17;
      EXPECT_EQ(block[0], m.scale(r, b));
      for (int j = 0; j < 16; ++j)
        EXPECT_EQ(block[1 + j], m.code(r, b * 32 + j) | (m.code(r, b * 32 + j + 16) << 4));
    }
  const HostMxfp4 odd = telling_matrix(3, 45);
  EXPECT_ERROR(make(odd).to_layout(Layout::gguf_mxfp4), StatusCode::invalid_argument, "k is 45");
}

// What a caller hands in beside the elements never reaches the result.
TEST(Layouts, PoisonedPadsAreNotRead) {
  for (const std::int64_t n : {1, 17, 272})
    for (const std::int64_t k : {31, 45, 100, 784}) {
      const HostMxfp4 m = telling_matrix(n, k);
      const std::int64_t kb = codes_per_row_bytes(k), sb = scales_per_row(k);
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(n * (kb + 7)), 0xFF);
      std::vector<std::uint8_t> scales(static_cast<std::size_t>(n * (sb + 3)), 0xFF);
      for (std::int64_t r = 0; r < n; ++r) {
        std::copy_n(m.codes.begin() + r * kb, kb, codes.begin() + r * (kb + 7));
        std::copy_n(m.scales.begin() + r * sb, sb, scales.begin() + r * (sb + 3));
        if (k % 2 != 0) codes[static_cast<std::size_t>(r * (kb + 7) + kb - 1)] |= 0xF0;
      }
      const Mxfp4View strided{codes.data(), scales.data(), n, k, kb + 7, sb + 3};
      const auto alive = std::make_shared<int>(0);
      for (const bool borrow : {false, true}) {
        Weights::Options options;
        if (borrow) options.keep_alive = alive;
        const auto w = Weights::from_row_major(strided, options);
        ASSERT_OK(w);
        EXPECT_EQ(w->codes().empty(), borrow);
        for (const Layout layout : {Layout::row_major, Layout::aiter_16x16, Layout::cpu_panel16}) {
          const auto packed = w->to_layout(layout);
          ASSERT_OK(packed);
          const auto clean = make(m).to_layout(layout);
          ASSERT_TRUE(
              std::equal(packed->codes().begin(), packed->codes().end(), clean->codes().begin()));
        }
        EXPECT_EQ(read_back(*w).codes, m.codes);
        EXPECT_EQ(read_back(*w).scales, m.scales);
      }
      // aiter: every byte outside the elements poisoned.
      const auto aiter = make(m).to_layout(Layout::aiter_16x16);
      std::vector<std::uint8_t> pc(aiter->codes().size(), 0xFF), ps(aiter->scales().size(), 0xFF);
      const std::int64_t row_bytes = layout::padded_k(Layout::aiter_16x16, k) / 2;
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t j = 0; j < kb; ++j) {
          const auto at = static_cast<std::size_t>(layout::aiter_code_offset(r, j, row_bytes));
          pc[at] = static_cast<std::uint8_t>(aiter->codes()[at] |
                                             (k % 2 != 0 && j == kb - 1 ? 0xF0 : 0));
        }
        for (std::int64_t b = 0; b < sb; ++b) {
          const auto at = static_cast<std::size_t>(
              layout::aiter_scale_offset(r, b, layout::aiter_scale_cols(k)));
          ps[at] = aiter->scales()[at];
        }
      }
      const auto poisoned = Weights::from_aiter(n, k, pc, ps, {});
      ASSERT_OK(poisoned);
      const auto rewritten = poisoned->to_layout(Layout::aiter_16x16);  // with pads of our own
      ASSERT_OK(rewritten);
      EXPECT_TRUE(
          std::equal(rewritten->codes().begin(), rewritten->codes().end(), aiter->codes().begin()));
      EXPECT_TRUE(std::equal(rewritten->scales().begin(), rewritten->scales().end(),
                             aiter->scales().begin()));
      EXPECT_EQ(read_back(*poisoned).codes, m.codes);
      EXPECT_EQ(read_back(*poisoned).scales, m.scales);
    }
}

TEST(Layouts, ExpertsAreSlabsAndSlicesShareThem) {
  constexpr std::int64_t kE = 3, kN = 20, kK = 96;
  const HostMxfp4 m = telling_matrix(kE * kN, kK);
  for (const Layout layout :
       {Layout::row_major, Layout::aiter_16x16, Layout::gguf_mxfp4, Layout::cpu_panel16}) {
    const auto all = make(m, kE).to_layout(layout);
    ASSERT_OK(all);
    EXPECT_EQ(all->num_experts(), kE);
    EXPECT_EQ(read_back(*all).codes, m.codes);
    for (std::int64_t e = 0; e < kE; ++e) {
      const auto one = all->slice(e);
      ASSERT_OK(one);
      EXPECT_EQ(one->num_experts(), 1);
      if (layout != Layout::row_major) {
        EXPECT_GE(one->codes().data(), all->codes().data());
        EXPECT_LT(one->codes().data(), all->codes().data() + all->codes().size());
      }
      const HostMxfp4 got = read_back(*one);
      EXPECT_TRUE(
          std::equal(got.codes.begin(), got.codes.end(), m.codes.begin() + e * kN * kK / 2));
      EXPECT_TRUE(
          std::equal(got.scales.begin(), got.scales.end(), m.scales.begin() + e * kN * kK / 32));
    }
    EXPECT_ERROR(all->slice(kE), StatusCode::invalid_argument, "expert is 3");
    EXPECT_ERROR(all->slice(-1), StatusCode::invalid_argument, "expert is -1");
  }
}

TEST(Layouts, BorrowedBytesAreKeptAliveAndReleased) {
  auto bytes = std::make_shared<HostMxfp4>(telling_matrix(16, 64));
  const std::weak_ptr<HostMxfp4> watch = bytes;
  {
    Weights::Options options;
    options.keep_alive = bytes;
    const auto w = Weights::from_row_major(bytes->view(), options);
    ASSERT_OK(w);
    EXPECT_EQ(w->codes().data(), bytes->codes.data());
    bytes.reset();
    EXPECT_FALSE(watch.expired());
    const Weights copy = *w->slice(0);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Layouts, ThreadsPackTheSameBytes) {
  const HostMxfp4 m = telling_matrix(1100, 544);
  auto pool = ThreadPool::create(4);
  ASSERT_OK(pool);
  for (const Layout layout : {Layout::aiter_16x16, Layout::gguf_mxfp4, Layout::cpu_panel16}) {
    const auto one = make(m).to_layout(layout), four = make(m).to_layout(layout, pool->get());
    EXPECT_TRUE(std::equal(one->codes().begin(), one->codes().end(), four->codes().begin()));
    EXPECT_TRUE(std::equal(one->scales().begin(), one->scales().end(), four->scales().begin()));
  }
}

TEST(Layouts, RejectsBadArguments) {
  const auto bad = StatusCode::invalid_argument;
  const HostMxfp4 m = telling_matrix(16, 64);
  EXPECT_ERROR(layout_bytes(Layout::row_major, 0, 64), bad, "n is 0");
  EXPECT_ERROR(layout_bytes(Layout::row_major, 16, 0), bad, "k is 0");
  EXPECT_ERROR(layout_bytes(Layout::gguf_mxfp4, 16, 33), bad, "k is 33");
  EXPECT_ERROR(layout_bytes(static_cast<Layout>(99), 16, 32), bad, "layout is 99");
  EXPECT_ERROR(layout_bytes(Layout::row_major, std::int64_t{1} << 40, std::int64_t{1} << 40), bad,
               "2^56");
  Weights::Options three;
  three.num_experts = 3;
  EXPECT_ERROR(Weights::from_row_major(m.view(), three), bad, "multiple of num_experts = 3");
  EXPECT_ERROR(Weights::from_row_major(mxfp4_view(nullptr, m.scales.data(), 16, 64)), bad,
               "w.codes is null");
  EXPECT_ERROR(Weights::from_aiter(16, 64, m.codes, m.scales, {}), bad,
               "scales has 32 bytes, must have 2048");
  EXPECT_ERROR(Weights::from_gguf(16, 64, m.codes, {}), bad, "blocks has 512 bytes, must have 544");
  EXPECT_ERROR(make(m).pack(Device::hip(0)), StatusCode::unsupported, "hip:0");
  EXPECT_ERROR(parse_layout("blocked"), bad, "blocked");
}

}  // namespace
}  // namespace mxgemm
