// SPDX-License-Identifier: Apache-2.0
// Every section and key of DeepSpeed's config class, with valid values, wrong types, bounds, null
// and an unknown key: what the class refuses is refused, and what it accepts is accepted or refused
// by name. `ci/deepspeed-trial` asked the class (tests/data/deepspeed_config_verdicts.json).
#include <algorithm>

#include <fmt/format.h>

#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deepspeed_trial_test {
namespace {

enum class Verdict { accepted, not_modelled, refused };

Json nested(std::string_view path, const Json& value) {
  const std::size_t dot = path.find('.');
  const std::string name(path.substr(0, dot));
  if (dot == std::string_view::npos) return {{name, value}};
  return {{name, nested(path.substr(dot + 1), value)}};
}

// Not merge_patch, which takes null as a wish to remove the key.
void merge(Json& into, const Json& from) {
  for (const auto& item : from.items()) {
    Json& at = into[item.key()];
    if (at.is_object() && item.value().is_object())
      merge(at, item.value());
    else
      at = item.value();
  }
}

Verdict judged(const Json& config, std::string& message) {
  try {
    Origin origin("d.json");
    (void)infer_batch(read_deepspeed(origin, config, Schedule::deepspeed), 1, "d.json");
    return Verdict::accepted;
  } catch (const DeckError& error) {
    message = error.what();
    return message.find("not modelled yet") != std::string::npos ? Verdict::not_modelled
                                                                 : Verdict::refused;
  }
}

const Json& trial() {
  static const Json data = read_json_file(
      std::string(SHARDMARK_TESTS) + "/data/deepspeed_config_verdicts.json", JsonRules::deck);
  return data;
}

// One key with one value, and whether DeepSpeed's class accepts it.
template<class Body>
void for_each_case(Body body) {
  ASSERT_GT(trial()["keys"].size(), 300u);
  for (const Json& key : trial()["keys"]) {
    std::vector<Json> values = trial()["values"];
    if (key.contains("also")) values.push_back(key["also"]);
    const auto verdicts = key["verdicts"].get<std::string>();
    ASSERT_EQ(values.size(), verdicts.size()) << key;
    for (std::size_t i = 0; i < values.size(); ++i) {
      Json config = {{"train_batch_size", 4}};
      if (key.contains("beside")) merge(config, key["beside"]);
      merge(config, nested(key["key"].get<std::string>(), values[i]));
      SCOPED_TRACE(config.dump());
      body(key["key"].get<std::string>(), config, verdicts[i] == '+');
    }
  }
}

TEST(DeepSpeedTrial, what_the_class_refuses_is_refused) {
  for_each_case([](const std::string& key, const Json& config, bool accepted) {
    std::string message;
    if (!accepted && !trial()["refused_without_cuda"].contains(key)) {
      EXPECT_NE(judged(config, message), Verdict::accepted);
    }
  });
}

TEST(DeepSpeedTrial, what_the_class_accepts_is_accepted_or_refused_by_name) {
  for_each_case([](const std::string& key, const Json& config, bool accepted) {
    std::string message;
    if (accepted && !trial()["refused_later"].contains(key)) {
      EXPECT_NE(judged(config, message), Verdict::refused) << message;
    }
  });
}

TEST(DeepSpeedTrial, a_key_that_deepspeed_ignores_is_named) {
  for_each_case([](const std::string& key, const Json& config, bool accepted) {
    std::string message;
    if (!accepted || !key.ends_with("no_such_key")) return;
    if (judged(config, message) != Verdict::accepted) return;
    Origin origin("d.json");
    (void)read_deepspeed(origin, config, Schedule::deepspeed);
    const auto& found = origin.findings();
    EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                            [&](const Finding& f) {
                              return f.kind == FindingKind::ignored &&
                                     f.key.ends_with("no_such_key");
                            }) ||
                config.dump().find("\"auto\"") != std::string::npos);
  });
}

}  // namespace
}  // namespace shardmark::test::deepspeed_trial_test
