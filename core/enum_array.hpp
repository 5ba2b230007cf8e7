// SPDX-License-Identifier: Apache-2.0
// Enums as indices of arrays, as rows of tables and as text. An enum takes part if its values are
// 0, 1, 2, … and if `value_names` is specialized beside it, or `enum_size` if its values have no
// names.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardmark {

/// The names of the values of the enum E, in their order: a name_list.
template<class E>
inline constexpr std::array<std::string_view, 0> value_names{};
template<class... Names>
constexpr std::array<std::string_view, sizeof...(Names)> name_list(Names... names) {
  return {std::string_view(names)...};
}

/// The spelling of a value that users see.
template<class E>
requires(value_names<E>.size() > 0) constexpr std::string_view to_string(E value) {
  // A damaged checkpoint or a test may hold a number that is no value of the enum.
  const auto number = static_cast<std::size_t>(value);
  return number < value_names<E>.size() ? value_names<E>[number] : "?";
}

/// The number of values of the enum E.
template<class E>
inline constexpr std::size_t enum_size = value_names<E>.size();

/// An array with one element for each value of E. It is indexed by values of E, or by their numbers
/// as every array is.
template<class E, class T>
struct EnumArray : std::array<T, enum_size<E>> {
  static_assert(enum_size<E> > 0, "specialize value_names or enum_size beside the enum");
  using Elements = std::array<T, enum_size<E>>;
  using Elements::operator[];
  constexpr T& operator[](E value) { return (*this)[static_cast<std::size_t>(value)]; }
  constexpr const T& operator[](E value) const { return (*this)[static_cast<std::size_t>(value)]; }
};

/// The values of E in their order, to loop over.
template<class E>
inline constexpr EnumArray<E, E> all_values = [] {
  EnumArray<E, E> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<E>(i);
  return values;
}();

/// A table with one row for each value of E, in their order. A table that lacks a row does not
/// compile.
template<class E, class Row, class... Rows>
constexpr EnumArray<E, Row> enum_table(Row first, Rows... others) {
  static_assert(1 + sizeof...(others) == enum_size<E>, "the table needs one row for each value");
  return {{first, Row(others)...}};
}

/// The names of the values of E, in their order.
template<class E, class... Names>
constexpr EnumArray<E, std::string_view> enum_names(Names... names) {
  return enum_table<E>(std::string_view(names)...);
}

}  // namespace shardmark
