"""What storing, copying and reading an indexed day costs: the parameters of the cost model.

Idea: every measure of a layout is priced with a few constants of one day's data. Where an
archive measured them, they come from its update reports; three published cases are built in.
Derived: CP reads an unpacked day and writes it elsewhere, 2·S′/transfer; SMCP does so with a
packed day, 2·S/transfer. Both ignore the few seeks of a sequential copy.
A probe seeks once per constituent and reads the bucket of each stored day; a scan seeks once
per constituent and reads it whole, S or S′ per stored day. Where an unpacked constituent is one
run per day, as in our archives, each further run may cost a seek of its own.
wave-indices-1997, 4 and Table 8.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from mayfly.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class CostParameters:
    """Constants of one day's data, in seconds and megabytes, and the queries of a day."""

    name: str
    seek: float
    """Seconds to reach a place on disk."""
    transfer: float
    """Megabytes a second."""
    packed_day: float
    """S: megabytes of a packed day."""
    unpacked_day: float
    """S′: megabytes of an unpacked day."""
    build: float
    """Seconds to build a packed index of one day."""
    add: float
    """Seconds to add one day to an index."""
    delete: float
    """Seconds to delete one day from an index."""
    bucket: float
    """c: megabytes of one search value's entries in one day."""
    probes: float = 0
    """Probes a day."""
    scans: float = 0
    """Scans a day."""
    probed_days: int | None = None
    """How many of the newest days a probe asks for; None for the whole window."""
    scanned_days: int | None = None
    """How many of the newest days a scan asks for; None for the whole window."""
    measured_copy: float | None = None
    """CP, if measured: seconds to copy an unpacked day."""
    measured_packed_copy: float | None = None
    """SMCP, if measured: seconds to copy a packed day, leaving out expired entries."""
    seek_run: float = 0
    """Seconds to reach one more day of an unpacked index; the study has none."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, int | float) and not value >= 0:
                raise InvalidSetting(
                    f"cost parameter {entry.name} of {self.name} is {value}",
                    "give a number of 0 or more",
                )
        if not (self.transfer > 0 and self.packed_day > 0):
            raise InvalidSetting(
                f"cost parameters of {self.name}: transfer and packed_day must be positive",
                "measure them on data that is not empty",
            )

    @property
    def copy(self) -> float:
        """CP: seconds to copy an unpacked day."""
        if self.measured_copy is not None:
            return self.measured_copy
        return 2 * self.unpacked_day / self.transfer

    @property
    def packed_copy(self) -> float:
        """SMCP: seconds to copy a packed day, leaving out what has expired."""
        if self.measured_packed_copy is not None:
            return self.measured_packed_copy
        return 2 * self.packed_day / self.transfer

    def size(self, days: int, packed: bool) -> float:
        """Megabytes of an index of so many days."""
        return days * (self.packed_day if packed else self.unpacked_day)

    def reach(self, days: int, packed: bool) -> float:
        """Seconds to reach a constituent of so many days."""
        return self.seek + (0 if packed else max(days - 1, 0) * self.seek_run)

    def probe(self, days: int, packed: bool = True) -> float:
        """Seconds to probe a constituent of so many days."""
        return self.reach(days, packed) + days * self.bucket / self.transfer

    def scan(self, days: int, packed: bool) -> float:
        """Seconds to scan a constituent of so many days."""
        return self.reach(days, packed) + self.size(days, packed) / self.transfer

    def scaled(self, factor: float) -> CostParameters:
        """The same case with ``factor`` times the data a day; the queries stay as they are."""
        per_day = (
            "packed_day", "unpacked_day", "build", "add", "delete", "bucket",
            "measured_copy", "measured_packed_copy",
        )  # fmt: skip
        scaled = {n: getattr(self, n) * factor for n in per_day if getattr(self, n) is not None}
        return replace(self, name=f"{self.name} × {factor:g}", **scaled)


SCAM = CostParameters(
    "SCAM", seek=0.014, transfer=10, packed_day=56, unpacked_day=78.4, build=1686, add=3341,
    delete=3341, bucket=100e-6, probes=100_000, scans=10, scanned_days=1,
)  # fmt: skip
"""Copy detection over a week of news articles; scans look at the newest day only."""

WSE = CostParameters(
    "WSE", seek=0.014, transfer=10, packed_day=75, unpacked_day=105, build=2276, add=4678,
    delete=4678, bucket=100e-6, probes=340_000,
)  # fmt: skip
"""A web search engine over 35 days of news articles: many probes, no scans."""

TPC_D = CostParameters(
    "TPC-D", seek=0.014, transfer=10, packed_day=600, unpacked_day=627, build=8406, add=11431,
    delete=11431, bucket=100e-6, scans=10,
)  # fmt: skip
"""A warehouse query over 100 days of line items: a few scans of everything."""

BUILT_IN_CASES = {case.name: case for case in (SCAM, WSE, TPC_D)}
