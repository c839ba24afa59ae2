// x86-64: 16, 32 or 64 bytes a load; vpmaddubsw, vpdpbusd or tdpbssd.
#include <immintrin.h>

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa_region.h"
#include "read_loop.h"

namespace mxgemm::cli {
namespace {

constexpr int kInstructions = 8;  // a step; twice as many hide vpdpbusd's latency

std::uint64_t read_baseline(const std::byte* p, std::size_t bytes, int num_streams) noexcept {
  return read_any(p, bytes, num_streams);
}

/// Keeps a value in its register and from being known, in every turn of a loop.
#define MXGEMM_OPAQUE(value) asm volatile("" : "+x"(value))

MXGEMM_ISA_BEGIN("avx2")

std::uint64_t read_avx2(const std::byte* p, std::size_t bytes, int num_streams) noexcept {
  return read_any(p, bytes, num_streams);
}

/// Products of pairs in int16, as an AVX2 kernel sums them first.
double multiply_avx2(std::int64_t times) noexcept {
  __m256i sums[kInstructions] = {};
  __m256i a = _mm256_set1_epi32(0x05040302), b = _mm256_set1_epi32(0x0103FF02);
  for (std::int64_t t = 0; t < times; ++t) {
#pragma GCC unroll 8
    for (int i = 0; i < kInstructions; ++i) {
      MXGEMM_OPAQUE(a);
      sums[i] = _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(a, b));
    }
  }
  for (__m256i& sum : sums) MXGEMM_OPAQUE(sum);
  return static_cast<double>(times) * kInstructions * 32 * 2;
}

MXGEMM_ISA_END
MXGEMM_ISA_BEGIN("avx512f,avx512vnni")

std::uint64_t read_avx512(const std::byte* p, std::size_t bytes, int num_streams) noexcept {
  return read_any(p, bytes, num_streams);
}

double multiply_vnni(std::int64_t times) noexcept {
  __m512i sums[2 * kInstructions] = {};
  __m512i a = _mm512_set1_epi32(0x05040302), b = _mm512_set1_epi32(0x0103FF02);
  asm volatile("" : "+v"(a), "+v"(b));
  for (std::int64_t t = 0; t < times; t += 2) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
  const std::int64_t steps = (times + 1) / 2;
  return static_cast<double>(steps) * 2 * kInstructions * 64 * 2;
}

MXGEMM_ISA_END
#undef MXGEMM_OPAQUE

/// Four accumulators, 16 x 16 of K = 64 each, as a kernel of 32 x 32 has them.
double multiply_amx(std::int64_t times) noexcept {
  using Tiles = cpu::AmxTiles;
  cpu::TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  alignas(64) std::int8_t values[16 * 64];
  for (int i = 0; i < 16 * 64; ++i) values[i] = static_cast<std::int8_t>(i % 25 - 12);
  Tiles::configure(config);
  Tiles::zero<0>();
  Tiles::zero<1>();
  Tiles::zero<2>();
  Tiles::zero<3>();
  Tiles::load<4>(values);
  Tiles::load<5>(values);
  Tiles::load<6>(values);
  Tiles::load<7>(values);
  for (std::int64_t t = 0; t < times; ++t) {
    Tiles::dot<0, 4, 6>();
    Tiles::dot<1, 4, 7>();
    Tiles::dot<2, 5, 6>();
    Tiles::dot<3, 5, 7>();
    Tiles::dot<0, 4, 6>();
    Tiles::dot<1, 4, 7>();
    Tiles::dot<2, 5, 6>();
    Tiles::dot<3, 5, 7>();
  }
  Tiles::release();
  return static_cast<double>(times) * kInstructions * 16 * 16 * 64 * 2;
}

}  // namespace

RoofLoops roof_loops() noexcept {
  switch (cpu::detected_isa()) {
    case cpu::Isa::amx:
      if (cpu::request_tiles()) return {read_avx512, multiply_amx, "AMX int8", 1500};
      [[fallthrough]];
    case cpu::Isa::avx512vnni:
      return {read_avx512, multiply_vnni, "AVX-512 VNNI", 40000};
    case cpu::Isa::avxvnni:
    case cpu::Isa::avx2:
      return {read_avx2, multiply_avx2, "AVX2 vpmaddubsw", 20000};
    case cpu::Isa::baseline:
      break;
  }
  return {.read = read_baseline};
}

}  // namespace mxgemm::cli
