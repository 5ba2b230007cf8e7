// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints: it has one writer, shows complete checkpoints only, follows `latest`,
// and keeps and removes the right ones.
#include <algorithm>

#include <sys/mount.h>
#include <sys/wait.h>

#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/manifest.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::checkpoint_folder_test {
namespace {

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void publish(CheckpointWriterFolder& folder, int step, std::int64_t keep = 0,
             const std::string& text = "m") {
  const std::string name = checkpoint_name(step);
  std::ofstream(folder.begin(name) + "/rank-00000.h5") << "data";
  folder.publish(name, text);
  folder.clean_up(name, keep);
}

TEST(CheckpointFolder, publishes_and_points_to_the_latest) {
  const ScratchFolder scratch;
  const std::string dir = scratch.path("a/b");
  EXPECT_EQ(latest_checkpoint(dir), std::nullopt);
  CheckpointWriterFolder folder(dir);
  publish(folder, 10);
  publish(folder, 20);
  EXPECT_EQ(latest_checkpoint(dir), "step-00000020");
  EXPECT_EQ(names_in(dir),
            (std::vector<std::string>{".lock", "latest", "step-00000010", "step-00000020"}));
  EXPECT_EQ(slurp(dir + "/step-00000020/rank-00000.h5"), "data");
  EXPECT_EQ(slurp(dir + "/latest"), "step-00000020\n");
  scratch.write("a/b/latest", "step-00000010\n");  // a user selects an earlier checkpoint
  EXPECT_EQ(latest_checkpoint(dir), "step-00000010");
  std::filesystem::remove(dir + "/latest");  // a crash between the rename and the pointer
  EXPECT_EQ(latest_checkpoint(dir), "step-00000020");
}

TEST(CheckpointFolder, a_step_that_is_written_again_takes_the_place_of_the_old_one) {
  const ScratchFolder scratch;
  CheckpointWriterFolder folder(scratch.path());
  publish(folder, 10, 0, "old");
  publish(folder, 10, 0, "new");
  EXPECT_EQ(slurp(scratch.path("step-00000010/manifest.json")), "new");
  EXPECT_EQ(names_in(scratch.path()).size(), 3U);
}

TEST(CheckpointFolder, keeps_the_newest_and_never_removes_what_was_just_written) {
  const ScratchFolder scratch;
  CheckpointWriterFolder folder(scratch.path());
  for (int step : {30, 40, 50}) publish(folder, step);
  publish(folder, 20, 2);  // published by a run that resumed from an earlier step
  EXPECT_EQ(published_checkpoints(scratch.path()),
            (std::vector<std::string>{"step-00000050", "step-00000020"}));
  publish(folder, 25, 1);
  EXPECT_EQ(published_checkpoints(scratch.path()), (std::vector<std::string>{"step-00000025"}));
}

TEST(CheckpointFolder, touches_nothing_else) {
  const ScratchFolder scratch;
  scratch.write("notes.txt", "mine");
  // Without a manifest it is not a checkpoint.
  std::filesystem::create_directories(scratch.path("step-00000001"));
  CheckpointWriterFolder folder(scratch.path());
  publish(folder, 10, 1);
  publish(folder, 20, 1);
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{".lock", "latest", "notes.txt",
                                                                "step-00000001", "step-00000020"}));
}

TEST(CheckpointFolder, has_one_writer) {
  const ScratchFolder scratch;
  {
    const CheckpointWriterFolder folder(scratch.path());
    expect_says(message_of<IoError>([&] { CheckpointWriterFolder second(scratch.path()); }),
                {scratch.path(), "another run writes here", "process " + std::to_string(getpid()),
                 "checkpoint.dir"});
  }
  const CheckpointWriterFolder next(scratch.path());
}

TEST(CheckpointFolder, a_writer_that_is_killed_leaves_no_lock_and_its_litter_is_removed) {
  const ScratchFolder scratch;
  const pid_t child = fork();
  if (child == 0) {
    CheckpointWriterFolder folder(scratch.path());
    publish(folder, 10);
    std::ofstream(folder.begin("step-00000020") + "/rank-00000.h5") << "half";
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(published_checkpoints(scratch.path()), (std::vector<std::string>{"step-00000010"}));
  EXPECT_EQ(names_in(scratch.path()).size(), 4U);
  const CheckpointWriterFolder next(scratch.path());
  EXPECT_EQ(names_in(scratch.path()).size(), 3U);
}

TEST(CheckpointFolder, what_cannot_be_written_is_refused) {
  const ScratchFolder scratch;
  const std::string file = scratch.write("file", "x");
  expect_says(message_of<IoError>([&] { CheckpointWriterFolder folder(file + "/below"); }),
              {file + "/below", "Not a directory", "checkpoint.dir"});
  expect_says(message_of<IoError>([] { CheckpointWriterFolder folder("/proc/checkpoints"); }),
              {"/proc/checkpoints", "checkpoint.dir"});
}

}  // namespace
}  // namespace shardmark::test::checkpoint_folder_test
