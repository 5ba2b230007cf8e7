// SPDX-License-Identifier: Apache-2.0
// How a run computes products of bf16 matrices: the same way on all ranks, since the bits differ.
#pragma once

#include <string>

#include <core/nn/products/bf16_products.hpp>
#include <core/plan/deck/deck.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// The choice, with its reason.
struct Bf16Choice {
  Bf16Products products = Bf16Products::widened;
  std::string reason;  // for reports: what was chosen and why; empty if nothing is bf16
};

/// Collective. Rank 0 decides: by SHARDMARK_BF16_PRODUCTS (native or widened) if that is set, else
/// by measuring both. Throws AgreedError if the variable asks for products that are not available.
Bf16Choice choose_bf16_products(const Deck& deck, std::int64_t scratch_cap_bytes,
                                const Space& space, Peers& peers);

}  // namespace shardmark
