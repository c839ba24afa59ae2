// Classifies the Fashion-MNIST test images with a float network and with its MXFP4 version, and
// fails when the second strays from the first.  classify FLOAT MXFP4 [IMAGE_FOLDER]
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <exception>

#include "idx_file.h"
#include "network.h"

using namespace mxgemm;

namespace {

constexpr std::int64_t kPixels = 784, kClasses = 10;
constexpr std::int64_t kBatch = 250;       // divides 10,000, so all timed batches are alike
constexpr std::int64_t kSingles = 200;     // images timed one by one
constexpr std::int64_t kBitwiseRows = 65;  // images on which kernels are compared bit by bit

// What the demo promises.
constexpr double kMinAccuracy = 0.88, kMaxLoss = 0.01, kMinAgreement = 0.96, kMinCosine = 0.995;

bf16 to_bf16(float x) {  // to nearest, ties to even; pixels are finite
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return {static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

std::int64_t top1(const float* logits) {
  return std::max_element(logits, logits + kClasses) - logits;
}

double cosine(const float* a, const float* b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::int64_t i = 0; i < kClasses; ++i) {
    ab += double{a[i]} * b[i], aa += double{a[i]} * a[i], bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Images {
  std::vector<float> pixels;  // [rows, 784], 0..1
  std::vector<std::uint8_t> labels;
  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }
  std::vector<bf16> batch(std::int64_t first, std::int64_t count) const {
    std::vector<bf16> out(static_cast<std::size_t>(count * kPixels));
    std::transform(&pixels[first * kPixels], &pixels[first * kPixels] + out.size(), out.begin(),
                   to_bf16);
    return out;
  }
};

Images read_images(const std::string& folder) {
  const IdxArray images = read_idx(folder + "/t10k-images-idx3-ubyte.gz");
  IdxArray labels = read_idx(folder + "/t10k-labels-idx1-ubyte.gz");
  if (images.data.size() != labels.data.size() * kPixels) {
    throw std::runtime_error(folder + ": images and labels do not match");
  }
  Images out{std::vector<float>(images.data.size()), std::move(labels.data)};
  std::transform(images.data.begin(), images.data.end(), out.pixels.begin(),
                 [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0f; });
  return out;
}

// In Reproducible::device mode every kernel must give the bits of the reference.
bool kernels_agree(const std::string& checkpoint, const Images& images, ThreadPool* threads) {
  const auto logits_of = [&](const std::string& kernel) {
    PlanOptions options{.reproducible = Reproducible::device, .kernel = kernel, .threads = threads};
    return Mxfp4Network(checkpoint, kBitwiseRows, options)
        .run(images.batch(0, kBitwiseRows), kBitwiseRows);
  };
  const std::vector<float> expected = logits_of("cpu_reference");
  bool all = true;
  std::printf("same bits as cpu_reference in device mode, %lld images:",
              static_cast<long long>(kBitwiseRows));
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.device != DeviceKind::cpu || kernel.name == "cpu_reference" || !kernel.runs_here ||
        kernel.mxfp4 != Reproducible::device) {
      continue;
    }
    const std::vector<float> actual = logits_of(kernel.name);
    const bool same = std::equal(
        actual.begin(), actual.end(), expected.begin(), expected.end(), [](float a, float b) {
          return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
        });
    std::printf(" %s %s", kernel.name.c_str(), same ? "yes" : "NO");
    all = all && same;
  }
  std::printf("\n");
  return all;
}

void print_timings(Mxfp4Network& network, const Images& images,
                   const std::vector<std::vector<double>>& batched) {
  std::vector<std::vector<double>> single(network.num_layers());
  for (std::int64_t i = 0; i < kSingles; ++i) network.run(images.batch(i, 1), 1, &single);
  std::printf("\nlayer  shape (N,K)  us, M=1  us, M=%lld  kernel (M=1, M=%lld)\n",
              static_cast<long long>(kBatch), static_cast<long long>(kBatch));
  for (std::size_t i = 0; i < network.num_layers(); ++i) {
    const Plan& plan = network.plan(i);
    std::printf("fc%zu    %4lld,%4lld    %7.1f   %8.1f  %s, %s\n", i + 1,
                static_cast<long long>(plan.n()), static_cast<long long>(plan.k()),
                median(single[i]), median(batched[i]), std::string(plan.kernel(1)).c_str(),
                std::string(plan.kernel(kBatch)).c_str());
  }
}

bool bar(const char* what, double value, const char* need, bool passed) {
  std::printf("%-28s %8.4f   %-16s %s\n", what, value, need, passed ? "ok" : "FAILED");
  return passed;
}

int classify(const std::string& float_file, const std::string& mxfp4_file,
             const std::string& folder) {
  const Images images = read_images(folder);
  const auto threads = value_of(ThreadPool::create());
  const FloatNetwork float_network(float_file);
  Mxfp4Network mxfp4_network(mxfp4_file, kBatch, {.threads = threads.get()});
  std::vector<std::vector<double>> batched(mxfp4_network.num_layers());

  const std::vector<float> exact = float_network.run(images.pixels, images.rows());
  double float_right = 0, mxfp4_right = 0, agree = 0, cosines = 0;
  for (std::int64_t first = 0; first < images.rows(); first += kBatch) {
    const std::int64_t count = std::min(kBatch, images.rows() - first);
    const std::vector<float> logits =
        mxfp4_network.run(images.batch(first, count), count, &batched);
    for (std::int64_t i = 0; i < count; ++i) {
      const float* a = &exact[(first + i) * kClasses];
      const float* b = &logits[i * kClasses];
      float_right += top1(a) == images.labels[first + i];
      mxfp4_right += top1(b) == images.labels[first + i];
      agree += top1(a) == top1(b);
      cosines += cosine(a, b);
    }
  }

  const double rows = static_cast<double>(images.rows());
  const double float_accuracy = float_right / rows, mxfp4_accuracy = mxfp4_right / rows;
  std::printf("%.0f test images, %d threads, CPU instruction set %s\n\n", rows,
              threads->num_threads(), cpu_isa().c_str());
  bool ok = bar("accuracy, float32", float_accuracy, ">= 0.88", float_accuracy >= kMinAccuracy);
  ok &= bar("accuracy, MXFP4 (W4A4)", mxfp4_accuracy, ">= float - 0.01",
            mxfp4_accuracy >= float_accuracy - kMaxLoss);
  ok &= bar("top-1 agreement", agree / rows, ">= 0.96", agree / rows >= kMinAgreement);
  ok &= bar("mean cosine of logits", cosines / rows, ">= 0.995", cosines / rows >= kMinCosine);
  print_timings(mxfp4_network, images, batched);
  std::printf("\n");
  ok &= kernels_agree(mxfp4_file, images, threads.get());
  std::printf(ok ? "\nPASS\n" : "\nFAIL\n");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: classify FLOAT.safetensors MXFP4.safetensors [IMAGE_FOLDER]\n");
    return 2;
  }
  try {
    return classify(argv[1], argv[2], argc > 3 ? argv[3] : "/usr/share/datasets/fashion-mnist");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "classify: %s\n", error.what());
    return 3;
  }
}
