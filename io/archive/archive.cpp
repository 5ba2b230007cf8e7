// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/core.h>
#include <zip.h>

#include <core/error.hpp>
#include <core/printable.hpp>
#include <io/archive/archive.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/regular_file.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{256} << 20;
constexpr zip_int64_t most_files = 4096;
constexpr std::string_view archive_remedy = "give an archive that `shardmark submit` made";

// What libzip has made, and the function that ends it.
template<auto end>
struct End {
  void operator()(auto* made) const { end(made); }
};
using Archive = std::unique_ptr<zip_t, End<zip_discard>>;
using Source = std::unique_ptr<zip_source_t, End<zip_source_free>>;

[[noreturn]] void refuse(const std::string& path, std::string_view what) {
  throw IoError(fmt::format("{}: {}: {}", path, what, archive_remedy));
}

[[noreturn]] void defect(std::string_view what) {
  throw IoError(fmt::format("an archive cannot be made: libzip: {}", what));
}

bool is_safe(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos)
    return false;
  const std::filesystem::path path(name);
  return std::none_of(path.begin(), path.end(), [](const std::filesystem::path& part) {
    return part == ".." || part == "." || part.empty();
  });
}

// A library handle that owns `source` once it is open.
Archive open(Source& source, int flags, zip_error_t& error) {
  zip_t* zip = zip_open_from_source(source.get(), flags, &error);
  if (zip != nullptr) (void)source.release();
  return Archive(zip);
}

std::string content(zip_t* zip, zip_uint64_t index, std::uint64_t bytes, const std::string& path,
                    std::string_view name) {
  const std::unique_ptr<zip_file_t, End<zip_fclose>> file(zip_fopen_index(zip, index, 0));
  std::string text(bytes, '\0');
  if (!file || zip_fread(file.get(), text.data(), bytes) != static_cast<zip_int64_t>(bytes))
    refuse(path, fmt::format("{} cannot be read, the archive is damaged", printable(name)));
  // The checksum is compared when the end of the file is read.
  char beyond = 0;
  if (zip_fread(file.get(), &beyond, 1) != 0)
    refuse(path, fmt::format("{} is damaged", printable(name)));
  return text;
}

}  // namespace

void write_archive(const std::string& path, const ArchiveFiles& files) {
  zip_error_t error;
  zip_error_init(&error);
  Source buffer(zip_source_buffer_create(nullptr, 0, 0, &error));
  if (!buffer) defect(zip_error_strerror(&error));
  zip_source_t* const written = buffer.get();
  zip_source_keep(written);
  const Source kept(written);  // outlives the archive, to be read after it is closed
  Archive zip = open(buffer, ZIP_TRUNCATE, error);
  if (!zip) defect(zip_error_strerror(&error));
  for (const auto& [name, text] : files) {
    zip_source_t* const source = zip_source_buffer(zip.get(), text.data(), text.size(), 0);
    if (source == nullptr) defect(zip_strerror(zip.get()));
    const zip_int64_t index = zip_file_add(zip.get(), name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      defect(zip_strerror(zip.get()));
    }
    constexpr time_t no_time = 315'532'800;  // 1980, where zip's calendar begins
    zip_file_set_mtime(zip.get(), static_cast<zip_uint64_t>(index), no_time, 0);
  }
  if (zip_close(zip.get()) != 0) defect(zip_strerror(zip.get()));
  (void)zip.release();
  zip_stat_t stat;
  if (zip_source_stat(written, &stat) != 0 || zip_source_open(written) != 0)
    defect("its bytes cannot be read");
  std::string bytes(stat.size, '\0');
  if (zip_source_read(written, bytes.data(), bytes.size()) != static_cast<zip_int64_t>(stat.size))
    defect("its bytes cannot be read");
  zip_source_close(written);
  const std::filesystem::path target(path);
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  replace_file(folder, target.filename().string(), bytes, output_remedy);
}

ArchiveFiles read_archive(const std::string& path) {
  const std::string bytes = read_regular_file(path, most_bytes, archive_remedy);
  if (bytes.empty()) refuse(path, "empty");  // which libzip reads as an archive without files
  zip_error_t error;
  zip_error_init(&error);
  Source buffer(zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error));
  if (!buffer) refuse(path, "cannot be read");
  const Archive zip = open(buffer, ZIP_RDONLY | ZIP_CHECKCONS, error);
  if (!zip) refuse(path, fmt::format("not a whole zip archive ({})", zip_error_strerror(&error)));
  const zip_int64_t count = zip_get_num_entries(zip.get(), 0);
  if (count > most_files)
    refuse(path, fmt::format("{} files, at most {} are allowed", count, most_files));
  ArchiveFiles files;
  std::uint64_t total = 0;
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(count); ++i) {
    zip_stat_t stat;
    constexpr zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE;
    if (zip_stat_index(zip.get(), i, 0, &stat) != 0 || (stat.valid & needed) != needed)
      refuse(path, "its directory is damaged");
    const std::string name = stat.name;
    if (!is_safe(name))
      refuse(path, fmt::format("\"{}\" is not a file name of a submission", printable(name)));
    total += stat.size;
    if (stat.size > most_bytes || total > most_bytes)
      refuse(path, fmt::format("its files have more than {} MiB", most_bytes >> 20));
    if (!files.emplace(name, content(zip.get(), i, stat.size, path, name)).second)
      refuse(path, fmt::format("{} occurs twice", printable(name)));
  }
  return files;
}

}  // namespace shardmark
