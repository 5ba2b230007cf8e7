// SPDX-License-Identifier: Apache-2.0
// The section `model` of a deck. Sizes are bounded here so that nothing downstream loops over, or
// casts, a number that is a slip of the finger; counts beyond 63 bits are deck_limits.cpp's.
#include <fmt/format.h>

#include <io/deck_sections.hpp>

namespace shardmark {
namespace {

constexpr IntRange layers_range{1, 100'000};
constexpr IntRange size_range{1,
                              2147483647};  // what the extents of matrix products and tokens hold

void read_gpt2(KeyReader& reader, ModelSpec& model) {
  reader.need_integer("layers", model.layers, layers_range);
  reader.need_integer("hidden", model.hidden, size_range);
  reader.need_integer("heads", model.heads, size_range);
  reader.need_integer("sequence", model.sequence, size_range);
  reader.need_integer("vocab", model.vocab, size_range);
  reader.boolean("tied_head", model.tied_head);
  if (model.hidden % model.heads != 0)
    reader.origin().refuse(
        reader.key("heads"), model.heads,
        fmt::format(
            "must divide {} = {}: each head has hidden / heads channels; change one of them",
            reader.key("hidden"), model.hidden));
}

}  // namespace

void read_model(KeyReader reader, ModelSpec& model) {
  if (!reader.any("family"))
    reader.origin().missing(reader.key("family"), "give \"gpt2\" or \"list\"");
  const std::size_t family = reader.word("family", {{"gpt2"}, {"list"}, {"llama", true}}, 0);
  model.family = family == 0 ? Family::gpt2 : Family::list;
  if (model.family == Family::gpt2)
    read_gpt2(reader, model);
  else
    read_list(reader, model);
  reader.finish();
}

}  // namespace shardmark
