// SPDX-License-Identifier: Apache-2.0
// The section `model` of a deck, and what each family of models reads. Sizes are bounded here, so
// that a mistyped number leads neither to endless loops nor to overflowing casts. deck_sections.cpp
// checks counts beyond 63 bits.
#include <fmt/core.h>

#include <core/plan/deck/checked.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

// The sizes that all decoders have.
void read_transformer(KeyReader& reader, Deck& deck) {
  const ModelSpec& model = deck.model;
  reader.read(deck_keys("model", "transformer"), deck);
  if (const Json* layers = reader.any("layers"); layers != nullptr && model.fit)
    reader.refuse(
        "layers", *layers,
        fmt::format("{} chooses the number of layers: give one of the two", reader.key("fit")));
  if (model.family != Family::decoder && model.hidden % model.heads != 0)
    reader.refuse(
        "heads", model.heads,
        fmt::format(
            "must divide {} = {}: each head has hidden / heads channels: change one of them",
            reader.key("hidden"), model.hidden));
}

// Checks the number of key and value heads, which serve as many heads each.
void check_kv_heads(KeyReader& reader, const ModelSpec& model) {
  const std::string key = reader.key("kv_heads");
  if (model.kv_heads > model.heads)
    reader.origin().refuse(key, model.kv_heads, "must be " + describe(IntRange{1, model.heads}));
  if (model.heads % model.kv_heads != 0)
    reader.origin().refuse(key, model.kv_heads,
                           fmt::format("must divide {} = {}: each key head serves as many heads as "
                                       "the others: change one of them",
                                       reader.key("heads"), model.heads));
}

}  // namespace

void read_grouped(KeyReader& reader, Deck& deck, std::string_view family) {
  read_transformer(reader, deck);
  deck.model.kv_heads = deck.model.heads;
  reader.read(deck_keys("model", family), deck);
  check_kv_heads(reader, deck.model);
}

namespace {

void read_llama(KeyReader& reader, Deck& deck) {
  const ModelSpec& model = deck.model;
  read_grouped(reader, deck, "llama");
  if (const std::int64_t channels = model.hidden / model.heads; channels % 2 != 0)
    reader.refuse("heads", model.heads,
                  fmt::format("gives heads of {} channels: must be an even number, "
                              "because rotary positions rotate pairs: change {} or {}",
                              channels, reader.key("heads"), reader.key("hidden")));
}

// A bound of the parameter count of a decoder, without building the model.
std::int64_t decoder_params(const ModelSpec& m) {
  const Decoder& decoder = *decoder_of(m);
  std::int64_t block = 0, ends = 0;
  for (const Role role : roles_of(decoder)) {
    const Width w = width_of(m, role);
    const bool of_layer = in_block(role);
    const char* what = of_layer ? "model.hidden x model.ffn" : "model.vocab";
    // With a bias, a product has as many weights as with one more input.
    const std::int64_t elems = checked_mul(w.out, w.in + 2, what);
    (of_layer ? block : ends) = checked_add(of_layer ? block : ends, elems, what);
  }
  for (const AdapterTarget& t : decoder.adapter.targets) {
    const Width w = width_of(m, t.role);
    std::int64_t rank = 2 + w.in;  // a copy has no more elements than factors of this rank
    for (const LowRankSize& f : t.factors) rank = std::max(rank, f.rank);
    const std::int64_t added = checked_mul(rank, w.out + w.in, "model.adapter");
    (in_block(t.role) ? block : ends) =
        checked_add(in_block(t.role) ? block : ends, added, "model.adapter");
  }
  return checked_add(checked_mul(m.layers, block, "model.layers"), ends, "model: parameters");
}

std::int64_t list_params(const ModelSpec& m) {
  std::int64_t sum = 0;
  for (const ListModule& module : m.modules)
    for (const std::int64_t n : module.numels)
      sum = checked_add(sum, n, "model.modules: parameters");
  return sum;
}

}  // namespace

std::int64_t most_params(const ModelSpec& m) {
  switch (m.family) {
    case Family::gpt2:
    case Family::llama:
    case Family::decoder: return decoder_params(m);
    case Family::list: return list_params(m);
  }
  throw PlanError("model.family: no such family");
}

void read_model(KeyReader reader, Deck& deck) {
  reader.read(deck_keys("model"), deck);
  switch (deck.model.family) {
    case Family::gpt2: read_transformer(reader, deck); break;
    case Family::llama: read_llama(reader, deck); break;
    case Family::list: read_list(reader, deck); break;
    case Family::decoder: read_decoder(reader, deck); break;
  }
  reader.finish();
}

}  // namespace shardmark
