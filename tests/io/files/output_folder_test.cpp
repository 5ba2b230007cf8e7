// SPDX-License-Identifier: Apache-2.0
// The output folder: it is created and proved writable, only files of the run are replaced, and
// each file appears whole or not at all.
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include <sys/mount.h>

#include <io/files/hash.hpp>
#include <io/files/output_folder.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::output_folder_test {
namespace {

std::size_t entries(const std::string& path) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path),
                                                std::filesystem::directory_iterator()));
}

TEST(Output, makes_missing_folders_and_leaves_no_trial_file) {
  const ScratchFolder folder;
  const OutputFolder out(folder.path("a/b/c"));
  EXPECT_TRUE(std::filesystem::is_directory(folder.path("a/b/c")));
  EXPECT_EQ(entries(folder.path("a/b/c")), 0u);
}

TEST(Output, replaces_our_files_and_no_others) {
  const ScratchFolder folder;
  folder.write("report.json", "old");
  folder.write("notes.txt", "mine");
  const OutputFolder out(folder.path());
  out.replace(report_file, "new");
  out.replace(losses_file, "rows");
  EXPECT_EQ(slurp(folder.path("report.json")), "new");
  EXPECT_EQ(slurp(folder.path("losses.csv")), "rows");
  EXPECT_EQ(slurp(folder.path("notes.txt")), "mine");
  EXPECT_EQ(entries(folder.path()), 3u);
  EXPECT_THROW(out.replace("notes.txt", "x"), std::logic_error);
  EXPECT_EQ(slurp(folder.path("notes.txt")), "mine");
}

TEST(Output, what_cannot_be_a_folder_is_refused) {
  const ScratchFolder folder;
  const std::string file = folder.write("file", "x");
  expect_says(message_of<IoError>([&] { OutputFolder out(file); }),
              {file, "a file has that name", "--out"});
  expect_says(message_of<IoError>([&] { OutputFolder out(file + "/below"); }),
              {file + "/below", "Not a directory", "--out"});
  expect_says(message_of<IoError>([] { OutputFolder out("/proc/shardmark-out"); }),
              {"/proc/shardmark-out", "No such file", "--out"});
  expect_says(message_of<IoError>([] { OutputFolder out(""); }), {"--out", "empty"});
  std::filesystem::create_directories(folder.path("d/report.json"));
  expect_says(message_of<IoError>([&] { OutputFolder out(folder.path("d")); }),
              {"report.json", "is a folder"});
}

TEST(Output, a_folder_without_write_permission_is_refused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const ScratchFolder folder;
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string message = message_of<IoError>([&] { OutputFolder out(folder.path()); });
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  expect_says(message, {folder.path(), "Permission denied", "--out"});
}

// A mounted tmpfs of 64 KiB, or the reason why it could not be mounted.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    if (::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=131072") != 0)
      reason_ = std::strerror(errno);
  }
  ~SmallDisk() {
    // Nothing can be done about a failure here; the mount is private to its scratch folder.
    if (reason_.empty()) (void)::umount2(path_.c_str(), MNT_DETACH);
  }
  const std::string& reason() const { return reason_; }

 private:
  std::string path_, reason_;
};

TEST(Output, a_full_disk_is_found_and_the_old_file_survives) {
  const ScratchFolder folder;
  const SmallDisk disk(folder.path());
  if (!disk.reason().empty())
    GTEST_SKIP() << "no small file system can be mounted: " << disk.reason();
  const OutputFolder out(folder.path());
  out.replace(report_file, "old");
  expect_says(message_of<IoError>([&] { out.replace(report_file, std::string(1 << 20, 'x')); }),
              {folder.path(), "No space left", "--out"});
  EXPECT_EQ(slurp(folder.path("report.json")), "old");
  EXPECT_EQ(entries(folder.path()), 1u) << "the half-written file is gone";
  folder.write("filler", std::string(100'000, 'x'));
  expect_says(message_of<IoError>([&] { OutputFolder again(folder.path()); }), {"No space left"});
}

TEST(Output, csv_numbers_read_back_as_the_same_doubles) {
  std::vector<double> values = {0,     1,       -1,
                                0.1,   1.0 / 3, 1e-300,
                                1e300, 5e-324,  4.122941731886544,
                                2e-8,  1e22,    123456789.123456789};
  values.push_back(std::nextafter(1.0, 2.0));
  values.push_back(std::numeric_limits<double>::max());
  std::vector<LossRow> rows;
  for (std::size_t i = 0; i < values.size(); ++i)
    rows.push_back(
        {static_cast<std::int64_t>(i), values[i], -values[i], values[i], 1, i % 2 == 1, values[i]});
  std::istringstream text(losses_csv(rows));
  std::string line;
  ASSERT_TRUE(std::getline(text, line));
  EXPECT_EQ(line, "step,loss,grad_norm,lr,loss_scale,skipped,seconds");
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(std::getline(text, line));
    std::vector<double> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) {
      double v = 0;
      const auto r = std::from_chars(cell.data(), cell.data() + cell.size(), v);
      ASSERT_TRUE(r.ec == std::errc{} && r.ptr == cell.data() + cell.size()) << cell;
      cells.push_back(v);
    }
    EXPECT_EQ(cells, (std::vector<double>{double(i), values[i], -values[i], values[i], 1,
                                          double(i % 2), values[i]}));
  }
  EXPECT_FALSE(std::getline(text, line));
}

TEST(Hash, is_xxh3_in_hexadecimal) {
  EXPECT_EQ(hash_hex(""), "2d06800538d394c2");  // XXH3's published value for empty input
  EXPECT_EQ(hash_hex("a").size(), 16u);
  EXPECT_NE(hash_hex("a"), hash_hex("b"));
}

}  // namespace
}  // namespace shardmark::test::output_folder_test
