"""Values of any type that msgspec decodes, within the limits that its fields declare.

``values_of(Sent)``      messages of every kind, with any sound value in every field
``kinds_of(Sent)``       the members of a union
"""

from collections.abc import Mapping
from typing import Any, cast, get_args

from hypothesis import strategies as st
from msgspec import inspect

Values = st.SearchStrategy[Any]  # Any: of each field's own type.
Overrides = Mapping[tuple[type[object], str], Values]
"""Values of fields, by struct and name, of which a struct accepts only some."""
SIZE_MAX = 4
"""Of a generated text or collection, unless it has to be longer."""
INT64 = (-(1 << 63), (1 << 64) - 1)


def kinds_of(union: object) -> tuple[type[Any], ...]:
    """Return the types that a union consists of; a single type is its own only one."""
    return get_args(union) or (cast("type[Any]", union),)


def values_of(kind: object, overrides: Overrides) -> Values:
    """Return values of a type."""
    return _values(inspect.type_info(kind), overrides)


def _values(info: inspect.Type, overrides: Overrides) -> Values:
    match info:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return _integers(info)
        case inspect.FloatType():
            return st.floats(info.ge, info.le, allow_nan=False)
        case inspect.StrType(pattern=str(pattern)):
            return st.from_regex(pattern)
        case inspect.StrType():
            return st.text(min_size=info.min_length or 0, max_size=_size(info))
        case inspect.BytesType():
            return st.binary(min_size=info.min_length or 0, max_size=_size(info))
        case inspect.EnumType():
            return st.sampled_from(info.cls)
        case inspect.UnionType():
            return st.one_of([_values(each, overrides) for each in info.types])
        case inspect.StructType():
            return _structs(info, overrides)
        case inspect.NamedTupleType():
            fields = {each.name: _values(each.type, overrides) for each in info.fields}
            return st.builds(info.cls, **fields)
        case inspect.TupleType():
            return st.tuples(*(_values(each, overrides) for each in info.item_types))
        case inspect.VarTupleType():
            return _lists(info, overrides).map(tuple)
        case inspect.LiteralType():
            return st.sampled_from(info.values)
        case inspect.ListType():
            return _lists(info, overrides)
        case inspect.DictType():
            key, value = (_values(each, overrides) for each in (info.key_type, info.value_type))
            return st.dictionaries(key, value, max_size=SIZE_MAX)
        case _:
            raise TypeError(f"no values of {info}; add them here")


def _structs(info: inspect.StructType, overrides: Overrides) -> Values:
    return st.builds(
        info.cls,
        **{
            each.name: overrides[place] if place in overrides else _values(each.type, overrides)
            for each in info.fields
            for place in [(info.cls, each.name)]
        },
    )


def _lists(info: inspect.VarTupleType | inspect.ListType, overrides: Overrides) -> Values:
    items = _values(info.item_type, overrides)
    return st.lists(items, min_size=info.min_length or 0, max_size=_size(info))


def _integers(info: inspect.IntType) -> Values:
    low = INT64[0] if info.ge is None else info.ge
    if info.le is not None:
        return st.integers(low, info.le)
    return st.integers(low, INT64[1] if info.lt is None else info.lt - 1)


def _size(
    info: inspect.StrType | inspect.BytesType | inspect.VarTupleType | inspect.ListType,
) -> int:
    size = max(SIZE_MAX, info.min_length or 0)
    return size if info.max_length is None else min(size, info.max_length)
