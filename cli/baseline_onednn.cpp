// oneDNN matmul in bf16: W prepacked in the layout that oneDNN chooses for itself.
#include <dnnl.hpp>

#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "baseline.h"
#include "huge_buffer.h"

// Of the OpenMP runtime that oneDNN is linked with: clang's <omp.h> would mean another one.
extern "C" void omp_set_num_threads(int num_threads);

namespace mxgemm::cli {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

class OneDnn final : public Baseline {
 public:
  explicit OneDnn(const BaselineProblem& problem)
      : shape_(problem.shape),
        num_threads_(problem.num_threads),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {
    omp_set_num_threads(num_threads_);  // oneDNN lays its work out for them
    const auto [m, n, k] = shape_;
    const dnnl::memory::desc a({m, k}, Type::bf16, Tag::ab), c({m, n}, Type::bf16, Tag::ab);
    const dnnl::memory::desc any_w({k, n}, Type::bf16, Tag::any);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, any_w, c), attributes, engine_);
    implementation_ = chosen.impl_info_str();
    matmul_ = dnnl::matmul(chosen);

    const dnnl::memory::desc w = chosen.weights_desc();
    const std::size_t copy_bytes = (w.get_size() + 63) / 64 * 64;
    a_ = HugeBuffer(a.get_size());
    c_ = HugeBuffer(c.get_size());
    w_ = HugeBuffer(static_cast<std::size_t>(problem.num_copies) * copy_bytes);
    scratchpad_ = HugeBuffer(chosen.scratchpad_desc().get_size());
    std::memcpy(a_.data(), problem.a, a.get_size());
    // W^T is [K, N] with K running fastest. oneDNN only reads it.
    const dnnl::memory::desc float_w({k, n}, Type::f32, Tag::ba);
    dnnl::memory from(float_w, engine_, const_cast<float*>(problem.w)), to(w, engine_, w_.data());
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    for (std::int64_t i = 0; i < problem.num_copies; ++i) {
      std::byte* copy = w_.data() + static_cast<std::size_t>(i) * copy_bytes;
      if (i > 0) std::memcpy(copy, w_.data(), w.get_size());
      arguments_.push_back(
          {{DNNL_ARG_SRC, {a, engine_, a_.data()}},
           {DNNL_ARG_WEIGHTS, {w, engine_, copy}},
           {DNNL_ARG_DST, {c, engine_, c_.data()}},
           {DNNL_ARG_SCRATCHPAD, {chosen.scratchpad_desc(), engine_, scratchpad_.data()}}});
    }
  }

  std::string description() const override {
    const dnnl_version_t* v = dnnl::version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch) + ", bf16 matmul " + implementation_;
  }

  Status run(std::int64_t copy) override {
    omp_set_num_threads(num_threads_);
    try {
      matmul_.execute(stream_, arguments_[static_cast<std::size_t>(copy)]);
      stream_.wait();
    } catch (const dnnl::error& error) {
      return Status::error(StatusCode::unsupported, "oneDNN: %s", error.what());
    }
    return {};
  }

  ConstMatrix c() const override {
    return ConstMatrix(c_.data(), DType::bf16, shape_.m, shape_.n, shape_.n);
  }

 private:
  Shape shape_;
  int num_threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  std::string implementation_;
  HugeBuffer a_, w_, c_, scratchpad_;
  std::vector<std::unordered_map<int, dnnl::memory>> arguments_;  // for each copy of W
};

}  // namespace
}  // namespace mxgemm::cli

void mxgemm_make_baseline(const mxgemm::cli::BaselineProblem& problem,
                          mxgemm::Result<std::unique_ptr<mxgemm::cli::Baseline>>& result) {
  using namespace mxgemm;
  try {
    result = std::unique_ptr<cli::Baseline>(std::make_unique<cli::OneDnn>(problem));
  } catch (const dnnl::error& error) {
    result =
        Status::error(StatusCode::unsupported, "oneDNN has no bf16 matmul here: %s", error.what());
  } catch (const std::bad_alloc&) {
    result = Status::error(StatusCode::out_of_memory, "no memory for oneDNN's weights");
  }
}
