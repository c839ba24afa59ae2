#include "checkpoint_output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "interrupt.h"
#include "io/atomic_file.h"

namespace mxgemm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 16;  // of folders in a checkpoint
constexpr const char* kConfigName = "config.json";

Status usage(const char* format, const fs::path& path) {
  return Status::error(StatusCode::invalid_argument, format, path.c_str());
}

Status io_failure(const char* what, const fs::path& path, const std::error_code& error) {
  return Status::error(StatusCode::io_error, "cannot %s %s: %s", what, path.c_str(),
                       error.message().c_str());
}

bool lies_inside(const fs::path& inner, const fs::path& outer) {
  const fs::path relative = inner.lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

/// Without a trailing slash, which would hide the name.
fs::path tidy(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool holds_checkpoint(const fs::path& folder) {
  std::error_code error;
  bool empty = true;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") return true;
    empty = false;
  }
  return empty;
}

Status write_json(const fs::path& path, const Json& document) {
  return io::write_file(path, document.dump(2) + '\n');
}

Result<Json> read_json_object(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status::error(StatusCode::io_error, "cannot read %s", path.c_str());
  Json document = Json::parse(in, nullptr, false);
  if (!document.is_object()) {
    return Status::error(StatusCode::bad_data, "%s is not a JSON object", path.c_str());
  }
  return document;
}

/// A folder under a temporary name, removed unless it is published.
class OutputFolder {
 public:
  explicit OutputFolder(fs::path final_path) : final_(std::move(final_path)) {
    const std::string name = final_.filename().string();
    temporary_ = parent_of(final_) / fmt::format(".{}.partial-{}", name, getpid());
    replaced_ = parent_of(final_) / fmt::format(".{}.replaced-{}", name, getpid());
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder() {
    std::error_code ignored;
    if (created_) fs::remove_all(temporary_, ignored);
  }

  Status create() {
    std::error_code error;
    if (!fs::create_directory(temporary_, error)) {
      if (!error) error = std::make_error_code(std::errc::file_exists);
      return io_failure("create folder", temporary_, error);
    }
    created_ = true;
    return {};
  }

  Status publish() {
    std::error_code error, ignored;
    const bool replace = fs::exists(final_, ignored);
    if (replace) {
      fs::rename(final_, replaced_, error);
      if (error) return io_failure("move aside", final_, error);
    }
    fs::rename(temporary_, final_, error);
    if (error) {
      if (replace) fs::rename(replaced_, final_, ignored);
      return io_failure("rename to", final_, error);
    }
    created_ = false;
    if (replace) fs::remove_all(replaced_, ignored);
    return {};
  }

  const fs::path& path() const noexcept { return temporary_; }

 private:
  fs::path final_, temporary_, replaced_;
  bool created_ = false;
};

/// Total size and places of the tensors written so far, for the index.
struct WrittenTensors {
  std::int64_t total_bytes = 0;
  std::map<std::string, std::string> file_of;
};

Status convert_file(const io::SafetensorsFile& file, const fs::path& out, Conversion& conversion,
                    WrittenTensors& written) {
  auto plan = conversion.plan(file);
  if (!plan.is_ok()) return plan.status();
  auto writer = io::SafetensorsWriter::create(out, plan->tensors, plan->metadata);
  if (!writer.is_ok()) return writer.status();
  if (const Status status = conversion.write(file, *writer); !status.is_ok()) return status;
  if (const Status status = check_interrupted(); !status.is_ok()) return status;
  for (const io::TensorSpec& spec : plan->tensors) {
    written.file_of[spec.name] = out.filename().string();
  }
  written.total_bytes += plan->data_bytes;
  return writer->commit();
}

Status write_index(const fs::path& in, const fs::path& out, const WrittenTensors& written) {
  auto index = read_json_object(in);
  if (!index.is_ok()) return index.status();
  Json& metadata = (*index)["metadata"];
  if (!metadata.is_object()) metadata = Json::object();
  metadata["total_size"] = written.total_bytes;
  (*index)["weight_map"] = written.file_of;
  return write_json(out, *index);
}

/// Copies what the conversion didn't write: tokenizers, licences, sub-folders. Hidden folders are
/// caches of tools, not parts of a checkpoint.
Status copy_other_files(const fs::path& in, const fs::path& out) {
  std::error_code error;
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  fs::recursive_directory_iterator it(in, kFollow, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (const Status status = check_interrupted(); !status.is_ok()) return status;
    const fs::path& path = it->path();
    if (it.depth() > kMaxDepth) {
      return Status::error(StatusCode::bad_data,
                           "%s: more than %d folders deep (a link in a circle?)", path.c_str(),
                           kMaxDepth);
    }
    const fs::path target = out / path.lexically_relative(in);
    if (it->is_directory() && path.filename().string().front() == '.') {
      it.disable_recursion_pending();
    } else if (it->is_directory()) {
      fs::create_directory(target, error);
      if (error) return io_failure("create folder", target, error);
    } else if (it->is_regular_file() && !fs::exists(target)) {
      const Status status = io::copy_file(path, target);
      if (!status.is_ok()) return status;
    }
  }
  if (error) return io_failure("list", in, error);
  return {};
}

}  // namespace

Status check_output(const ConversionPaths& paths, bool folder) {
  std::error_code error;
  const fs::path in = fs::weakly_canonical(tidy(paths.in), error);
  const fs::path out = fs::weakly_canonical(tidy(paths.out), error);
  if (in == out) return usage("output %s is the input itself", paths.out);
  if (lies_inside(out, in)) return usage("output %s lies inside the input", paths.out);
  if (lies_inside(in, out)) return usage("output %s contains the input", paths.out);
  if (!fs::is_directory(parent_of(out), error)) {
    return Status::error(StatusCode::io_error, "folder %s of the output does not exist",
                         parent_of(out).c_str());
  }
  if (!fs::exists(out, error)) return {};
  if (fs::equivalent(in, out, error)) return usage("output %s is the input itself", paths.out);
  if (fs::is_directory(out, error) != folder) {
    return usage(folder ? "output %s is a file but the input is a folder"
                        : "output %s is a folder but the input is a file",
                 paths.out);
  }
  if (!paths.force) return usage("output %s exists already; --force replaces it", paths.out);
  if (folder && !holds_checkpoint(out)) {
    return usage("output %s is a folder without a checkpoint; --force will not replace it",
                 paths.out);
  }
  return {};
}

Result<Json> read_config(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kConfigName, error)) return Json(nullptr);
  return read_json_object(folder / kConfigName);
}

