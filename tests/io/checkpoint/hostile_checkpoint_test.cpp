// SPDX-License-Identifier: Apache-2.0
// Checkpoints that somebody has changed with care, and things that are no files: each is refused in
// words, at once, in little memory, and `latest` never leads out of its folder or to nothing.
#include <algorithm>
#include <functional>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <io/checkpoint/consolidate.hpp>
#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/data/tokens.hpp>
#include <io/files/hash.hpp>
#include <io/files/regular_file.hpp>
#include <io/json/json_source.hpp>
#include <io/keys/overrides.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::hostile_checkpoint_test {
namespace {

Manifest sound(std::int64_t step) {
  Manifest m;
  m.position.step = m.position.updates = step;
  m.schedule = "paper";
  m.params = {{"a", 6, {2, 3}}};
  m.files = {{"x.h5", 400, {0, 100, 200, 300}}};
  CheckpointPart part;
  part.elems = 6, part.map = {{0, 6}};
  m.parts = {part};
  m.deck = "{}";
  return m;
}

// The body changed, and the checksum made to fit.
std::string changed(const std::function<void(Json&)>& change) {
  Json o = Json::parse(write_manifest(sound(3)));
  change(o["checkpoint"]);
  o["xxh3"] = hash_hex(o["checkpoint"].dump());
  return o.dump();
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  auto all = parts;
  all.push_back("m: ");
  expect_says(message_of<IoError>([&] { parse_manifest(text, "m"); }), all);
}

TEST(HostileManifest, numbers_have_bounds_though_the_checksum_is_right) {
  EXPECT_NO_THROW(parse_manifest(changed([](Json&) {}), "m"));
  const auto with = [](const char* key, const Json& value) {
    return changed([&](Json& o) { o[Json::json_pointer(key)] = value; });
  };
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const Json& bad : {Json(-5), Json(largest), Json(1e300), Json("3"), Json(nullptr)})
    expect_refused(with("/step", bad), {"is damaged"});
  expect_refused(changed([](Json& o) { o["step"] = Json::parse("1" + std::string(300, '0')); }),
                 {"is damaged"});
  for (const Json& bad : {Json(-1), Json(4), Json(1e300)})
    expect_refused(with("/updates", bad), {"updates"});
  expect_refused(with("/samples", -1), {"samples"});
  expect_refused(with("/world", 0), {"world"});
  expect_refused(with("/stage", 4), {"stage"});
  expect_refused(with("/block_elems", 1), {"block_elems"});
  expect_refused(with("/loss_scale/scale", 0), {"scale"});
  expect_refused(with("/loss_scale/scale", -2.5), {"scale"});
  expect_refused(with("/loss_scale/update", largest), {"update"});
  for (const char* key :
       {"/params/0/1/0", "/files/0/bytes", "/files/0/first_byte/master", "/parts/0/elems",
        "/parts/0/offset", "/parts/0/map/0", "/parts/0/map/1", "/parts/0/file", "/parts/0/rank"})
    for (const Json& bad : {Json(-1), Json(largest), Json(std::int64_t{1} << 60), Json(0.5)})
      expect_refused(with(key, bad), {"is damaged"});
  // 2^60 elements, consistently.
  expect_refused(changed([](Json& o) {
                   const std::int64_t elems = std::int64_t{1} << 60;
                   o["params"][0][1] = {elems};
                   o["parts"][0]["elems"] = elems;
                   o["parts"][0]["map"] = {0, elems};
                   o["files"][0]["bytes"] = std::numeric_limits<std::int64_t>::max();
                 }),
                 {"is damaged"});
  expect_refused(with("/files/0/bytes", 310), {"do not fit"});
  expect_refused(with("/parts/0/map", {0, 6, 1}), {"map"});
  for (const char* name : {"../x.h5", "a/b", ".hidden", "", "manifest.json", "x\n.h5"})
    expect_refused(with("/files/0/name", name), {"file name"});
  expect_refused(with("/dtypes/master", "bf16"), {"dtypes"});
  expect_refused(with("/parts/0/xxh3/master", "-000000000000001"), {"checksum"});
  expect_refused(changed([](Json& o) { o.erase("parts"); }), {"a key is missing"});
}

