// Tuning: the look-up rule, tables as text and as files, and what plans make of them.
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "api/plan_impl.h"
#include "gemm_testing.h"
#include "io_corpus/temp_folder.h"
#include "plan/choose.h"
#include "plan/tuning_text.h"

namespace mxgemm {
namespace {

using namespace testing;

// Three kernels that exist on paper only: quick by the model and weak in its promise, with two
// configs; slower and stronger; never supported.
constexpr Layout kLayouts[] = {Layout::row_major};
constexpr Config kTwoConfigs[] = {{.block_m = 8}, {.block_m = 32, .split_k = 4}};
constexpr Config kOneConfig[] = {{.block_m = 1}};

Status fine(const Problem&, const Device&) noexcept {
  return {};
}
Status refuses(const Problem&, const Device&) noexcept {
  return Status::error(StatusCode::unsupported, "it needs a flux capacitor");
}
double quick_us(const Problem&, const Config& config) noexcept {
  return config.block_m == 8 ? 10 : 11;
}
double slow_us(const Problem&, const Config&) noexcept {
  return 25;
}
std::size_t no_bytes(const Problem&, const Config&) noexcept {
  return 0;
}

constexpr KernelDesc paper_kernel(std::string_view name, std::span<const Config> configs,
                                  Reproducible promise) {
  return {.name = name,
          .device = DeviceKind::cpu,
          .needs = "",
          .layouts = kLayouts,
          .configs = configs,
          .mxfp4 = promise,
          .none = std::nullopt,
          .error_class = ErrorClass::block_exact,
          .supports = fine,
          .estimate_us = quick_us,
          .workspace_bytes = no_bytes,
          .run = nullptr};
}

struct Paper {
  KernelDesc quick = paper_kernel("quick", kTwoConfigs, Reproducible::run);
  KernelDesc strong = paper_kernel("strong", kOneConfig, Reproducible::device);
  KernelDesc absent = paper_kernel("absent", kOneConfig, Reproducible::device);
  const KernelDesc* list[3] = {&quick, &strong, &absent};

  Paper(const Paper&) = delete;  // the list points into it
  Paper& operator=(const Paper&) = delete;
  Paper() {
    strong.estimate_us = slow_us;
    absent.supports = refuses;
  }

