// SPDX-License-Identifier: Apache-2.0
// (h) Changes of a submission: structural ones of its report, form and deck with checksums that
// fit, lines and bytes of losses.csv and of the archive itself. `verify` says VERIFIED or REFUSED
// in bounded time and memory, whatever it reads.
#include <io/files/hash.hpp>
#include <tests/campaign/hostile_json.hpp>
#include <tests/miniapp/tools/submission/mended_archive.hpp>

namespace shardmark::test::report_campaign_test {
namespace {

class ReportChanges {
 public:
  explicit ReportChanges(Campaign& campaign) : campaign_(campaign) {
    const std::string deck = place_.deck(
        2, {{"run", {{"steps", 12}, {"warmup", 3}}}, {"checkpoint", {{"dir", "c"}, {"every", 5}}}});
    const Outcome ran = run({.args = {"run", deck, "--out", place_.out()}, .ranks = 2});
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    const Outcome packed =
        run({.args = {"submit", place_.out(), "--out", place_.path("ours.zip")}});
    EXPECT_EQ(packed.status, 0) << packed.out << packed.err;
    files_ = read_archive(place_.path("ours.zip"));
  }

  void run_case() {
    ArchiveFiles files = files_;
    const std::int64_t kind = campaign_.random(8);
    std::string what, bytes;
    if (kind < 4) {
      change_run(files, "runs/1", [&](Json& report, std::string&) { what = changed(report); });
    } else if (kind == 4) {
      change_run(files, "runs/1", [&](Json&, std::string& losses) { what = damaged(losses); });
    } else if (kind == 5) {
      what = "form: " + changed_file(files, "submission.json");
    } else if (kind == 6) {
      what = "deck: " + changed_file(files, "runs/1/deck.json");
      mend_index(files);
    }
    write_archive(place_.path("changed.zip"), files);
    if (kind == 7) {
      bytes = read_text(place_.path("changed.zip"));
      what = "archive: " + damaged(bytes);
      place_.write("changed.zip", bytes);
    }
    campaign_.run_case(what, [&] { expect_judged(); });
  }
  int verified() const { return verified_; }

 private:
  void expect_judged() {
    const Outcome o = run({.args = {"verify", place_.path("changed.zip")},
                           .memory_limit_bytes = std::int64_t{1} << 30,
                           .cpu_limit_s = 10});
    SCOPED_TRACE(o.out + o.err);
    EXPECT_FALSE(o.timed_out);
    ASSERT_TRUE(o.status == 0 || o.status == 1 || o.status == 4) << o.status;
    for (const std::string& line : lines_of(o.err)) EXPECT_TRUE(line.starts_with("shardmark: "));
    const auto lines = lines_of(o.out);
    if (o.status < 4) {
      ASSERT_FALSE(lines.empty());
      EXPECT_TRUE(lines.back().starts_with(o.status == 0 ? "VERIFIED" : "REFUSED"));
    }
    verified_ += o.status == 0 ? 1 : 0;
  }

  std::string changed(Json& json) {
    std::string what;
    const std::int64_t changes = 1 + campaign_.random(2);
    for (std::int64_t i = 0; i < changes; ++i) what += change_structure(campaign_, json);
    return what;
  }
  std::string changed_file(ArchiveFiles& files, const std::string& name) {
    Json json = Json::parse(files.at(name));
    const std::string what = changed(json);
    files[name] = json.dump();
    return what;
  }
  std::string damaged(std::string& text) {
    const auto size = static_cast<std::int64_t>(text.size());
    const auto at = static_cast<std::size_t>(campaign_.random(size));
    const std::int64_t kind = campaign_.random(4);
    if (kind == 0) text[at] = static_cast<char>(text[at] ^ (1 << campaign_.random(8)));
    if (kind == 1) text.resize(at);
    if (kind == 2)
      text.insert(at, text.substr(static_cast<std::size_t>(campaign_.random(size)), 40));
    if (kind == 3) text.erase(at, 1 + static_cast<std::size_t>(campaign_.random(60)));
    return "bytes, change " + std::to_string(kind) + " at " + std::to_string(at);
  }

  Campaign& campaign_;
  const Workplace place_;
  ArchiveFiles files_;
  int verified_ = 0;
};

TEST(CampaignReport, AnyChangeIsJudged) {
  Campaign campaign("reports", 100);
  ReportChanges changes(campaign);
  while (campaign.more()) changes.run_case();
  std::printf("%d of these submissions were verified\n", changes.verified());
}

}  // namespace
}  // namespace shardmark::test::report_campaign_test
