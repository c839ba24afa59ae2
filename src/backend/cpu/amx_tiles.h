// The AMX tile instructions, one wrapper each, as assembly: gcc 12's own intrinsics take the tile
// number as text, and its _tile_loadconfig claims to read 8 of the 64 bytes, so that stores into
// the configuration are dropped.
#pragma once

#include <cstdint>

#include "backend/cpu/isa_region.h"

namespace mxgemm::cpu {

/// Rows, and bytes a row, of the 8 tiles.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

MXGEMM_ISA_BEGIN("amx-tile,amx-int8")

/// Rows of a tile lie 64 bytes apart in memory; of a tile of sums 128, so that two lie side by
/// side.
struct AmxTiles {
  static void configure(const TileConfig& config) noexcept {
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  static void release() noexcept { asm volatile("tilerelease"); }
  template <int kTile>
  static void zero() noexcept {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void load(const void* p) noexcept {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(std::int64_t{64}), "i"(kTile)
                 : "memory");
  }
  /// The same for data that is read once a sweep: a hint to leave the first-level cache alone.
  template <int kTile>
  static void stream(const void* p) noexcept {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(std::int64_t{64}), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void store(void* p) noexcept {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(std::int64_t{128}), "i"(kTile)
                 : "memory");
  }
  /// Tile kC += int8 tile kA * int8 tile kB, in int32.
  template <int kC, int kA, int kB>
  static void dot() noexcept {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
  }
};

MXGEMM_ISA_END
}  // namespace mxgemm::cpu