Status convert_checkpoint(const ConversionPaths& paths, const io::Checkpoint& checkpoint,
                          Conversion& conversion) {
  WrittenTensors written;
  const fs::path out = tidy(paths.out);
  if (!checkpoint.is_folder()) {
    return convert_file(checkpoint.files().front(), out, conversion, written);
  }
  auto config = read_config(paths.in);
  if (!config.is_ok()) return config.status();
  OutputFolder folder(out);
  if (const Status status = folder.create(); !status.is_ok()) return status;
  for (const io::SafetensorsFile& file : checkpoint.files()) {
    const fs::path target = folder.path() / fs::path(file.name()).filename();
    const Status status = convert_file(file, target, conversion, written);
    if (!status.is_ok()) return status;
  }
  if (fs::exists(paths.in / io::kIndexFileName)) {
    const Status status =
        write_index(paths.in / io::kIndexFileName, folder.path() / io::kIndexFileName, written);
    if (!status.is_ok()) return status;
  }
  if (config->is_object()) {
    if (const Status status = conversion.edit_config(*config); !status.is_ok()) return status;
    const Status status = write_json(folder.path() / kConfigName, *config);
    if (!status.is_ok()) return status;
  }
  if (const Status status = copy_other_files(tidy(paths.in), folder.path()); !status.is_ok()) {
    return status;
  }
  return folder.publish();
}

Status copy_tensor(const io::SafetensorsFile& file, const io::TensorView& tensor,
                   io::SafetensorsWriter& writer) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;  // between two looks at the signals
  for (std::size_t at = 0; at < tensor.data.size(); at += kPiece) {
    if (const Status status = check_interrupted(); !status.is_ok()) return status;
    const std::size_t size = std::min(kPiece, tensor.data.size() - at);
    if (const Status status = writer.write(tensor.data.subspan(at, size)); !status.is_ok()) {
      return status;
    }
  }
  file.release(tensor);
  return {};
}

}  // namespace mxgemm::cli
