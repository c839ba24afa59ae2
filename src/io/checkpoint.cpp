#include <algorithm>
#include <system_error>
#include <utility>

#include "io/checkpoint_index.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "io/text.h"

namespace mxgemm::io {
namespace {

namespace fs = std::filesystem;

Status bad(const std::string& name, const std::string& sentence) {
  return Status::error(StatusCode::bad_data, "%s: %s", name.c_str(), sentence.c_str());
}

std::string file_name(const SafetensorsFile& file) {
  return quote(fs::path(file.name()).filename().string());
}

Result<CheckpointIndex> read_index(const fs::path& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.is_ok()) return file.status();
  const auto bytes = file->bytes();
  return parse_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                     display_name(path));
}

Result<std::vector<fs::path>> list_safetensors(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const fs::path& path = it->path();
    std::error_code ignored;  // a link in a circle is listed; opening it says what is wrong
    if (path.extension() == ".safetensors" && !it->is_directory(ignored)) paths.push_back(path);
  }
  if (error) {
    return Status::error(StatusCode::io_error, "%s: cannot list the folder: %s",
                         display_name(folder).c_str(), error.message().c_str());
  }
  if (paths.empty()) {
    return bad(display_name(folder), "the folder has neither " + std::string(kIndexFileName) +
                                         " nor a file *.safetensors");
  }
  return paths;
}

// Index and files must say the same, both ways.
Status check_index(const CheckpointIndex& index, std::span<const SafetensorsFile> files,
                   std::span<const std::size_t> file_of_shard, const std::string& name) {
  for (const CheckpointIndex::Entry& entry : index.entries) {
    const SafetensorsFile& file = files[file_of_shard[entry.shard]];
    if (file.find(index.tensor(entry)) == nullptr) {
      return bad(name, "tensor " + quote(index.tensor(entry)) + " is not in " + file_name(file) +
                           ", where the index puts it");
    }
  }
  for (const SafetensorsFile& file : files) {
    for (const TensorView& tensor : file.tensors()) {
      if (index.find(tensor.name) == nullptr) {
        return bad(name, "tensor " + quote(tensor.name) + " of " + file_name(file) +
                             " is not listed in the index");
      }
    }
  }
  return {};
}

}  // namespace

Status Checkpoint::locate_tensors(const std::string& name) {
  std::size_t total = 0;
  for (const SafetensorsFile& file : files_) total += file.tensors().size();
  locations_.reserve(total);
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const auto tensors = files_[f].tensors();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      locations_.push_back(
          {tensors[t].name, static_cast<std::uint32_t>(f), static_cast<std::uint32_t>(t)});
    }
  }
  std::sort(locations_.begin(), locations_.end(),
            [](const Location& a, const Location& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(locations_.begin(), locations_.end(),
                         [](const Location& a, const Location& b) { return a.name == b.name; });
  if (twice == locations_.end()) return {};
  return bad(name, "tensor " + quote(twice->name) + " is in two files, " +
                       file_name(files_[twice->file]) + " and " +
                       file_name(files_[(twice + 1)->file]));
}

Result<Checkpoint> Checkpoint::open(const fs::path& path) try {
  Checkpoint out;
  const std::string name = display_name(path);
  std::error_code error;
  out.is_folder_ = fs::is_directory(path, error);
  CheckpointIndex index;
  std::vector<fs::path> paths;
  if (!out.is_folder_) {
    paths.push_back(path);
  } else if (fs::exists(path / kIndexFileName, error)) {
    Result<CheckpointIndex> read = read_index(path / kIndexFileName);
    if (!read.is_ok()) return read.status();
    index = std::move(*read);
    out.has_index_ = true;
    for (const std::string& shard : index.shards) paths.push_back(path / shard);
  } else {
    Result<std::vector<fs::path>> listed = list_safetensors(path);
    if (!listed.is_ok()) return listed.status();
    paths = std::move(*listed);
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& file_path : paths) {
    if (out.has_index_ && !fs::exists(file_path, error)) {
      return bad(name, "the index names " + quote(file_path.filename().string()) +
                           ", which is not in the folder");
    }
    Result<SafetensorsFile> file = SafetensorsFile::open(file_path);
    if (!file.is_ok()) return file.status();
    out.files_.push_back(std::move(*file));
  }
  if (const Status status = out.locate_tensors(name); !status.is_ok()) return status;
  if (out.has_index_) {
    std::vector<std::size_t> file_of_shard;
    for (const std::string& shard : index.shards) {
      const auto at = std::lower_bound(paths.begin(), paths.end(), path / shard);
      file_of_shard.push_back(static_cast<std::size_t>(at - paths.begin()));
    }
    const Status status = check_index(index, out.files_, file_of_shard, name);
    if (!status.is_ok()) return status;
  }
  return out;
} catch (const fs::filesystem_error& e) {
  return Status::error(StatusCode::io_error, "%s: %s", path.c_str(), e.code().message().c_str());
} catch (const std::exception& e) {
  return Status::error(StatusCode::out_of_memory, "%s: no memory for the checkpoint (%s)",
                       path.c_str(), e.what());
}

std::span<const SafetensorsFile> Checkpoint::files() const noexcept {
  return files_;
}
bool Checkpoint::is_folder() const noexcept {
  return is_folder_;
}
bool Checkpoint::has_index() const noexcept {
  return has_index_;
}

std::pair<const SafetensorsFile*, const TensorView*> Checkpoint::find(
    std::string_view tensor) const noexcept {
  const auto at =
      std::lower_bound(locations_.begin(), locations_.end(), tensor,
                       [](const Location& l, std::string_view name) { return l.name < name; });
  if (at == locations_.end() || at->name != tensor) return {nullptr, nullptr};
  const SafetensorsFile& file = files_[at->file];
  return {&file, &file.tensors()[at->tensor]};
}

}  // namespace mxgemm::io
