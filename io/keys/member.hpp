// SPDX-License-Identifier: Apache-2.0
// Members of a deck's structures as places of keys: `in<&ZeroKnobs::reduce_bucket_size>`.
#pragma once

#include <optional>
#include <type_traits>

#include <io/keys/key.hpp>

namespace shardmark {

/// The one structure of type Part in a deck.
template<class Part, class AnyDeck>
constexpr auto& part_of(AnyDeck& deck) {
  if constexpr (std::is_same_v<Part, ZeroSpec>)
    return deck.zero;
  else if constexpr (std::is_same_v<Part, ZeroKnobs>)
    return deck.zero.knobs;
  else if constexpr (std::is_same_v<Part, AioSpec>)
    return deck.zero.aio;
  else if constexpr (std::is_same_v<Part, LossScaleSpec>)
    return deck.zero.precision.loss_scale;
  else if constexpr (std::is_same_v<Part, OptimizerSpec>)
    return deck.zero.optimizer;
  else if constexpr (std::is_same_v<Part, SchedulerSpec>)
    return deck.zero.scheduler;
  else
    return deck;
}

namespace members {

template<class T>
struct OfPointer;
template<class Whole, class T>
struct OfPointer<T Whole::*> {
  using Part = Whole;
};

/// The member behind the pointers, one after another.
template<auto First, auto... More, class AnyDeck>
constexpr auto& at(AnyDeck& deck) {
  auto& part = part_of<typename OfPointer<decltype(First)>::Part>(deck);
  return ((part.*First).*....*More);
}

template<class T>
constexpr KeyType type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return KeyType::boolean;
  else if constexpr (std::is_integral_v<T>)
    return KeyType::integer;
  else if constexpr (std::is_floating_point_v<T>)
    return KeyType::number;
  else
    return KeyType::text;
}

}  // namespace members

/// The member of a deck behind these pointers to members, of which the first one is a member of
/// `Deck` or of a structure that a deck has once.
template<auto... Path>
inline constexpr Member in{
    members::type_of<std::remove_cvref_t<decltype(members::at<Path...>(std::declval<Deck&>()))>>(),
    [](const Deck& deck) { return Json(members::at<Path...>(deck)); },
    [](Deck& deck, const Json& value) { value.get_to(members::at<Path...>(deck)); }};

}  // namespace shardmark
