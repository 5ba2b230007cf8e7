// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/text.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <miniapp/advise/max_model.hpp>

namespace shardmark {

double state_bytes_per_parameter(int stage, int ranks) {
  constexpr double params = 2, grads = 2, optimizer = 12;
  const auto shared = [&](double bytes, int from) { return stage >= from ? bytes / ranks : bytes; };
  return shared(params, 3) + shared(grads, 2) + shared(optimizer, 1);
}

double most_parameters(int stage, int ranks, double bytes) {
  return bytes / state_bytes_per_parameter(stage, ranks);
}

MaxModels max_models(const AdviseCase& question) {
  MaxModels found;
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<std::string> sets = question.sets;
    for (const std::string& set : sets_for(question.framework)) sets.push_back(set);
    sets.push_back(fmt::format("deepspeed.zero_optimization.stage={}", stage));
    Deck deck = read_deck(question.deck, sets, DeckUse::plan).deck;
    if (deck.model.family == Family::list)
      throw DeckError(deck.path +
                      ": model.family = \"list\": --max-model needs a family whose number "
                      "of layers can grow: use gpt2 or llama");
    const Budgets budgets = budgets_of(deck, *question.machine, question.ranks_per_node);
    if (!budgets[Tier::device])
      throw DeckError(
          fmt::format("{}: device.memory_gib: missing: --max-model needs the memory of a "
                      "device, here or as memory.device_gib of the deck",
                      question.machine->name));
    MaxModel m;
    m.stage = stage;
    m.by_states =
        most_parameters(stage, question.ranks, static_cast<double>(*budgets[Tier::device]));
    found.deck = deck;
    found.budget = *budgets[Tier::device];
    deck.model.fit = 1.0;
    Profile profile;
    profile.ranks_per_node = std::min(question.ranks, question.ranks_per_node);
    const Batch batch = infer_batch(deck.zero, question.ranks, deck.path);
    found.batch = batch;
    const Fit fit = fit_layers(deck, batch, question.ranks, profile,
                               {*budgets[Tier::device], false, "the machine file"});
    m.layers = fit.layers;
    m.bytes = fit.bytes;
    if (fit.layers > 0) {
      deck.model.fit.reset();
      deck.model.layers = fit.layers;
      m.parameters =
          build_program(deck, batch, question.ranks, 0, profile, Extent::start_up).model.elems;
    }
    found.stages.push_back(m);
  }
  if (std::all_of(found.stages.begin(), found.stages.end(),
                  [](const MaxModel& m) { return m.layers == 0; }))
    throw MemoryError(
        fmt::format("{}: not even one layer fits on {} at any stage: use devices with more memory, "
                    "a narrower model or a smaller micro-batch",
                    question.deck, plural(question.ranks, "device")));
  return found;
}

}  // namespace shardmark
