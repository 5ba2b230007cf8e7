// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/text.hpp>
#include <io/files/hash.hpp>
#include <io/json/json_source.hpp>
#include <io/keys/shipped.hpp>
#include <miniapp/measure/reference.hpp>

namespace shardmark {
namespace {

using Changes = std::map<std::string, Json>;

// "volume.all_gather.calls is 12 instead of 13" for each figure that differs.
void differing_figures(const Json& have, const Json& want, const std::string& at,
                       std::vector<std::string>& wrong) {
  if (have == want) return;
  if (have.is_object() && want.is_object()) {
    Json all = want;
    all.update(have);
    for (const auto& item : all.items())
      differing_figures(have.value(item.key(), Json()), want.value(item.key(), Json()),
                        at.empty() ? item.key() : at + "." + item.key(), wrong);
    return;
  }
  const auto shown = [](const Json& value) { return value.is_null() ? "nothing" : brief(value); };
  wrong.push_back(fmt::format("{} is {} instead of {}", at, shown(have), shown(want)));
}

Changes changed_work(const AnsweredRun& run, const UsedDeck& shipped) {
  Changes changes;
  for (const ChangedKey& change : changed_keys({run.deck, run.data}, shipped))
    changes[change.key] = change.value;
  return changes;
}

/// One comparison with the answers for a deck.
class ReferenceCheck {
 public:
  ReferenceCheck(const AnsweredRun& run, const UsedDeck& shipped, const Json& answers)
      : run_(run), answers_(answers), changes_(changed_work(run, shipped)) {}

  Check compare() {
    plan();
    for (const Json& answer : answers_.at("runs"))
      if (answer.at("set").get<Changes>() == changes_ &&
          answer.at("train_batch_size") == run_.program.batch.global && same_layers(answer)) {
        losses(answer);
        states(answer);
      }
    using State = Check::State;
    if (!wrong_.empty()) return {"reference", State::fail, join(wrong_, "; ")};
    if (!compared_.empty()) return {"reference", State::pass, join(compared_, ", ")};
    return {"reference", State::not_applicable, "there are no answers for " + what_has_none()};
  }

 private:
  std::string what_has_none() const {
    if (!changes_.empty()) return fmt::format("the deck with another {}", changes_.begin()->first);
    const std::string ranks = std::to_string(run_.program.world);
    const Json& plans = answers_.at("plans");
    if (!plans.contains(ranks) || same_layers(plans[ranks]))
      return plural(run_.program.world, "rank");
    return fmt::format("{}, which follow from the memory: there are for {}",
                       plural(run_.typed.model.layers, "layer"),
                       plans[ranks]["layers"].get<std::int64_t>());
  }

  // Under model.fit the layers follow from the memory that a run has.
  bool same_layers(const Json& answer) const {
    return answer.value("layers", run_.typed.model.layers) == run_.typed.model.layers;
  }

  // The reference plans are those of the profile that `shardmark plan` has without options.
  void plan() {
    const std::string ranks = std::to_string(run_.program.world);
    if (!changes_.empty() || !answers_.at("plans").contains(ranks)) return;
    const Json& answer = answers_["plans"][ranks];
    if (!same_layers(answer)) return;
    Json have = plan_answer(
        build_legal_program(run_.typed, run_.program.batch, run_.program.world, 0, Profile{}));
    if (answer.contains("layers")) have["layers"] = answer["layers"];
    const std::size_t before = wrong_.size();
    differing_figures(have, answer, "", wrong_);
    if (wrong_.size() == before)
      compared_.push_back(fmt::format("calls, volume and memory of the plan on {}",
                                      plural(run_.program.world, "rank")));
  }

  void losses(const Json& answer) {
    std::size_t found = 0;
    const std::size_t before = wrong_.size();
    for (const Json& want : answer.value("losses", Json::array()))
      for (const LossRow& row : run_.rows) {
        if (row.step != want.at("step").get<std::int64_t>()) continue;
        ++found;
        const double loss = want.at("loss"), tolerance = want.at("tolerance");
        if (!(std::abs(row.loss - loss) <= tolerance))
          wrong_.push_back(
              fmt::format("the loss of step {} is {:.7g}, the reference has {:.7g} within {:.2g}",
                          row.step, row.loss, loss, tolerance));
      }
    if (found > 0 && wrong_.size() == before)
      compared_.push_back(found == 1 ? "a loss" : fmt::format("{} losses", found));
  }

  // Exact hashes follow from integers alone. The others depend on the order in which a processor's
  // matrix products add up, so that other bits are no mistake.
  void states(const Json& answer) {
    const auto steps = static_cast<std::int64_t>(run_.rows.size());
    if (!answer.contains("state_hash") || answer.at("ranks") != run_.program.world ||
        answer.at("steps") != steps || steps == 0 || run_.rows.front().step != 0)
      return;
    const bool same = answer["state_hash"] == run_.state_hash;
    if (answer.at("exact") == true) {
      if (same)
        compared_.emplace_back("the hashes of the states");
      else
        differing_figures(run_.state_hash, answer["state_hash"], "state_hash", wrong_);
    } else {
      compared_.push_back(fmt::format("the hashes of the states are {} those of {}",
                                      same ? "" : "not", answer.at("made_on").get<std::string>()));
    }
  }

  const AnsweredRun& run_;
  const Json& answers_;
  const Changes changes_;
  std::vector<std::string> compared_, wrong_;
};

}  // namespace

Json plan_answer(const Program& program) {
  const Json all = print_json(program, {}, hash_hex(print_text(program)));
  Json answer{{"plan_hash", all.at("plan_hash")}, {"volume", all.at("volume").at("steady")}};
  for (const auto& [tier, figures] : all.at("memory").items())
    for (const char* figure : {"peak", "arena"})
      if (figures.contains(figure)) answer["memory"][tier][figure] = figures[figure];
  return answer;
}

Check judge_by_reference(const AnsweredRun& run, const UsedDeck& shipped, const Json& answers) {
  try {
    return ReferenceCheck(run, shipped, answers).compare();
  } catch (const Json::exception& e) {
    throw DeckError(fmt::format(
        "the reference answers for {}: a figure is missing or has another form ({}): install the "
        "program again",
        brief(run.deck.value("name", Json())), e.what()));
  }
}

std::optional<Check> check_reference(const AnsweredRun& run) {
  const std::optional<UsedDeck> shipped = shipped_deck_of(run.deck);
  if (!shipped) return std::nullopt;
  const std::string file =
      shipped_folder() + "/reference/" + run.deck["name"].get<std::string>() + ".json";
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return std::nullopt;
  return judge_by_reference(run, *shipped, read_json_file(file, JsonRules::deck));
}

}  // namespace shardmark
