"""What stores do to readers: they are busy, stall, go away, let credentials expire; and the options that reach them."""

from __future__ import annotations

import pickle
import random
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from objectstore import Fault, Request, Server, serving

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.storage import object_store, pacing, requests
from unirecord.storage.object_store import ObjectStore, ObjectWrites
from unirecord.storage.storage_options import storage_of
from unirecord.storage.store import Store, failure

ROWS = 300
QUICK = {"max_retries": 60, "backoff": {"init_backoff": 0.001, "max_backoff": 0.002}}
SECRET = "wJalrXUtnFEMI-do-not-show"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    (root / "bucket").mkdir()
    rng = random.Random(1)
    with Writer(root / "bucket" / "a.urec", {"x": "bytes", "n": "int64"}) as writer:
        for i in range(ROWS):
            writer.write({"x": rng.randbytes(500), "n": i})
    return root


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store, "_stores", {})
    monkeypatch.setattr(requests, "_made", [])
    with serving(root) as server:
        yield server
        for made in requests._made:
            made.stop()


def options(server: Server, **more: Any) -> dict[str, Any]:
    return {"endpoint": server.url, "region": "r", "skip_signature": "true", "retry_config": QUICK, **more}


def epoch(server: Server, **more: Any) -> list[int]:
    with UniRecordDataset(
        "s3://bucket/a.urec", shuffle=True, seed=1, storage_options=options(server, **more)
    ) as ds:
        return [int(n) for batch in ds.batches(16) for n in batch["n"]]


def all_have_ended() -> None:
    """No request is left: copies that lost are given up, which their client says a moment after the answer is there."""
    end = time.monotonic() + 60
    while requests.requests()._pace.in_flight:
        assert time.monotonic() < end, "a request is waited for that was given up"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def expected(root: Path) -> list[int]:
    with UniRecordDataset(root / "bucket" / "a.urec", shuffle=True, seed=1) as ds:
        return [int(n) for batch in ds.batches(16) for n in batch["n"]]


def test_a_store_that_says_slow_down_is_asked_less_by_all(server: Server, expected: list[int]) -> None:
    told: list[int] = []

    def busy(request: Request) -> Fault | None:
        if server._in_flight > 4 and len(told) < 400:
            told.append(server._in_flight)
            return Fault(status=503)
        return Fault(pause=0.001)

    server.fault = busy
    assert epoch(server) == expected
    assert told
    pace = requests.requests()._pace
    assert pace.limit < pace.most
    all_have_ended()


def test_a_request_that_stalls_is_made_a_second_time(
    server: Server, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "STALLED", 0.05)
    stalled: set[Any] = set()

    def stall(request: Request) -> Fault | None:
        place = (request.method, request.key, request.start)
        if request.number % 40 == 20 and place not in stalled:
            stalled.add(place)
            return Fault(pause=3_600)
        return None

    server.fault = stall
    assert epoch(server) == expected
    assert stalled
    assert requests.requests().hedged >= len(stalled)
    assert requests.requests()._hedges == 0
    # the first copies were given up, not waited for
    all_have_ended()


def test_a_bucket_that_goes_away_and_comes_back_ends_no_epoch(server: Server, expected: list[int]) -> None:
    away = iter(range(300))
    server.fault = lambda request: (
        Fault(hang_up=True) if request.number > 12 and next(away, None) is not None else None
    )
    assert epoch(server) == expected
    assert next(away, None) is None


def test_a_bucket_that_stays_away_is_an_error_that_says_what_was_asked(server: Server) -> None:
    with UniRecordDataset(
        "s3://bucket/a.urec", storage_options=options(server, retry_config={**QUICK, "max_retries": 3})
    ) as ds:
        server.fault = lambda request: Fault(status=500)
        before = len(server.requests)
        with pytest.raises(
            OSError, match=r"could not be had: the store answered 500 .*s3://bucket/a\.urec"
        ) as caught:
            ds[ROWS - 1]
        assert "bytes" in str(caught.value)
    # one of them, four times; the others of the same moment have as many attempts
    assert max(_times(server.requests[before:]).values()) == 4