TEST(HostileManifest, depth_and_size_are_bounded) {
  for (const std::size_t depth : {std::size_t{65}, std::size_t{200'000}, std::size_t{5'000'000}}) {
    const std::string open(depth, '['), close(depth, ']');
    expect_refused(open + close, {"nested deeper than 64"});
    expect_refused("{\"format\":1,\"checkpoint\":" + open + close + "}", {"nested deeper"});
  }
  std::string many = "[0";
  for (int i = 0; i < 9'000'000; ++i) many += ",0";
  expect_refused(many + "]", {"more than 8388608 values"});
  const std::string long_string = "{\"format\": \"" + std::string(5'000'000, 'x');
  EXPECT_LT(message_of<IoError>([&] { parse_manifest(long_string, "m"); }).size(), 500U);

  const ScratchFolder scratch;
  const std::string file = scratch.write("manifest.json", "");
  ASSERT_EQ(::truncate(file.c_str(), off_t{1} << 30), 0);  // sparse
  expect_says(message_of<IoError>([&] { read_manifest(scratch.path()); }),
              {file, "larger than 134217728 bytes"});
}

TEST(HostileManifest, a_folder_holds_the_step_of_its_name) {
  const ScratchFolder scratch;
  for (const char* name : {"step-00000003", "step-3", "mine"}) {
    std::filesystem::create_directories(scratch.path(name));
    scratch.write(std::string(name) + "/manifest.json", write_manifest(sound(2)));
  }
  for (const char* name : {"step-00000003", "step-3", "step-3/"})
    expect_says(message_of<IoError>([&] { read_manifest(scratch.path(name)); }),
                {scratch.path(name), "it is of step 2, its folder's name says 3"});
  EXPECT_EQ(read_manifest(scratch.path("mine")).position.step, 2);
}

// HDF5 takes a name for a path, and safetensors reserves one; nothing is written then.
TEST(HostileManifest, names_that_the_exported_files_cannot_hold_are_refused) {
  const ScratchFolder scratch;
  const std::vector<std::vector<std::string>> all = {{""},
                                                     {"."},
                                                     {"/"},
                                                     {"a/"},
                                                     {"/a"},
                                                     {"a//b"},
                                                     {"a/./b"},
                                                     {"a", "a"},
                                                     {"a", "a/b"},
                                                     {"b/c/d", "b"},
                                                     {"__metadata__"},
                                                     {"a\nb", ""},
                                                     {"b", "a/."},
                                                     {std::string("a\0b", 3)}};
  for (const auto& names : all) {
    Manifest m = sound(1);
    m.params.clear();
    for (const std::string& name : names) m.params.push_back({name, 1, {1}});
    const std::string what = message_of<IoError>(
        [&] { consolidate(scratch.path("step-1"), m, scratch.path("whole"), [](auto, auto) {}); });
    expect_says(what, {scratch.path("step-1"), "tensor \"", "model.modules"});
    EXPECT_EQ(what.find("memory"), std::string::npos) << what;
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  }
}

// A pipe would make its reader wait for ever, a device give no end.
TEST(Readers, take_regular_files_only) {
  const ScratchFolder scratch;
  const auto pipe = [&](const std::string& name) {
    EXPECT_EQ(::mkfifo(scratch.path(name).c_str(), 0600), 0);
    return scratch.path(name);
  };
  const auto refused = [](auto call) {
    expect_says(message_of<IoError>(call), {"it is not a regular file"});
  };
  const std::string p = pipe("pipe");
  for (const std::string& path : {p, std::string("/dev/zero"), scratch.path()}) {
    refused([&] { read_regular_file(path, 100, "r"); });
    refused([&] { read_regular_file_if_there(path, 100, "r"); });
  }
  EXPECT_EQ(read_regular_file_if_there(scratch.path("none"), 100, "r"), std::nullopt);
  EXPECT_EQ(read_regular_file(scratch.write("ten", "0123456789"), 10, "r"), "0123456789");
  expect_says(message_of<IoError>([&] { read_regular_file(scratch.path("ten"), 9, "remedy"); }),
              {"ten", "larger than 9 bytes", "remedy"});
  pipe("manifest.json");
  refused([&] { read_manifest(scratch.path()); });
  pipe("latest");
  refused([&] { latest_checkpoint(scratch.path()); });
  // Decks, configs and tokens.
  for (const JsonRules rules : {JsonRules::deck, JsonRules::deepspeed})
    expect_says(message_of<DeckError>([&] { read_json_file(p, rules); }),
                {p, "not a regular file"});
  Deck deck;
  deck.data.source = DataSource::file;
  deck.data.path = p;
  deck.model.sequence = 16;
  expect_says(message_of<DeckError>([&] { make_token_source(deck); }), {p, "not a regular file"});
}

TEST(Readers, bound_depth_size_and_values) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const JsonRules rules : {JsonRules::deck, JsonRules::deepspeed}) {
    expect_says(message_of<DeckError>([&] { parse_json(deep, "d", rules); }), {"nested deeper"});
    std::string many = "[0";
    for (int i = 0; i < 9'000'000; ++i) many += ",0";
    expect_says(message_of<DeckError>([&] { parse_json(many + "]", "d", rules); }),
                {"more than 8388608 values"});
  }
  expect_says(message_of<DeckError>([&] { parse_override("run.steps=" + deep); }),
              {"nested deeper"});
  std::string path = "a";
  for (int i = 0; i < 60'000; ++i) path += ".a";
  expect_says(message_of<DeckError>([&] { parse_override(path + "=1"); }), {"60001 parts"});
  const ScratchFolder scratch;
  const std::string file = scratch.write("deck.json", "{}");
  ASSERT_EQ(::truncate(file.c_str(), off_t{1} << 30), 0);
  for (const JsonRules rules : {JsonRules::deck, JsonRules::deepspeed})
    expect_says(message_of<DeckError>([&] { read_json_file(file, rules); }), {file, "64 MiB"});
}

// A folder with checkpoints of these steps, each one second younger than the one before.
void publish(const ScratchFolder& scratch, const std::vector<int>& steps) {
  CheckpointWriterFolder folder(scratch.path());
  for (int step : steps) {
    std::ofstream(folder.begin(checkpoint_name(step)) + "/x.h5") << "data";
    folder.publish(checkpoint_name(step), write_manifest(sound(step)));
    folder.clean_up(checkpoint_name(step), 0);
  }
}

TEST(Latest, names_a_checkpoint_that_is_there_or_is_an_error) {
  const ScratchFolder scratch;
  publish(scratch, {1, 2});
  std::filesystem::create_directories(scratch.path("other"));
  scratch.write("other/manifest.json", write_manifest(sound(7)));
  for (const std::string& bad :
       {std::string("../other/step-2\n"), scratch.path("other") + "\n",
        std::string("step-00000001/../other\n"), std::string("step-00000001/\n"), std::string(""),
        std::string("\n"), std::string("."), std::string("step-00000002\x1b[2J\n"),
        std::string(300, 'x')}) {
    scratch.write("latest", bad);
    const std::string what = message_of<IoError>([&] { latest_checkpoint(scratch.path()); });
    expect_says(what, {scratch.path("latest"), "newest-good", "checkpoint.resume"});
  }
  scratch.write("latest", "step-00000009\n");
  expect_says(message_of<IoError>([&] { latest_checkpoint(scratch.path()); }),
              {"names step-00000009", "it is not there", "newest-good"});
  std::filesystem::create_directories(scratch.path("step-00000009"));
  expect_says(message_of<IoError>([&] { latest_checkpoint(scratch.path()); }),
              {"names step-00000009", "has no manifest.json"});
}

TEST(Latest, what_is_tried_goes_back_from_it) {
  const ScratchFolder scratch;
  publish(scratch, {1, 2, 3});
  const auto names = [&] { return checkpoints_to_try(scratch.path()); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(), (Names{"step-00000003", "step-00000002", "step-00000001"}));
  scratch.write("latest", "step-00000002\n");
  EXPECT_EQ(names(), (Names{"step-00000002", "step-00000001"}));
  scratch.write("latest", "step-00000009\n");
  EXPECT_EQ(names().size(), 3U);
  scratch.write("latest", "../else\n");
  EXPECT_EQ(names().size(), 3U);
  EXPECT_EQ(checkpoints_to_try(scratch.path("none")), Names{});
}

TEST(Latest, remains_of_a_checkpoint_are_replaced_and_nothing_else) {
  const ScratchFolder scratch;
  publish(scratch, {1, 2});
  std::filesystem::remove(scratch.path("step-00000002/manifest.json"));
  publish(scratch, {2});
  EXPECT_EQ(read_manifest(scratch.path("step-00000002")).position.step, 2);
  std::filesystem::create_directories(scratch.path("step-00000003"));
  scratch.write("step-00000003/notes.txt", "mine");
  expect_says(message_of<IoError>([&] { publish(scratch, {3}); }),
              {"step-00000003", "it is not a checkpoint", "remove or rename it"});
  EXPECT_EQ(slurp(scratch.path("step-00000003/notes.txt")), "mine");
  EXPECT_EQ(latest_checkpoint(scratch.path()), "step-00000002");
}

TEST(Latest, damaged_ones_are_removed_before_good_ones) {
  const ScratchFolder scratch;
  publish(scratch, {1, 2, 3, 4});
  CheckpointWriterFolder folder(scratch.path());
  (void)folder.begin(checkpoint_name(5));
  folder.publish(checkpoint_name(5), write_manifest(sound(5)));
  folder.clean_up(checkpoint_name(5), 2, {"step-00000003", "step-00000004"});
  EXPECT_EQ(published_checkpoints(scratch.path()),
            (std::vector<std::string>{"step-00000002", "step-00000005"}));
}

}  // namespace
}  // namespace shardmark::test::hostile_checkpoint_test
