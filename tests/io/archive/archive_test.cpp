// SPDX-License-Identifier: Apache-2.0
// Rules of archives: they are read as they were written, the same files give the same bytes, and
// names that lead out of a folder, damage and things that are no archives are refused.
#include <io/archive/archive.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::archive_test {
namespace {

const ArchiveFiles files{{"submission.json", "{}"}, {"runs/1/losses.csv", "step\n"}, {"empty", ""}};

TEST(Archives, AreReadAsTheyWereWritten) {
  const ScratchFolder scratch;
  write_archive(scratch.path("a.zip"), {{"older", "text"}});
  write_archive(scratch.path("a.zip"), files);
  EXPECT_EQ(read_archive(scratch.path("a.zip")), files);
}

TEST(Archives, OfTheSameFilesHaveTheSameBytes) {
  const ScratchFolder scratch;
  for (const char* name : {"a.zip", "b.zip"}) write_archive(scratch.path(name), files);
  EXPECT_EQ(slurp(scratch.path("a.zip")), slurp(scratch.path("b.zip")));
}

TEST(Archives, WithUnsafeNamesAreRefused) {
  const ScratchFolder scratch;
  for (const char* name : {"../escape", "/absolute", "a/../../b", "a\\b", "a/./b"}) {
    write_archive(scratch.path("a.zip"), {{name, "text"}});
    EXPECT_THROW(read_archive(scratch.path("a.zip")), IoError) << name;
  }
}

TEST(Archives, ThatAreDamagedOrNoArchivesAreRefused) {
  const ScratchFolder scratch;
  write_archive(scratch.path("a.zip"), files);
  const std::string whole = slurp(scratch.path("a.zip"));
  for (const std::string& text :
       {std::string(), std::string("text"), whole.substr(0, whole.size() / 2)}) {
    const std::string path = scratch.write("b.zip", text);
    expect_says(message_of<IoError>([&] { read_archive(path); }), {"b.zip", "shardmark submit"});
  }
  EXPECT_THROW(read_archive(scratch.path("none.zip")), IoError);
}

}  // namespace
}  // namespace shardmark::test::archive_test
