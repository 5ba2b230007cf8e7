// SPDX-License-Identifier: Apache-2.0
#include <miniapp/models/list_model.hpp>
#include <miniapp/models/make_model.hpp>
#include <miniapp/models/transformer_model.hpp>

namespace shardmark {

std::unique_ptr<Model> make_model(const Deck& deck, const Program& program,
                                  const Context& context) {
  if (deck.run.compute == Compute::none) return std::make_unique<ListModel>(deck, context);
  return std::make_unique<TransformerModel>(deck, program, context, make_token_source(deck));
}

}  // namespace shardmark