  Choice choose(const std::vector<TuningRow>& rows, std::int64_t m,
                Reproducible promise = Reproducible::run, std::string_view forced = {}) const {
    const Problem problem{.shape = {m, 64, 128}, .reproducible = promise};
    return mxgemm::choose(list, problem, Device::cpu(), {forced},
                          {tuning_source("table", rows, "cpu-here", problem)});
  }
};

TuningRow row(std::int64_t m_max, std::string_view kernel, const Config& config, double us = 5) {
  return {.device = "cpu-here",
          .m_max = m_max,
          .n = 64,
          .k = 128,
          .kernel = kernel,
          .config = config,
          .evidence = {.threads = 1, .us = us, .share_of_floor = 0.5, .date = "2026-12-01"}};
}

TEST(TuningRows, SmallestBoundThenFastest) {
  const Paper paper;
  const std::vector<TuningRow> rows = {row(64, "strong", kOneConfig[0]),
                                       row(16, "strong", kOneConfig[0], 7),
                                       row(16, "quick", kTwoConfigs[1], 6)};
  for (const std::int64_t m : {1, 16}) {
    const Choice choice = paper.choose(rows, m);
    EXPECT_EQ(choice.tuning.row, &rows[2]) << m;
    EXPECT_EQ(choice.kernel, &paper.quick);
    EXPECT_EQ(choice.config, kTwoConfigs[1]);
    EXPECT_EQ(choice.estimate_us(), 11);  // of the row's config, not of the model's favourite
  }
  EXPECT_EQ(paper.choose(rows, 17).tuning.row, &rows[0]);
  const Choice beyond = paper.choose(rows, 65);
  EXPECT_EQ(beyond.tuning.row, nullptr);
  EXPECT_EQ(beyond.kernel, &paper.quick);
  EXPECT_EQ(beyond.config, kTwoConfigs[0]);
  EXPECT_EQ(beyond.candidates[0].estimates, (std::vector<double>{10, 11}));
}

TEST(TuningRows, OnlyForTheSameDeviceSizesAndActivation) {
  const Paper paper;
  std::vector<TuningRow> rows(4, row(16, "strong", kOneConfig[0]));
  rows[0].device = "cpu-there";
  rows[1].n = 63;
  rows[2].k = 160;
  rows[3].activation = Activation::none;
  EXPECT_EQ(paper.choose(rows, 4).tuning.row, nullptr);
  rows.push_back(row(16, "strong", kOneConfig[0]));
  EXPECT_EQ(paper.choose(rows, 4).tuning.row, &rows[4]);
}

TEST(TuningRows, NeverBreakAPromiseNorLeaveTheListOfConfigs) {
  const Paper paper;
  const std::vector<TuningRow> rows = {
      row(4, "quick", kTwoConfigs[0]), row(4, "absent", kOneConfig[0]), row(4, "imaginary", {}),
      row(4, "strong", {.block_m = 2}), row(8, "strong", kOneConfig[0])};
  for (const auto promise : {Reproducible::batch, Reproducible::device}) {
    const Choice choice = paper.choose(rows, 3, promise);
    EXPECT_EQ(choice.tuning.row, &rows[4]);
    ASSERT_EQ(choice.skipped.size(), 4u);
    const char* reasons[] = {"it promises reproducible = run", "flux capacitor",
                             "this build does not have it", "none of its own"};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(choice.skipped[i].match.row, &rows[i]);
      EXPECT_NE(std::string(choice.skipped[i].reason.message()).find(reasons[i]),
                std::string::npos);
    }
  }
  const Choice forced = paper.choose(rows, 3, Reproducible::run, "strong");
  EXPECT_EQ(forced.kernel, &paper.strong);
  EXPECT_EQ(forced.tuning.row, &rows[4]);
  const std::vector<TuningRow> useless(5000, row(4, "absent", kOneConfig[0]));
  EXPECT_EQ(paper.choose(useless, 1).skipped.size(), kMaxSkippedRows);
}

TEST(TuningRows, TheStrongerTableWins) {
  const Paper paper;
  const std::vector<TuningRow> mine = {row(64, "strong", kOneConfig[0], 9)};
  const std::vector<TuningRow> theirs = {row(4, "quick", kTwoConfigs[1], 1)};
  const Problem problem{.shape = {4, 64, 128}};
  const TuningSources sources = {tuning_source("mine", mine, "cpu-here", problem),
                                 tuning_source("theirs", theirs, "cpu-here", problem)};
  const Choice choice = choose(paper.list, problem, Device::cpu(), {}, sources);
  EXPECT_EQ(choice.tuning.row, &mine[0]);
  EXPECT_EQ(choice.tuning.table, "mine");
}

TEST(Config, WordsAreReadBack) {
  for (const Config& config : {Config{}, kTwoConfigs[0], kTwoConfigs[1],
                               Config{.block_k = 512,
                               .stages = 3,
                               .warps = 8,
                               .group_m = 4,
                               .cache_policy = 1,
                               .min_waves = -2}}) {
    const auto back = parse_config_word(config_word(config));
    ASSERT_OK(back);
    EXPECT_EQ(*back, config);
  }
  EXPECT_EQ(config_word({}), "-");
  EXPECT_EQ(config_word(kTwoConfigs[1]), "block_m=32,split_k=4");
  for (const char* word :
       {"", "block_m", "block_m=", "block_m=x", "block_m=4x", "block_m=04", "block_m=+4",
        "block_m=4,", ",block_m=4", "block_m=4,block_m=4", "split_k=4,block_m=32", "split_k=1",
        "block_m=99999999999", "height=3", "-,block_m=4", "--"})
    EXPECT_ERROR(parse_config_word(word), StatusCode::bad_data, "must be like");
}

constexpr std::string_view kBuild = "0.1.0-abc";

std::string sealed(const std::string& lines, std::size_t num_rows) {
  const std::string body = "mxgemm-tuning 1\nbuild 0.1.0-abc\n" + lines;
  return body + tuning_end_line(body, num_rows);
}

TEST(TuningText, IsReadBack) {
  const Paper paper;
  std::vector<TuningRow> rows = {row(16, "quick", kTwoConfigs[1], 1234.5),
                                 row(16, "strong", kOneConfig[0], 0.07)};
  rows[1].device = "cpu-x86_64-2.5";
  rows[1].evidence.threads = 64;
  const std::string text = tuning_text(rows, kBuild);
  const auto back = parse_tuning(text, kBuild, paper.list);
  ASSERT_OK(back);
  ASSERT_EQ(back->size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TuningRow &got = (*back)[i], &want = rows[i];
    EXPECT_TRUE(got.same_case(want));
    EXPECT_EQ(got.kernel, want.kernel);
    EXPECT_EQ(got.config, want.config);
    EXPECT_EQ(got.evidence.threads, want.evidence.threads);
    EXPECT_EQ(got.evidence.us, want.evidence.us);
    EXPECT_EQ(got.evidence.share_of_floor, want.evidence.share_of_floor);
    EXPECT_EQ(got.evidence.date, want.evidence.date);
  }
  EXPECT_EQ(tuning_text(*back, kBuild), text);
  EXPECT_EQ(sealed("", 0), tuning_text({}, kBuild));
}

TEST(TuningText, EveryCutAndEveryChangedByteIsSeen) {
  const Paper paper;
  const std::vector<TuningRow> rows = {row(16, "quick", kTwoConfigs[1]),
                                       row(1, "strong", kOneConfig[0])};
  const std::string text = tuning_text(rows, kBuild);
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(parse_tuning(text.substr(0, size), kBuild, paper.list).is_ok()) << size;
  for (std::size_t i = 0; i < text.size(); ++i)
    for (const int flip : {1, 2, 16, 128}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      EXPECT_FALSE(parse_tuning(changed, kBuild, paper.list).is_ok()) << changed;
    }
  EXPECT_FALSE(parse_tuning(text + text, kBuild, paper.list).is_ok());
  EXPECT_FALSE(parse_tuning(text + "\n", kBuild, paper.list).is_ok());
}

TEST(TuningText, MalformedTablesNameTheLine) {
  const Paper paper;
  const auto bad = StatusCode::bad_data;
  const auto parse = [&](const std::string& lines, std::size_t num_rows = 1) {
    return parse_tuning(sealed(lines, num_rows), kBuild, paper.list);
  };
  const std::string good =
      "row cpu-here mxfp4 16 64 128 quick block_m=8 2 7.50 0.5000 2026-12-01\n";
  ASSERT_OK(parse(good));
  ASSERT_OK(parse("# a comment\n" + good));
  struct Change {
    const char *from, *to, *message;
  };
  for (const Change& c : {
           Change{"row", "now", "its first word is 'now', must be row or end"},
           {"row", "row ", "more than the 12 words"},
           {" 2026-12-01", "", "fewer than the 12 words"},
           {"cpu-here", "CPU", "device is 'CPU', must be a word of"},
           {"mxfp4", "int8", "activation is 'int8', must be"},
           {"mxfp4", "none", "kernel is 'quick', must be one that takes the row's activation"},
           {" 16", " 0", "m_max is '0', must be from 1"},
           {" 16", " -1", "m_max is '-1'"},
           {" 64", " 64.0", "n is '64.0'"},
           {" 128", " 0x80", "k is '0x80'"},
           {" 128", " 99999999999999999999", "k is '99999999999999999999'"},
           {"quick", "cpu_magic", "kernel is 'cpu_magic', must be one that"},
           {"block_m=8", "block_m=9", "config is 'block_m=9', must be one of its kernel's"},
           {"block_m=8", "block_q=8", "config is 'block_q=8'"},
           {" 2 ", " 0 ", "threads is '0', must be"},
           {" 2 ", " 1025 ", "threads"},
           {"7.50", "-7.50", "decimal"},
           {"7.50", "nan", "decimal"},
           {"7.50", "1e3", "decimal"},
           {"0.5000", "inf", "decimal"},
           {"0.5000", "1.2.3", "decimal"},
           {"2026-12-01", "2026-12-1x", "date"},
           {"2026-12-01", "yesterday", "date"},
       }) {
    std::string line = good;
    line.replace(line.find(c.from), std::string_view(c.from).size(), c.to);
    EXPECT_ERROR(parse(line), bad, c.message);
    EXPECT_ERROR(parse(line), bad, "line 3");
  }
  EXPECT_ERROR(parse(good + good, 2), bad, "two rows are for m 16, n 64, k 128 with quick");
  EXPECT_ERROR(parse(good, 2), bad, "line 4 is not 'end 1 ");
  EXPECT_ERROR(parse("\n" + good), bad, "line 3: its first word is ''");
  EXPECT_ERROR(parse_tuning("", kBuild, paper.list), bad, "no tuning table");
  EXPECT_ERROR(parse_tuning("mxgemm-tuning 2\n", kBuild, paper.list), bad, "line 1");
  EXPECT_ERROR(parse_tuning("mxgemm-tuning 1\nrow\n", kBuild, paper.list), bad, "line 2");
  EXPECT_ERROR(parse_tuning(std::string(kMaxTuningBytes + 1, '#'), kBuild, paper.list), bad,
               "at most");
  EXPECT_ERROR(parse_tuning(sealed(good, 1), "0.2.0-abc", paper.list), StatusCode::unsupported,
               "it is for build 0.1.0-abc, this is build 0.2.0-abc");
}

TEST(TuningText, TheBuildChangesWithTheKernels) {
  const auto build = [](const Paper& paper) { return tuning_build(paper.list); };
  const Paper paper;
  EXPECT_EQ(build(paper), build(Paper()));
  Paper other;
  other.quick.configs = std::span(kTwoConfigs).first(1);
  EXPECT_NE(build(other), build(paper));
  Paper weaker;
  weaker.strong.mxfp4 = Reproducible::batch;
  EXPECT_NE(build(weaker), build(paper));
  EXPECT_NE(tuning_build(std::span(paper.list).first(2)), build(paper));
  EXPECT_EQ(Tuning::build().rfind(MXGEMM_VERSION "-", 0), 0u);
}

// Legal as a table of this build: kernels and configs exist, no two rows say the same.
TEST(BuiltInTuning, EveryRowIsLegalAndHasEvidence) {
#if defined(__x86_64__)
  const std::string text = tuning_text(built_in_tuning(), Tuning::build());
  EXPECT_OK(parse_tuning(text, Tuning::build(), registry()));
#endif
  for (const TuningRow& r : built_in_tuning()) {
    EXPECT_GT(r.evidence.us, 0);
    EXPECT_GT(r.evidence.share_of_floor, 0);
    EXPECT_EQ(r.evidence.command.rfind("mxgemm tune ", 0), 0u) << r.evidence.command;
  }
}

TEST(Tuning, DeviceNamesModelAndInstructionSet) {
  const std::string device = Tuning::device(Device::cpu());
  EXPECT_EQ(device.rfind("cpu-", 0), 0u);
  EXPECT_NE(device.find("-" + cpu_isa()), std::string::npos) << device;
  EXPECT_EQ(device, Tuning::device(Device::cpu()));
  EXPECT_NE(device, Tuning::device(Device::cuda(0)));
}

/// A value of an environment variable for the time of a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

class TuningPlans : public ::testing::Test {
 protected:
  static constexpr std::int64_t kN = 48, kK = 96;

