// SPDX-License-Identifier: Apache-2.0
// Rules: a resumed run whose ranks divide layers, samples or experts is equal bit for bit to one
// that never stopped; a checkpoint names the parameters of the whole model, so that a run with any
// other mesh reads the same states.
#include <functional>

#include <gtest/gtest.h>

#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <tests/support/checkpoints.hpp>
#include <tests/support/divided.hpp>

namespace shardmark::test::divided_resume_test {
namespace {

constexpr int steps = 4;

// Reads the checkpoint in `from` and writes it again, as a run of `deck` has it, into `into`.
StateHashes written_again(const Deck& deck, const std::string& from, const std::string& into) {
  const std::string source = from + "/" + *latest_checkpoint(from);
  CheckpointedRun run(with_checkpoints(deck, into), MPI_COMM_WORLD);
  const Manifest m = read_manifest(source);
  const Program& program = run.training.program();
  read_states(source, m, wanted_states(program, run.training.executor()), view_of(program.model));
  run.training.runner().resume(m.position, true);
  run.write();
  run.checkpoints.finish();
  return run.training.hashes();
}

// A deck by its stage, and what divides it.
struct Meshed {
  std::string name;
  std::function<Deck(int stage)> deck;
};

// A mesh for each degree, of decks that `divided` makes.
std::vector<Meshed> by_degree(const std::string& what,
                              const std::function<Deck(int stage, int degree)>& divided) {
  std::vector<Meshed> all;
  for (const int d : degrees())
    all.push_back(
        {what + " over " + std::to_string(d), [=](int stage) { return divided(stage, d); }});
  return all;
}

std::vector<Meshed> by_tensors(const std::string& what, const std::function<Deck(int)>& plain) {
  return by_degree(what, [=](int stage, int degree) {
    Deck deck = plain(stage);
    deck.zero.parallel.tensor = degree;
    return deck;
  });
}
std::vector<Meshed> tensors() {
  return by_tensors("tensors", [](int stage) { return llama_deck(stage); });
}
std::vector<Meshed> uneven() {
  return by_tensors("uneven tensors", [](int stage) { return uneven_deck(stage); });
}
// Ranks without heads, which stage 3 does not have.
std::vector<Meshed> one_key() {
  return by_tensors("tensors of one head of keys", [](int stage) { return one_key_deck(stage); });
}
// Shards of ranks with parts of different sizes end at different tokens of the embedding.
Deck long_embedding(int stage) {
  Deck deck = uneven_deck(stage);
  deck.model.vocab = 403;
  deck.model.tied_head = true;
  return deck;
}
std::vector<Meshed> with_long_embedding() {
  return by_tensors("uneven tensors and a long embedding", long_embedding);
}
std::vector<Meshed> samples() {
  return by_degree("samples",
                   [](int stage, int degree) { return by_samples(llama_deck(stage), degree); });
}
// At stage 0 clipping by a norm without experts is refused.
Deck mixture(int stage) {
  Deck deck = mixture_deck(stage, 1, 8, {"model.moe.shared_ffn=0"});
  deck.model.kv_heads = 4;
  if (stage == 0) deck.zero.gradient_clipping = 0;
  return deck;
}
std::vector<Meshed> experts() {
  std::vector<Meshed> all;
  for (const bool near : {false, true})
    for (Meshed& mesh : by_degree(near ? "near experts" : "experts", [=](int stage, int degree) {
           Deck deck = mixture(stage);
           deck.zero.parallel.expert = degree;
           deck.zero.parallel.same_experts_near = near;
           return deck;
         }))
      all.push_back(std::move(mesh));
  return all;
}
std::vector<Meshed> folds() {
  std::vector<Meshed> all;
  for (const int t : degrees())
    for (const int e : degrees())
      all.push_back({"tensors over " + std::to_string(t) + ", experts over " + std::to_string(e),
                     [=](int stage) { return folded(mixture(stage), t, e); }});
  return all;
}

void expect_resumes(const std::vector<Meshed>& meshes, std::initializer_list<Dtype> types,
                    int last_stage = 3) {
  for (const Meshed& mesh : meshes)
    for (int stage = 0; stage <= last_stage; ++stage)
      for (const Dtype dtype : types) {
        SCOPED_TRACE(mesh.name + ", stage " + std::to_string(stage) + " " +
                     std::string(to_string(dtype)));
        const SharedFolder folder;
        Deck deck = mesh.deck(stage);
        if (deck.zero.parallel.same_experts_near && dtype != types.begin()[0]) continue;
        set_precision(deck, dtype, dtype);
        deck.checkpoint.async = stage % 2 == 1;
        deck.run.memory_mode = stage > 1 ? MemoryMode::pooled : MemoryMode::strict;
        if (deck.zero.parallel.sequence > 1) deck.zero.precision.comm = Dtype::fp32;
        const Outcome whole = whole_run(deck, folder.path(), steps);
        EXPECT_EQ(resumed_run(deck, folder.path(), steps), whole);
      }
}

TEST(DividedResume, IsBitwiseEqualWithDividedSamples) {
  expect_resumes(samples(), {Dtype::fp32, Dtype::bf16});
}

TEST(DividedResume, IsBitwiseEqualWithDividedTensors) {
  expect_resumes(tensors(), {Dtype::fp32, Dtype::bf16});
  expect_resumes(with_long_embedding(), {Dtype::bf16});
  expect_resumes(one_key(), {Dtype::bf16}, 2);
}

TEST(DividedResume, IsBitwiseEqualWithDividedExperts) {
  expect_resumes(experts(), {Dtype::fp32, Dtype::bf16});
}

TEST(DividedResume, IsBitwiseEqualWithDividedTensorsAndExperts) {
  expect_resumes(folds(), {Dtype::fp32});
}

// The first values of a part are those of the whole model: a checkpoint of them, which any mesh has
// written, is read as the first values of an undivided run.
void expect_first_values(const std::vector<Meshed>& meshes, const Deck& plain) {
  const StateHashes want = [&] {
    Training undivided(plain, MPI_COMM_WORLD);
    undivided.init();
    return undivided.hashes();
  }();
  for (const Meshed& mesh : meshes) {
    SCOPED_TRACE(mesh.name);
    const SharedFolder first, second;
    {
      CheckpointedRun run(with_checkpoints(mesh.deck(plain.zero.stage), first.path()),
                          MPI_COMM_WORLD);
      run.write();
      run.checkpoints.finish();
    }
    Deck other = plain;
    other.run.seed = plain.run.seed + 1;  // other first values
    EXPECT_EQ(written_again(other, first.path(), second.path()), want);
  }
}

TEST(DividedResume, FirstValuesOfAnyMeshAreThoseOfTheWholeModel) {
  for (const int stage : {0, 2, 3}) {
    SCOPED_TRACE(stage);
    expect_first_values(tensors(), llama_deck(stage));
    expect_first_values(uneven(), uneven_deck(stage));
    if (stage < 3) expect_first_values(one_key(), one_key_deck(stage));
    expect_first_values(experts(), mixture(stage));
    expect_first_values(folds(), folded(mixture(stage), 1, 1));
  }
}

// Any mesh reads the trained states of any other, and writes what the first one reads bit for bit.
void expect_reshards(const std::vector<Meshed>& meshes, int last_stage = 3) {
  for (const Meshed& from : meshes) {
    const SharedFolder first;
    const Deck deck = from.deck(1);
    const Outcome whole = whole_run(deck, first.path(), steps);
    for (const Meshed& to : meshes) {
      if (&from == &to) continue;
      const int stage = &to < &from ? 0 : last_stage;
      SCOPED_TRACE("from " + from.name + " to " + to.name + ", stage " + std::to_string(stage));
      const SharedFolder second;
      written_again(to.deck(stage), first.path(), second.path());
      EXPECT_EQ(resumed_run(deck, second.path(), steps), whole);
    }
  }
}

std::vector<Meshed> with_plain(std::vector<Meshed> meshes, const std::function<Deck(int)>& plain) {
  meshes.push_back({"no axis", plain});
  return meshes;
}

TEST(DividedResume, AnyMeshReadsWhatAnyOtherWrote) {
  expect_reshards(with_plain(tensors(), [](int stage) { return llama_deck(stage); }));
  expect_reshards(with_plain(uneven(), [](int stage) { return uneven_deck(stage); }));
  expect_reshards(with_plain(one_key(), [](int stage) { return one_key_deck(stage); }), 2);
  const std::vector<Meshed> all = experts(), folded = folds();
  std::vector<Meshed> mixtures{all.front(), all.back(), folded.front()};
  if (folded.size() > 1) mixtures.push_back(folded[folded.size() - 2]);  // of unequal degrees
  expect_reshards(with_plain(std::move(mixtures), mixture));
}

// An undivided run goes on where a divided one stopped, and the reverse, within rounding.
TEST(DividedResume, GoesOnWithAnotherMeshAsWithItsOwn) {
  const auto expect_near = [](const Outcome& have, const Outcome& want) {
    ASSERT_EQ(have.losses.size(), want.losses.size());
    for (std::size_t s = 0; s < want.losses.size(); ++s) {
      EXPECT_NEAR(have.losses[s], want.losses[s], 1e-5 * want.losses[s]);
      EXPECT_NEAR(have.norms[s], want.norms[s], 2e-4 * want.norms[s]);
    }
  };
  const auto both_ways = [&](const Deck& plain, const Meshed& mesh) {
    SCOPED_TRACE(mesh.name);
    const SharedFolder undivided, divided;
    const Deck deck = mesh.deck(plain.zero.stage);
    const Outcome want = whole_run(plain, undivided.path(), steps);
    const Outcome have = whole_run(deck, divided.path(), steps);
    expect_near(resumed_run(deck, undivided.path(), steps), want);
    expect_near(resumed_run(plain, divided.path(), steps), have);
  };
  for (const Meshed& mesh : tensors()) both_ways(llama_deck(2), mesh);
  for (const Meshed& mesh : samples()) both_ways(by_samples(llama_deck(1), 1), mesh);
  for (const Meshed& mesh : experts()) both_ways(mixture(2), mesh);
}

}  // namespace
}  // namespace shardmark::test::divided_resume_test
