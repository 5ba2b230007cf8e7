// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>

#include <fmt/core.h>

#include <core/error.hpp>
#include <miniapp/run/bf16_choice.hpp>

namespace shardmark {
namespace {

constexpr const char* variable = "SHARDMARK_BF16_PRODUCTS";

// What rank 0 sends to the others.
struct Decision {
  Bf16Products products = Bf16Products::widened;
  bool forced = false;
  Bf16Speed speed;
};

Decision decide(const Space& space, std::int64_t scratch_cap_bytes) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') {
    const Bf16Speed speed = measure_bf16(space, scratch_cap_bytes);
    return {speed.faster(), false, speed};
  }
  for (const Bf16Products products : {Bf16Products::native, Bf16Products::widened}) {
    if (value != to_string(products)) continue;
    if (products == Bf16Products::native && !has_native_bf16(space))
      throw DeckError(
          fmt::format("environment: {} = native: the matrix library has no bf16 "
                      "products for this processor: give widened, or remove the variable",
                      variable));
    return {products, true, {}};
  }
  throw DeckError(fmt::format("environment: {} = {}: must be native or widened", variable, value));
}

std::string describe(const Decision& d) {
  if (d.forced) return fmt::format("{}, set by {}", to_string(d.products), variable);
  if (!device_is_host) return "";
  if (std::isinf(d.speed.native_s)) return "widened: the matrix library has no native ones here";
  return fmt::format("{}, measured at start-up: native {:.2f} ms, widened {:.2f} ms",
                     to_string(d.products), d.speed.native_s * 1e3, d.speed.widened_s * 1e3);
}

}  // namespace

Bf16Choice choose_bf16_products(const Deck& deck, std::int64_t scratch_cap_bytes,
                                const Space& space, Peers& peers) {
  if (deck.run.compute != Compute::train || deck.zero.precision.computes_in() != Dtype::bf16)
    return {};
  Decision mine;
  peers.agree([&] {
    if (peers.rank() == 0) mine = decide(space, scratch_cap_bytes);
  });
  const Decision decision = peers.gather(mine)[0];
  return {decision.products, describe(decision)};
}

}  // namespace shardmark