  /// A table that prefers cpu_portable for m in 6..21 and cpu_reference below.
  std::string table() const {
    std::vector<TuningRow> rows;
    for (const auto& [m_max, name] : {std::pair(21, "cpu_portable"), {5, "cpu_reference"}}) {
      TuningRow r = row(m_max, name, kernel_named(name).configs.front(), 3);
      r.device = device_;
      r.n = kN;
      r.k = kK;
      rows.push_back(r);
    }
    return tuning_text(rows, Tuning::build());
  }
  Plan plan(const PlanOptions& options = {}) const {
    const auto p = Plan::create(Device::cpu(), weights_, 33, options);
    EXPECT_OK(p);
    return *p;
  }

  std::string device_ = Tuning::device(Device::cpu());
  Weights weights_ = make_weights(random_mxfp4(kN, kK, 7, {118, 120, 127}), Layout::cpu_panel16);
  io_corpus::TempFolder folder_;
};

void expect_tuned(const Plan& plan) {
  const Plan& p = plan;
  EXPECT_EQ(p.kernel(1), "cpu_reference");
  EXPECT_EQ(p.kernel(5), "cpu_reference");
  EXPECT_EQ(p.kernel(6), "cpu_portable");
  EXPECT_EQ(p.kernel(21), "cpu_portable");
  EXPECT_EQ(p.warning(), "");
}

TEST_F(TuningPlans, TakeRowsOfTheirOptionAndOfTheVariable) {
  const std::string untuned(plan().kernel(22));
  const auto tuning = Tuning::parse(table());
  ASSERT_OK(tuning);
  EXPECT_EQ(tuning->num_rows(), 2);
  EXPECT_EQ(tuning->num_rows(device_), 2);
  EXPECT_EQ(tuning->num_rows("cpu-there"), 0);
  const Plan by_option = plan({.tuning = &*tuning});
  expect_tuned(by_option);
  EXPECT_EQ(by_option.kernel(22), untuned);  // beyond the rows: the cost model
  const std::string path = folder_ / "table";
  io_corpus::put(path, table());
  const Variable variable("MXGEMM_TUNING", path);
  const Plan by_variable = plan();
  expect_tuned(by_variable);
  const std::string text = by_variable.explain(21);
  EXPECT_NE(text.find("chosen by the row of " + path + " for m <= 21, cpu_portable"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("3.0 us measured, 50.0 % of the floor, 1 thread, 2026-12-01"),
            std::string::npos)
      << text;
  EXPECT_NE(by_variable.explain(22).find("chosen by the cost model"), std::string::npos);
  EXPECT_NE(text.find("MXGEMM_TUNING=" + path), std::string::npos) << text;
  const auto empty = Tuning::parse(tuning_text({}, Tuning::build()));
  ASSERT_OK(empty);
  const Plan overridden = plan({.tuning = &*empty});
  EXPECT_EQ(overridden.kernel(1), untuned);
  EXPECT_NE(overridden.explain(1).find("(options.tuning overrides it)"), std::string::npos);
}

TEST_F(TuningPlans, OutliveTheTable) {
  std::optional<Result<Tuning>> tuning = Tuning::parse(table());
  const Plan p = plan({.tuning = &tuning->value()});
  tuning.reset();
  expect_tuned(p);
  EXPECT_NE(p.explain().find("for m <= 21, cpu_portable"), std::string::npos);
}

TEST_F(TuningPlans, KeepTheirPromises) {
  const auto tuning = Tuning::parse(table());
  ASSERT_OK(tuning);
  const auto x = random_bf16(static_cast<std::size_t>(33 * kK), 3);
  const auto bits = [&](const PlanOptions& options) {
    return bits_of(run_plan(weights_, bf16_view(x, 33, kK), options));
  };
  EXPECT_EQ(bits({.reproducible = Reproducible::device, .tuning = &*tuning}),
            bits({.reproducible = Reproducible::device}));
  const Plan batch = plan({.reproducible = Reproducible::batch, .tuning = &*tuning});
  for (std::int64_t m = 1; m <= 33; ++m)
    EXPECT_TRUE(batch.kernel(m) == batch.kernel(33) ||
                (kernel_named(batch.kernel(m)).mxfp4 == Reproducible::device &&
                 kernel_named(batch.kernel(33)).mxfp4 == Reproducible::device));
  // A forced kernel stays forced, and the rows of others say why they are not taken.
  const Plan forced = plan({.kernel = "cpu_reference", .tuning = &*tuning});
  EXPECT_EQ(forced.kernel(21), "cpu_reference");
  EXPECT_NE(forced.explain(21).find("kernel 'cpu_reference' is asked for"), std::string::npos);
}

TEST_F(TuningPlans, IgnoreTablesThatCannotBeUsedWithAWarning) {
  const std::string untuned(plan().kernel(5)), path = folder_ / "table";
  const auto expect_ignored = [&](const std::string& file, StatusCode code, const char* why) {
    SCOPED_TRACE(why);
    EXPECT_ERROR(Tuning::load(file), code, why);
    const Variable variable("MXGEMM_TUNING", file);
    EXPECT_ERROR(Tuning::from_environment(), code, why);
    const Plan p = plan();
    EXPECT_EQ(p.kernel(5), untuned);
    EXPECT_NE(std::string(p.warning()).find(why), std::string::npos) << p.warning();
    EXPECT_EQ(std::string(p.warning()).rfind("MXGEMM_TUNING is ignored: ", 0), 0u);
    EXPECT_NE(p.explain().find("warning: " + std::string(p.warning())), std::string::npos);
    EXPECT_NE(p.explain(5).find("MXGEMM_TUNING=" + file + " (ignored)"), std::string::npos);
  };
  expect_ignored(folder_ / "nothing", StatusCode::io_error, "No such file");
  expect_ignored(folder_.path(), StatusCode::io_error, "no regular file");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_ignored(folder_ / "pipe", StatusCode::io_error, "no regular file");
  io_corpus::put(path, "");
  expect_ignored(path, StatusCode::bad_data, "line 1");
  io_corpus::put(path, table().substr(0, 100));
  expect_ignored(path, StatusCode::bad_data, "unfinished");
  io_corpus::put(path, std::string(3 * kMaxTuningBytes, '#'));
  expect_ignored(path, StatusCode::bad_data, "at most 1048576");
  std::string stale = table();
  stale.replace(stale.find("build "), 10, "build 9.9.");
  io_corpus::put(path, stale);
  expect_ignored(path, StatusCode::unsupported, "run `mxgemm tune` again");
  EXPECT_ERROR(Tuning::parse(std::string(64, '\0'), std::string(300, 'x') + "END"),
               StatusCode::bad_data, "xEND: line 1");
  EXPECT_EQ(Tuning::from_environment()->num_rows(), 0);
}

TEST_F(TuningPlans, ExplainWithoutWeightsSaysTheSame) {
  const auto tuning = Tuning::parse(table());
  ASSERT_OK(tuning);
  for (const Reproducible promise : {Reproducible::run, Reproducible::batch}) {
    const PlanOptions options{.reproducible = promise, .tuning = &*tuning};
    const auto text = explain(Device::cpu(), {33, kN, kK}, Layout::cpu_panel16, options);
    ASSERT_OK(text);
    EXPECT_EQ(*text, plan(options).explain(33));
  }
  const std::int64_t large = std::int64_t{1} << 27;  // weights of 8 PB
  EXPECT_OK(explain(Device::cpu(), {1, large, large}, Layout::row_major));
  const auto bad = StatusCode::invalid_argument;
  EXPECT_ERROR(explain(Device::cpu(), {1, 0, 32}, Layout::row_major), bad, "n is 0");
  EXPECT_ERROR(explain(Device::cpu(), {-1, 1, 32}, Layout::row_major), bad, "m_max is -1");
  EXPECT_ERROR(explain(Device::cpu(), {1, 1, 33}, Layout::gguf_mxfp4), bad, "multiple of 32");
}

// What a promise costs and which configs lost, on paper kernels: real ones need not differ here.
TEST(Explain, ShowsEveryConfigAndWhatThePromiseCosts) {
  const Paper paper;
  auto impl = std::make_shared<Plan::Impl>();
  impl->m_max = 4;
  impl->view.n = 64;
  impl->view.k = 128;
  impl->options.reproducible = Reproducible::batch;
  impl->tuning_device = "cpu-here";
  impl->buckets.push_back(
      {4, paper.choose({}, 4, Reproducible::device), paper.choose({}, 4, Reproducible::run)});
  EXPECT_NE(Plan(impl).explain(4).find(
                "reproducible = batch: estimated 25.0 us; without it 10.0 us by quick (block_m 8)"),
            std::string::npos)
      << Plan(impl).explain(4);
  impl->buckets[0] = {4, paper.choose({}, 4)};
  const std::string text = Plan(impl).explain(4);
  EXPECT_EQ(text.find("without it"), std::string::npos) << text;
  EXPECT_NE(text.find("* (block_m 8): estimated 10.0 us\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  (block_m 32, split_k 4): estimated 11.0 us\n"), std::string::npos);
  EXPECT_NE(text.find("absent: it needs a flux capacitor"), std::string::npos) << text;
  EXPECT_NE(text.find("no tuning row for cpu-here"), std::string::npos) << text;
}

}  // namespace
}  // namespace mxgemm