def _no_store(server: Server) -> str:
    """An endpoint where nothing listens: bound, so that nobody else can."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    _bound.append(bound)
    return f"http://127.0.0.1:{bound.getsockname()[1]}"


_bound: list[socket.socket] = []
SILENT = {
    "nothing listens": (None, "Connection refused"),
    "it hangs up": (Fault(hang_up=True), "error sending request"),
    "it never answers": (Fault(pause=3_600), "it has not answered within"),
}


@pytest.mark.parametrize("how", SILENT)
def test_a_store_that_never_answered_is_told_of_and_soon_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    monkeypatch.setattr(requests, "FIRST_WORD_SECONDS", 0.2)
    monkeypatch.setattr(
        object_store, "RETRIES", {"max_retries": 10**6, "backoff": QUICK["backoff"], "retry_timeout": 10**6}
    )
    monkeypatch.setattr(Store, "contact", 0.5)
    fault, why = SILENT[how]
    server.fault = lambda request: fault
    given = options(server, endpoint=server.url if fault else _no_store(server))
    del given["retry_config"]
    with caplog.at_level("WARNING", "unirecord"), pytest.raises(OSError, match=why) as caught:
        UniRecordDataset("s3://bucket/a.urec", storage_options=given)
    assert "is the store there" in str(caught.value)
    told = [record.getMessage() for record in caplog.records]
    assert [text.startswith("s3://bucket has given no answer yet") for text in told] == [True]


def test_a_busy_store_is_told_of_once_and_waited_for(
    server: Server, expected: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests, "FIRST_WORD_SECONDS", 0.0)
    monkeypatch.setattr(Store, "contact", 0.2)
    busy = iter(range(300))
    server.fault = lambda request: Fault(status=503, pause=0.01) if next(busy, None) is not None else None
    with caplog.at_level("WARNING", "unirecord"):
        assert epoch(server, retry_config={**QUICK, "max_retries": 1_000}) == expected
    assert next(busy, None) is None
    assert len(caplog.records) == 1


def test_a_store_that_never_answered_is_waited_for_as_long_as_the_user_says() -> None:
    assert pacing.retries_of({"retry_timeout": 90}).contact == 90
    assert pacing.retries_of({"max_retries": 2}).contact < pacing.retries_of({}).patience


def _times(asked: list[Request]) -> dict[Any, int]:
    places = [(r.key, r.start, r.stop) for r in asked]
    return {place: places.count(place) for place in places}


def test_a_wrong_bit_is_found_whenever_a_row_is_fetched(server: Server, expected: list[int]) -> None:
    with UniRecordDataset("s3://bucket/a.urec", shuffle=True, seed=1, storage_options=options(server)) as ds:
        assert [int(n) for batch in ds.batches(16) for n in batch["n"]] == expected
        server.fault = lambda request: Fault(flip=200)
        with pytest.raises(unirecord.CorruptionError, match=r"a\.urec"):
            list(ds.batches(16))
        server.fault = lambda request: None
        assert {row["n"] for row in ds[range(ROWS)]} == set(range(ROWS))


def test_random_schedules_of_faults_give_exact_values_or_errors(server: Server, tmp_path: Path) -> None:
    """A few of those that `make remote-faults` runs."""
    from remote_fault_schedules import run

    found = run(60, 0, tmp_path)
    assert found["exact"] > 10
    assert found.total() - found["exact"] > 10


def test_credentials_that_expire_are_asked_anew(
    server: Server, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SKIP_SIGNATURE", raising=False)
    asked: list[int] = []

    def credentials() -> dict[str, Any]:
        asked.append(1)
        return {
            "access_key_id": f"K{len(asked)}",
            "secret_access_key": SECRET,
            "token": None,
            "expires_at": None,
        }

    server.fault = lambda request: Fault(status=403) if request.number > 9 and len(asked) < 2 else None
    given = options(server, credential_provider=credentials)
    del given["skip_signature"]
    with UniRecordDataset("s3://bucket/a.urec", shuffle=True, seed=1, storage_options=given) as ds:
        assert [int(n) for batch in ds.batches(16) for n in batch["n"]] == expected
    assert len(asked) == 2


def test_credentials_that_are_refused_are_said_at_once(server: Server) -> None:
    server.fault = lambda request: Fault(status=403)
    with pytest.raises(OSError, match=r"403 Forbidden; check the credentials.*s3://bucket/a\.urec") as caught:
        epoch(server, secret_access_key=SECRET, access_key_id="K", skip_signature="false")
    assert SECRET not in str(caught.value)
    assert max(_times(server.requests).values()) == 1


@pytest.mark.parametrize("code", ["ExpiredToken", "TokenRefreshRequired"])
@pytest.mark.parametrize("status", [400, 403])
def test_credentials_that_have_expired_are_said_whatever_the_status(
    server: Server, status: int, code: str
) -> None:
    server.fault = lambda request: Fault(status=status, code=code)
    # the answer to HEAD has no body that could say so
    with pytest.raises(
        PermissionError, match=r"have expired: get new ones.*s3://bucket/train/manifest\.json"
    ):
        ObjectStore(storage_of(options(server))).read("s3://bucket/train/manifest.json", 100)


@pytest.mark.parametrize("status", [400, 403])
def test_credentials_that_expire_in_an_epoch_are_renewed_whatever_the_status(
    server: Server, expected: list[int], status: int
) -> None:
    asked: list[int] = []

    def credentials() -> dict[str, Any]:
        asked.append(1)
        return {"access_key_id": "K", "secret_access_key": SECRET, "token": None, "expires_at": None}

    server.fault = lambda request: (
        Fault(status=status, code="ExpiredToken") if request.number > 9 and len(asked) < 2 else None
    )
    given = options(server, credential_provider=credentials)
    del given["skip_signature"]
    with UniRecordDataset("s3://bucket/a.urec", shuffle=True, seed=1, storage_options=given) as ds:
        assert [int(n) for batch in ds.batches(16) for n in batch["n"]] == expected
    assert len(asked) == 2


SIGNED = {"skip_signature": "false", "access_key_id": "K", "secret_access_key": SECRET}


def _ask(server: Server, call: str, scheme: str) -> Any:
    """What a call gives of ``a.urec`` in the store, with a session token where there may be one."""
    given = storage_of(
        options(server, **SIGNED, session_token=SECRET)
        if scheme == "s3"
        else {"retry_config": QUICK, "default_headers": {"x-api-key": SECRET}}
    )
    root = "s3://bucket" if scheme == "s3" else f"{server.url}/bucket"
    location, writes = ObjectStore(given), ObjectWrites(given)
    calls: dict[str, Any] = {
        "find": lambda: location.find(f"{root}/a.urec"),
        "list": lambda: location.names(root),
        "read": lambda: location.read(f"{root}/a.urec", 10),
        "ranges": lambda: _raised(location.read_ranges([(f"{root}/a.urec", 0, 10)])),
        "several": lambda: _raised(location.read_ranges([(f"{root}/a.urec", i, 9) for i in range(40)])),
        "versioned": lambda: writes.read_versioned(f"{root}/a.urec"),
        "put": lambda: writes.put(f"{root}/new", b"content"),
        "delete": lambda: _raised([OSError(one) for one in writes.delete([f"{root}/new"])]),
    }
    return calls[call]()


def _raised(found: list[Any]) -> list[Any]:
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


CALLS = [("s3", call) for call in ("find", "list", "read", "ranges", "several", "versioned", "put", "delete")]
CALLS += [("http", call) for call in ("find", "read", "ranges", "several")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(("scheme", "call"), CALLS)
def test_a_redirect_to_another_host_is_never_followed(
    server: Server, root: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, call: str, status: int
) -> None:
    monkeypatch.setattr(object_store, "RETRIES", {"max_retries": 0})
    with serving(root) as other:
        there = f"http://localhost:{other.port}"
        server.fault = lambda request: Fault(status=status, location=f"{there}/{request.key}?{request.query}")
        with pytest.raises(OSError, match=re.escape("s3://" if scheme == "s3" else server.url)) as caught:
            _ask(server, call, scheme)
        assert call in ("put", "delete") or "redirects to another host" in str(caught.value)
        assert SECRET not in str(caught.value)
        assert server.requests
        assert not other.requests


@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_the_host_that_a_redirect_sends_to_is_read_by_its_name(
    server: Server, root: Path, scheme: str
) -> None:
    with serving(root) as other:
        server.fault = lambda request: Fault(
            status=307, location=f"http://localhost:{other.port}/{request.key}"
        )
        with pytest.raises(OSError, match="name the host where the data lie"):
            _ask(server, "read", scheme)
        assert _ask(other, "read", scheme) == (root / "bucket" / "a.urec").read_bytes()[:10]


def test_a_redirect_to_the_same_host_is_followed(server: Server, root: Path) -> None:
    with serving(root) as other:
        server.fault = lambda request: Fault(status=307, location=f"{other.url}/{request.key}")
        assert _ask(server, "read", "http") == (root / "bucket" / "a.urec").read_bytes()[:10]
        assert other.requests


def test_a_budget_of_requests_holds(
    server: Server, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    wait = pacing.RequestRate.wait
    monkeypatch.setattr(
        pacing.RequestRate, "wait", lambda self, now: waits.append(wait(self, now)) or waits[-1]
    )  # type: ignore[func-returns-value]
    assert epoch(server, max_requests_per_second=5_000) == expected
    assert len(waits) == len(server.requests)
    assert max(waits) > 0


def test_options_reach_the_store_and_go_with_the_dataset(
    root: Path, server: Server, expected: list[int]
) -> None:
    with UniRecordDataset("s3://bucket/a.urec", storage_options=options(server)) as ds:
        copy = pickle.loads(pickle.dumps(ds))
        assert [row["n"] for row in copy] == list(range(ROWS))
        assert not ds.refresh()
        copy.close()
    # without encryption, without the environment: also of the client, and by other names
    given = {
        "aws_endpoint_url": server.url,
        "aws_region": "r",
        "aws_skip_signature": "true",
        "allow_http": "true",
    }
    with UniRecordDataset("s3://bucket/a.urec", storage_options={**given, "timeout": "20s"}) as ds:
        assert ds[5]["n"] == 5


def test_one_name_in_two_stores_is_two_datasets(root: Path, server: Server, tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    with Writer(tmp_path / "bucket" / "a.urec", {"n": "int64"}) as writer:
        writer.write_batch({"n": np.arange(7)})
    with (
        serving(tmp_path) as other,
        UniRecordDataset("s3://bucket/a.urec", storage_options=options(server)) as a,
        UniRecordDataset("s3://bucket/a.urec", storage_options=options(other)) as b,
    ):
        assert (len(a), len(b)) == (ROWS, 7)
        assert (a[6]["n"], b[6]["n"]) == (6, 6)


def test_options_that_are_not_known_are_refused_without_their_values(server: Server, root: Path) -> None:
    for wrong, said in (
        ({"acess_key_id": SECRET}, "no storage option 'acess_key_id'; did you mean 'access_key_id'"),
        (
            {"client_options": {"time_out": SECRET}},
            "client_options has no 'time_out'; did you mean 'timeout'",
        ),
        ({"timeout": SECRET}, "storage options are refused: .*Duration"),
        ({"max_requests_per_second": 0}, "a number above 0"),
        ({"retry_config": {"retries": 2}}, "retry_config has no 'retries'"),
        ({"secret_access_key": [SECRET]}, "storage options are refused"),
    ):
        with pytest.raises(ValueError, match=said) as caught:
            epoch(server, **wrong)
        assert SECRET not in str(caught.value)
    with pytest.raises(ValueError, match="storage_options are of object stores"):
        UniRecordDataset(root / "bucket" / "a.urec", storage_options={"region": "r"})
    with pytest.raises(TypeError, match="a dict"):
        UniRecordDataset("s3://bucket/a.urec", storage_options="region=r")  # type: ignore[arg-type]


def test_secrets_are_not_shown(server: Server) -> None:
    given = options(server, access_key_id="K", secret_access_key=SECRET)
    with UniRecordDataset("s3://bucket/a.urec", storage_options=given) as ds:
        assert SECRET not in repr(ds) + repr(vars(ds)) + repr(ds.read_cursor.plan) + str(ds.state_dict())
        assert SECRET not in repr(ds.read_cursor.plan.data.snapshot)


def test_what_a_store_says_is_shown_without_signatures() -> None:
    said = str(failure("az://c/a", Exception(f"no answer from https://h/c/a?sig={SECRET} in 3ms")))
    assert "https://h/c/a?…" in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("status", "what_to_do"),
    [
        (301, "check endpoint and region"),
        (400, "check endpoint and region"),
        (401, "check the credentials"),
        (416, "has been cut"),
        (429, "is the store there"),
        (503, "is the store there"),
    ],
)
def test_whatever_the_store_answers_the_error_says_what_to_do(
    server: Server, status: int, what_to_do: str
) -> None:
    server.fault = lambda request: Fault(status=status)
    given = options(server, retry_config={**QUICK, "max_retries": 1})
    with pytest.raises(OSError, match=what_to_do) as caught:
        UniRecordDataset("s3://bucket/a.urec", storage_options=given)
    assert "s3://bucket/a.urec" in str(caught.value)
    server.fault = lambda _: None
    with UniRecordDataset("s3://bucket/a.urec", storage_options=given) as ds:
        server.fault = lambda request: Fault(status=status)
        with pytest.raises((OSError, unirecord.StaleError)) as late:
            ds.read_rows([7])
    assert isinstance(late.value, unirecord.StaleError) or re.search(
        rf"bytes \d+ to \d+ .*{what_to_do}.*a\.urec", str(late.value)
    )


def test_the_commands_take_storage_options(
    server: Server, root: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--storage-option", f"endpoint={server.url}", "--storage-option", "skip_signature=true"]
    given += ["--storage-option", "region=r", "--storage-option", "max_requests_per_second=100000"]
    for command in (["verify"], ["inspect", "--count"]):
        assert main([*command, "s3://bucket/a.urec", *given]) == 0, capsys.readouterr().err
    rows = tmp_path / "rows.csv"
    rows.write_text("n,s\n1,a\n2,b\n")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert main(["write", str(rows), "s3://bucket/written", *given]) == 0, capsys.readouterr().err
    assert main(["inspect", "s3://bucket/written", "--count", *given]) == 0
    assert f"{ROWS}" in capsys.readouterr().out
    for wrong, said in (
        (
            [str(root / "bucket" / "a.urec"), "--storage-option", "region=r"],
            "nothing that is named is in one",
        ),
        (["s3://bucket/a.urec", "--storage-option", "region"], "NAME=VALUE"),
        (["s3://bucket/a.urec", "--storage-option", "retry_config=3"], "retry_config is a dict"),
    ):
        assert main(["verify", *wrong]) == 2
        assert said in capsys.readouterr().err


def test_a_profile_is_read_by_the_package_that_knows_it(server: Server) -> None:
    with pytest.raises(ValueError, match="of s3:// alone"):
        UniRecordDataset(f"{server.url}/bucket/a.urec", storage_options={"profile": "p"})
    with pytest.raises((unirecord.UniRecordError, ValueError, OSError), match=r"boto3|profile"):
        UniRecordDataset("s3://bucket/a.urec", storage_options={"profile": "none such"})


def test_a_profile_that_is_not_there_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_session(profile_name: str) -> None:
        raise Exception(
            f"The config profile ({profile_name}) could not be found"
        )  # as botocore's, of its own kind

    for name in ("boto3", "obstore.auth.boto3"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["boto3"], "Session", no_session, raising=False)
    monkeypatch.setattr(sys.modules["obstore.auth.boto3"], "Boto3CredentialProvider", None, raising=False)
    with pytest.raises(unirecord.UniRecordError, match=r"'jobb' cannot be read: .*could not be found"):
        UniRecordDataset("s3://bucket/a.urec", storage_options={"profile": "jobb"})


@pytest.mark.parametrize(
    "said",
    ["Server returned non-2xx status code: 403 Forbidden: denied", "HTTP error: error sending request"],
)
def test_a_machine_without_credentials_is_told_which_there_are(said: str) -> None:
    """The client asks the machine's own metadata for them, whatever that answers."""
    error = Exception(
        f"Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 3ms - {said}"
    )
    assert "no credentials were found" in str(failure("s3://bucket/a", error))
