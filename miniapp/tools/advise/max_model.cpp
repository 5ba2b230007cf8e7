// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/text.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/tools/advise/max_model.hpp>

namespace shardmark {

double state_bytes_per_parameter(int stage, int ranks) {
  constexpr double params = 2, grads = 2, optimizer = 12;
  const auto shared = [&](double bytes, int from) { return stage >= from ? bytes / ranks : bytes; };
  return shared(params, 3) + shared(grads, 2) + shared(optimizer, 1);
}

double most_parameters(int stage, int ranks, int tensor, double bytes) {
  return bytes * tensor / state_bytes_per_parameter(stage, ranks / tensor);
}

namespace {

Deck deck_at(const AdviseCase& question, int stage) {
  DeckChanges changes = changes_for(question.framework);
  changes.emplace_back(key_path<&ZeroSpec::stage>(), std::to_string(stage));
  Deck deck = changed_deck(question, changes).deck;
  if (deck.model.family == Family::list)
    throw DeckError(deck.path +
                    ": model.family = \"list\": --max-model needs a family whose number "
                    "of layers can grow: use gpt2 or llama");
  return deck;
}

std::int64_t device_budget(const Deck& deck, const AdviseCase& question) {
  const Budgets budgets = budgets_of(deck, *question.machine, question.ranks_per_node);
  if (!budgets[Tier::device])
    throw DeckError(
        fmt::format("{}: device.memory_gib: missing: --max-model needs the memory of a "
                    "device, here or as memory.device_gib of the deck",
                    question.machine->name));
  return *budgets[Tier::device];
}

MaxModel largest(Deck deck, const Batch& batch, const AdviseCase& question, std::int64_t budget) {
  MaxModel m;
  m.stage = deck.zero.stage;
  const ParallelSpec& parallel = deck.zero.parallel;
  if (parallel.expert == 1)
    m.by_states = most_parameters(m.stage, question.ranks, static_cast<int>(parallel.tensor),
                                  static_cast<double>(budget));
  deck.model.fit = 1.0;
  const Profile profile{.ranks_per_node = question.per_node()};
  const Fit fit =
      fit_layers(deck, batch, question.ranks, profile, {budget, false, "the machine file"});
  m.layers = fit.layers;
  m.bytes = fit.bytes;
  if (fit.layers == 0) return m;
  deck.model.fit.reset();
  deck.model.layers = fit.layers;
  m.parameters =
      build_program(deck, batch, question.ranks, 0, profile, Extent::start_up).model.parameters;
  return m;
}

}  // namespace

MaxModels max_models(const AdviseCase& question) {
  MaxModels found;
  bool any = false;
  for (int stage = 0; stage <= 3; ++stage) try {
      const Deck deck = deck_at(question, stage);
      found.budget = device_budget(deck, question);
      found.batch = infer_batch(deck, question.ranks);
      found.deck = deck;
      found.stages.push_back(largest(deck, found.batch, question, found.budget));
      any = true;
    } catch (const DeckError& error) {
      if (stage == 3 && !any) throw;
      found.stages.push_back({.stage = stage, .refusal = error.what()});
    }
  if (std::ranges::all_of(found.stages, [](const MaxModel& m) { return m.layers == 0; }))
    throw MemoryError(
        fmt::format("{}: not even one layer fits on {} at any stage: use devices with more memory, "
                    "a narrower model or a smaller micro-batch",
                    question.deck, plural(question.ranks, "device")));
  return found;
}

}  // namespace shardmark
