// SPDX-License-Identifier: Apache-2.0
#include <miniapp/models/event_model.hpp>
#include <miniapp/models/list_model.hpp>
#include <miniapp/models/transformer_model.hpp>

namespace shardmark {

std::unique_ptr<Model> make_model(const Deck& deck, const Program& program, const Context& context,
                                  DataWitness* witness) {
  if (deck.run.compute == Compute::none) return std::make_unique<ListModel>(context);
  auto tokens = make_token_source(deck);
  if (witness != nullptr)
    tokens = make_witnessed_source(std::move(tokens), program.mesh.data_parts(),
                                   program.mesh.data_part(), deck, program.batch.micro, *witness);
  return std::make_unique<TransformerModel>(deck, program, context, std::move(tokens));
}

}  // namespace shardmark
