from dataclasses import dataclass, field

from rlfast.utils.print import DataclassPPrintMixin


@dataclass
class Inner:
    size: int = 2


@dataclass
class Record(DataclassPPrintMixin):
    name: str = "a"
    inner: Inner = field(default_factory=Inner)


def test_the_fields_are_printed(capsys):
    Record().pprint_asdict()
    assert capsys.readouterr().out == "Record\n" + "-" * 40 + "\n{'inner': {'size': 2}, 'name': 'a'}\n"


def test_fields_can_be_left_out_and_indented():
    text = Record().pprints_asdict(exclude_fields=["inner", "missing"])
    assert text == "Record\n" + "-" * 40 + "\n{'name': 'a'}"
    assert Record("x" * 100).pprints_asdict(indent=3).splitlines()[2].startswith("{  'inner'")
