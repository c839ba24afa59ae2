// x86-64: which levels this machine has, and which quantizer goes with each.
#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace mxgemm::cpu {
namespace {

bool has_f16c() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1u << 29)) != 0;
}

/// Tiles and their int8 products, with the operating system saving both tile states.
bool has_amx() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  if ((d & kTile) == 0 || (d & kInt8) == 0 || !__builtin_cpu_supports("avx512vbmi") ||
      !__builtin_cpu_supports("avx512bf16"))
    return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & (3u << 17)) == (3u << 17);
}

bool detect_avx_vnni() noexcept {  // the operating system's part is that of AVX2
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 4)) != 0 &&
         __builtin_cpu_supports("avx2");
}

Isa detect() noexcept {
  // libgcc asks CPUID and XGETBV, so "supported" includes the operating system.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
    return Isa::baseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  if (!avx512) return has_avx_vnni() ? Isa::avxvnni : Isa::avx2;
  return has_amx() ? Isa::amx : Isa::avx512vnni;
}

}  // namespace

bool has_avx_vnni() noexcept {
  static const bool has = detect_avx_vnni();
  return has;
}

Isa detected_isa() noexcept {
  static const Isa isa = detect();  // CPUID costs microseconds in a virtual machine
  return isa;
}

bool prefers_far_prefetch() noexcept {
  static const bool amd = __builtin_cpu_is("amd");
  return amd;
}

void relax() noexcept {
  __builtin_ia32_pause();
}

std::string model_name() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return "unknown";
  char vendor[13] = {};
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  std::string name;
  if (std::string_view(vendor) == "AuthenticAMD")
    name = "amd";
  else if (std::string_view(vendor) == "GenuineIntel")
    name = "intel";
  else
    for (const char letter : std::string_view(vendor))
      if ((letter | 32) >= 'a' && (letter | 32) <= 'z') name += static_cast<char>(letter | 32);
  (void)__get_cpuid(1, &a, &b, &c, &d);
  unsigned family = a >> 8 & 15u, model = a >> 4 & 15u;
  if (family == 6 || family == 15) model += (a >> 16 & 15u) << 4;
  if (family == 15) family += a >> 20 & 255u;
  return name + "-" + std::to_string(family) + "-" + std::to_string(model);
}

bool request_tiles() noexcept {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}

RowTools avx512_row_tools() noexcept {
  static const bool vbmi = __builtin_cpu_supports("avx512vbmi") != 0;
  return {quantize_row_avx512, unpack_blocks_avx2, vbmi ? unpack_bf16_avx512 : nullptr};
}

QuantizeRow quantize_row_for(Isa isa) noexcept {
  if (isa >= Isa::avx512vnni) return quantize_row_avx512;
  return isa >= Isa::avx2 ? quantize_row_avx2 : quantize_row_baseline;
}

}  // namespace mxgemm::cpu
