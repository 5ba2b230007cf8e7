// SPDX-License-Identifier: Apache-2.0
// An honest run of two ranks with copies, checkpoints and a prediction, made once, whose report the
// tests forge.
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <tests/miniapp/tools/submission/mended_archive.hpp>
#include <tests/support/program.hpp>

namespace shardmark::test {

constexpr int forged_steps = 12, forged_warmup = 3;

class Forged : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const std::string deck = place_->deck(
        2, {{"deepspeed", {{"zero_optimization", {{"offload_optimizer", {{"device", "cpu"}}}}}}},
            {"run", {{"steps", forged_steps}, {"warmup", forged_warmup}}},
            {"checkpoint", {{"dir", "ckpt"}, {"every", 5}}}});
    const Outcome ran =
        run({.args = {"run", deck, "--out", place_->out(), "--machine",
                      std::string(SHARDMARK_TEST_INPUTS) + "/machines/cpu-2-socket.json"},
             .ranks = 2});
    ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
    const Outcome packed =
        run({.args = {"submit", place_->out(), "--out", place_->path("ours.zip")}});
    ASSERT_EQ(packed.status, 0) << packed.out << packed.err;
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }

  static Outcome verify(const std::function<void(Json& report, std::string& losses)>& change) {
    ArchiveFiles files = read_archive(place_->path("ours.zip"));
    change_run(files, "runs/1", change);
    write_archive(place_->path("forged.zip"), files);
    return run({.args = {"verify", place_->path("forged.zip")}});
  }

  static void expect_refused(const std::function<void(Json& report, std::string& losses)>& change,
                             const std::string& why) {
    const Outcome o = verify(change);
    EXPECT_EQ(o.status, 1) << why << "\n" << o.out << o.err;
    EXPECT_NE(o.out.find(why), std::string::npos) << "not found: " << why << "\n" << o.out;
  }

  static void expect_refused(const char* pointer, const Json& value, const std::string& why) {
    expect_refused(
        [&](Json& r, std::string&) {
          ASSERT_TRUE(r.contains(Json::json_pointer(pointer))) << pointer;
          r[Json::json_pointer(pointer)] = value;
        },
        why);
  }
  // Multiplies a figure of the report.
  static void expect_scaled_refused(const char* pointer, double factor, const std::string& why) {
    expect_refused(
        [&](Json& r, std::string&) {
          Json& figure = r.at(Json::json_pointer(pointer));
          ASSERT_GT(figure.get<double>(), 0) << pointer;
          figure = figure.get<double>() * factor;
        },
        why);
  }

  static inline Workplace* place_ = nullptr;
};

}  // namespace shardmark::test
