// SPDX-License-Identifier: Apache-2.0
// Members of a deck's structures as places of keys: `in<&ZeroKnobs::reduce_bucket_size>`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

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
  else if constexpr (std::is_same_v<Part, ModelSpec>)
    return deck.model;
  else if constexpr (std::is_same_v<Part, DataSpec>)
    return deck.data;
  else if constexpr (std::is_same_v<Part, MemorySpec>)
    return deck.memory;
  else if constexpr (std::is_same_v<Part, CheckpointSpec>)
    return deck.checkpoint;
  else if constexpr (std::is_same_v<Part, TorchSpec>)
    return deck.torch;
  else if constexpr (std::is_same_v<Part, PerturbSpec>)
    return deck.perturb;
  else if constexpr (std::is_same_v<Part, CongestionSpec>)
    return deck.congestion;
  else if constexpr (std::is_same_v<Part, RunSpec>)
    return deck.run;
  else if constexpr (std::is_same_v<Part, CommSpec>)
    return deck.comm;
  else if constexpr (std::is_same_v<Part, MachineSpec>)
    return deck.machine;
  else if constexpr (std::is_same_v<Part, ExpectSpec>)
    return deck.expect;
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

/// What a pointer to a member, or an index of an EnumArray, leads to.
template<auto Step, class Whole>
constexpr auto& step(Whole& whole) {
  if constexpr (std::is_enum_v<decltype(Step)>)
    return whole[Step];
  else
    return whole.*Step;
}

template<class Whole>
constexpr auto& along(Whole& whole) {
  return whole;
}
template<auto First, auto... More, class Whole>
constexpr auto& along(Whole& whole) {
  return along<More...>(step<First>(whole));
}

/// The member behind the pointers and indices, one after another.
template<auto First, auto... More, class AnyDeck>
constexpr auto& at(AnyDeck& deck) {
  return along<First, More...>(part_of<typename OfPointer<decltype(First)>::Part>(deck));
}

template<class T>
struct Plain {
  using Type = T;
};
template<class T>
struct Plain<std::optional<T>> {
  using Type = T;
};

template<class T>
constexpr KeyType type_of() {
  if constexpr (std::is_enum_v<T>)
    return KeyType::word;
  else if constexpr (std::is_same_v<T, bool>)
    return KeyType::boolean;
  else if constexpr (std::is_integral_v<T>)
    return KeyType::integer;
  else if constexpr (std::is_floating_point_v<T>)
    return KeyType::number;
  else if constexpr (std::is_same_v<T, std::string>)
    return KeyType::text;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return KeyType::names;
  else
    return KeyType::object;  // its own section has the keys of the structure
}

template<class T>
Json get(const T& field) {
  if constexpr (type_of<T>() == KeyType::object)
    return {};
  else if constexpr (std::is_enum_v<T>)
    return std::string(to_string(field));
  else
    return field;
}
template<class T>
Json get(const std::optional<T>& field) {
  return field ? get(*field) : Json();
}

// Null leaves the field as it is. One name is a list of one.
template<class T>
void set([[maybe_unused]] T& field, const Json& value) {
  if (value.is_null()) return;
  if constexpr (type_of<T>() == KeyType::object) {
  } else if constexpr (std::is_enum_v<T>) {
    for (const T each : all_values<T>)
      if (value == to_string(each)) field = each;
  } else if constexpr (type_of<T>() == KeyType::names) {
    field.clear();
    for (const Json& name : value.is_array() ? value : Json::array({value}))
      field.push_back(name.get<std::string>());
  } else {
    value.get_to(field);
  }
}
template<class T>
void set(std::optional<T>& field, const Json& value) {
  field.reset();
  if (!value.is_null()) set(field.emplace(), value);
}

// The words of an enum, in its order.
template<class T>
std::vector<std::string_view> words() {
  std::vector<std::string_view> names;
  if constexpr (std::is_enum_v<T>)
    for (const T each : all_values<T>) names.push_back(to_string(each));
  return names;
}

template<auto... Path>
using TypeAt = std::remove_cvref_t<decltype(at<Path...>(std::declval<Deck&>()))>;

}  // namespace members

/// The member of a deck behind these pointers to members, of which the first one is a member of
/// `Deck` or of a structure that a deck has once. An index of an EnumArray may follow.
template<auto... Path>
inline constexpr Member in{
    members::type_of<typename members::Plain<members::TypeAt<Path...>>::Type>(),
    [](const Deck& deck) { return members::get(members::at<Path...>(deck)); },
    [](Deck& deck, const Json& value) { members::set(members::at<Path...>(deck), value); },
    members::words<members::TypeAt<Path...>>};

}  // namespace shardmark
