// SPDX-License-Identifier: Apache-2.0
// The section `model` of a deck. Sizes are bounded here, so that a mistyped number leads neither to
// endless loops nor to overflowing casts. deck_limits.cpp checks counts beyond 63 bits.
#include <fmt/format.h>

#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

constexpr IntRange layers_range{1, 100'000};
constexpr IntRange size_range{
    1, 2147483647};  // the extents of matrix products and tokens are 32-bit integers

void read_transformer(KeyReader& reader, ModelSpec& model) {
  reader.real("fit", model.fit, {0, 1, true});
  if (!model.fit) {
    reader.need_integer("layers", model.layers, layers_range);
  } else if (const Json* layers = reader.any("layers")) {
    reader.origin().refuse(
        reader.key("layers"), *layers,
        fmt::format("{} chooses the number of layers: give one of the two", reader.key("fit")));
  }
  reader.need_integer("hidden", model.hidden, size_range);
  reader.need_integer("heads", model.heads, size_range);
  reader.need_integer("sequence", model.sequence, size_range);
  reader.need_integer("vocab", model.vocab, size_range);
  reader.boolean("tied_head", model.tied_head);
  if (model.hidden % model.heads != 0)
    reader.origin().refuse(
        reader.key("heads"), model.heads,
        fmt::format(
            "must divide {} = {}: each head has hidden / heads channels: change one of them",
            reader.key("hidden"), model.hidden));
}

void read_llama(KeyReader& reader, ModelSpec& model) {
  read_transformer(reader, model);
  model.kv_heads = model.heads;
  reader.integer("kv_heads", model.kv_heads, {1, model.heads});
  reader.need_integer("ffn", model.ffn, size_range);
  if (model.heads % model.kv_heads != 0)
    reader.origin().refuse(reader.key("kv_heads"), model.kv_heads,
                           fmt::format("must divide {} = {}: each key head serves as many heads as "
                                       "the others: change one of them",
                                       reader.key("heads"), model.heads));
  if (const std::int64_t channels = model.hidden / model.heads; channels % 2 != 0)
    reader.origin().refuse(reader.key("heads"), model.heads,
                           fmt::format("gives heads of {} channels: must be an even number, "
                                       "because rotary positions rotate pairs: change {} or {}",
                                       channels, reader.key("heads"), reader.key("hidden")));
}

}  // namespace

void read_model(KeyReader reader, ModelSpec& model, std::string_view schedule) {
  if (!reader.any("family"))
    reader.origin().missing(reader.key("family"), "give \"gpt2\", \"llama\" or \"list\"");
  constexpr Family families[] = {Family::gpt2, Family::llama, Family::list};
  model.family = families[reader.word("family", {{"gpt2"}, {"llama"}, {"list"}}, 0)];
  switch (model.family) {
    case Family::gpt2: read_transformer(reader, model); break;
    case Family::llama: read_llama(reader, model); break;
    case Family::list: read_list(reader, model, schedule); break;
  }
  reader.finish();
}

}  // namespace shardmark
