"""The layers hold: who may import whom, no cycles, who may write files, who may load the C module and frameworks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import in_shares
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "unirecord"

# The rooms, from the top down. A room may import only what stands below it, or after it in its own line.
LAYERS = re.findall(
    r"\w+",
    """
__init__ __main__ torch tf jax grain hf keras lightning mindspore ray arrow polars images
cli
frameworks
inspect convert examples
dataset
pipeline loading writing
query
order snapshot
format storage
core
migration_hints
errors sizes progress figures
""",
)

# Imports against that direction, made inside a function when it is called.
CALLED_FOR = {
    ("dataset", "frameworks"): "a DataLoader of PyTorch asks ds for a batch of samples",
    ("dataset", "inspect"): "a notebook shows ds, ds.head()",
    ("format", "inspect"): "a notebook shows ds.schema",
    ("pipeline", "frameworks"): "pipeline.to_torch(...), pipeline.to_jax(...)",
    ("loading", "frameworks"): "batch['tokens'].to_torch(...)",
}

# Third-party packages that every installation has; all others are imported when they are first needed.
INSTALLED = {"numpy", "cffi", "msgpack"}

# Their files have no name: memory that processes share.
HOLDS_SHARED_MEMORY = ("dataset/position.py", "frameworks/torch_collate.py", "pipeline/workers.py")

BUILD_SCRIPT = PACKAGE / "_build.py"

# How many files the package has at most. A new concept may raise it; a slice of one that is there does not.
MOST_FILES = 298

# Files that one neighbour alone imports, and why each is a concept of its own all the same. Sources, sinks and kinds of
# storage are known to their registries alone.
ONE_NEIGHBOUR = {
    "cli/write": "a command, whose options of a source another one has",
    "cli/trace": "a command, whose positions of a job another one uses",
    "convert/sources/plain_pickle": "reads hostile bytes, and is judged by itself",
    "convert/sources/tar_members": "reads hostile bytes, and is judged by itself",
    "dataset/samples": "how samples are read, one or many, beside what a dataset is",
    "dataset/split": "the rule of a split, which makes datasets and is none",
    "frameworks/hf_builder": "a module that Hugging Face's `datasets` copies and imports by itself",
    "inspect/receipts": "a file format's reader, beside what judges it",
    "pipeline/state": "what states of ranks say together, apart from how a pass runs",
    "snapshot/layers": "where columns are, beside how rows are read",
    "pipeline/producers": "an origin of a pipeline, as a dataset is one",
    "storage/requests": "the event loop of all requests, beside what a store asks",
    "inspect/pages": "what is shown, beside the server that shows it",
    "writing/object_change": "one of the two kinds of changes",
}

# What changes a file that has a name; a file without one (tempfile.TemporaryFile) is memory.
CHANGES_FILES = {
    "os": {
        *(
            "write",
            "writev",
            "pwrite",
            "pwritev",
            "fsync",
            "fdatasync",
            "truncate",
            "ftruncate",
            "posix_fallocate",
        ),
        *(
            "rename",
            "renames",
            "replace",
            "unlink",
            "remove",
            "rmdir",
            "removedirs",
            "mkdir",
            "makedirs",
            "mkfifo",
        ),
        *("link", "symlink", "sendfile", "copy_file_range", "utime", "chmod"),
    },
    "shutil": {"copy", "copy2", "copyfile", "copyfileobj", "copytree", "move", "rmtree"},
    "fcntl": {"flock", "lockf"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory", "mktemp"},
    "np": {"save", "savez", "savetxt", "memmap"},
}

CHANGES_ANY = {
    "write_text",
    "write_bytes",
    "unlink",
    "touch",
    "rename",
    "rmdir",
    "mkdir",
    "symlink_to",
    "hardlink_to",
    "tofile",
}

# What looks names up, lists them, or opens a file.
READS_FILES = {
    "os": {
        *("stat", "lstat", "fstat", "access", "listdir", "scandir", "walk", "fwalk", "readlink"),
        *("open", "read", "readv", "pread", "preadv"),
    },
    "os.path": {
        *("exists", "lexists", "isfile", "isdir", "islink", "ismount", "getsize", "getmtime", "getctime"),
        *("samefile", "realpath"),
    },
    "glob": {"glob", "iglob"},
    "io": {"open", "FileIO", "open_code"},
    "mmap": {"mmap"},
    "np": {"fromfile", "load", "loadtxt", "memmap"},
    "tempfile": {"TemporaryFile"},
}

READS_ANY = {
    *("exists", "is_file", "is_dir", "is_symlink", "iterdir", "rglob", "resolve", "lstat"),
    *("read_text", "read_bytes"),
}

# Raw data are the user's own files, /proc and cgroups the system's; a file without a name is memory.
READS_OTHER_FILES = {
    "convert",
    "pipeline/budget.py",
    "inspect/machine.py",  # asks the system about a place, not about datasets
    "cli/trace.py: open",  # a state or a checkpoint
    "cli/main.py: open",  # a script that the package brings along
    "cli/trace.py: Path(path).read_text",
    "examples.py",  # pictures that the package brings along
    "inspect/verify.py: tempfile.TemporaryFile",
}

READS_OTHER_FILES |= set(HOLDS_SHARED_MEMORY)


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != BUILD_SCRIPT)


def unit(path: Path) -> str:
    """The module or subpackage of the table that a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def statements(node: ast.AST, inside: bool = False, types: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every import below `node` and whether it stands in a function; those for the type checker alone if `types`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, inside
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not types:
            for other in child.orelse:
                yield from statements(other, inside, types)
        else:
            in_function = inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from statements(child, in_function, types)


def imported(path: Path, root: Path = PACKAGE, types: bool = False) -> Iterator[tuple[str, bool]]:
    """Dotted names that a file imports, absolute, and whether each is imported inside a function."""
    package = ["unirecord", *path.relative_to(root).parts[:-1]]
    for statement, inside in statements(tree(path), types=types):
        if isinstance(statement, ast.Import):
            yield from ((alias.name, inside) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            start = package[: len(package) - statement.level + 1] if statement.level else []
            base = ".".join([*start, *([statement.module] if statement.module else [])])
            yield from ((f"{base}.{alias.name}", inside) for alias in statement.names)


def test_every_module_stands_in_the_table_of_layers() -> None:
    missing = {unit(path) for path in modules()} - set(LAYERS)
    assert not missing, f"give these a place in LAYERS: {sorted(missing)}"


def test_modules_import_only_from_below() -> None:
    wrong = []
    for path in modules():
        here = unit(path)
        for name, inside in imported(path):
            parts = name.split(".")
            there = parts[1] if parts[0] == "unirecord" and len(parts) > 1 else None
            if there not in LAYERS or there == here or (inside and (here, there) in CALLED_FOR):
                continue
            if LAYERS.index(there) < LAYERS.index(here):
                wrong.append(f"{path.relative_to(ROOT)} imports {there}")
    assert not wrong, wrong


def neighbours(folder: Path, root: Path) -> dict[str, set[str]]:
    """What stands in a folder (modules and folders), and which of its neighbours each of them imports."""
    inside = ["unirecord", *folder.relative_to(root).parts]
    names = {p.stem if p.suffix else p.name for p in folder.iterdir() if p.suffix == ".py" or p.is_dir()}
    names -= {"__init__", "_build", "__pycache__"}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        module = folder / f"{name}.py"
        for path in [module] if module.exists() else (folder / name).rglob("*.py"):
            for dotted, _ in imported(path, root, types=True):
                parts = dotted.split(".")
                if (
                    parts[: len(inside)] == inside
                    and len(parts) > len(inside)
                    and parts[len(inside)] in names
                ):
                    graph[name].add(parts[len(inside)])
        graph[name].discard(name)
    return graph


def test_the_package_has_no_more_files_than_concepts() -> None:
    assert len(modules()) <= MOST_FILES


def test_a_file_that_serves_one_neighbour_alone_has_its_reason() -> None:
    importers: dict[str, set[str]] = {}
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules()}
    for name, path in known.items():
        for dotted, _ in imported(path, types=True):
            there = dotted if dotted in known else dotted.rpartition(".")[0]
            if there in known and there != name:
                importers.setdefault(there, set()).add(name)
    alone = {
        name.removeprefix("unirecord.").replace(".", "/")
        for name, by in importers.items()
        if len(by) == 1
        and (only := next(iter(by))).rpartition(".")[0] == name.rpartition(".")[0] != "unirecord"
        and not only.endswith((".__init__", ".kinds", ".schemes"))
    }
    assert alone == set(ONE_NEIGHBOUR)


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Names that import each other in a ring, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


ROOMS = sorted(
    {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}, key=lambda path: path.relative_to(PACKAGE)
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_inside_a_room_nothing_imports_what_imports_it(room: Path) -> None:
    """Imports made in functions and for the type checker count: to a reader they are dependencies as well."""
    ring = cycle(neighbours(room, PACKAGE))
    assert not ring, f"in {room.relative_to(ROOT)}: " + " -> ".join(ring)


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_does_not_import_the_front_door_of_its_own_room(room: Path) -> None:
    own = [".".join(["unirecord", *room.relative_to(PACKAGE).parts])]
    taken = {node.name for node in tree(room / "__init__.py").body if isinstance(node, ast.FunctionDef)}
    taken |= {name.rsplit(".", 1)[1] for name, _ in imported(room / "__init__.py")}
    modules_here = {path.stem for path in room.iterdir()}
    wrong = [
        f"{path.name}: {dotted}"
        for path in room.glob("*.py")
        if path.name != "__init__.py"
        for dotted, _ in imported(path, types=True)
        if dotted.rsplit(".", 1)[0] in own and dotted.rsplit(".", 1)[1] in taken - modules_here
    ]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "late",
    ["from .b import x", "def f():\n    from . import b", "if TYPE_CHECKING:\n    from .deep.c import x"],
    ids=["module", "function", "types"],
)
def test_the_check_on_cycles_sees(late: str, tmp_path: Path) -> None:
    room = tmp_path / "room"
    (room / "deep").mkdir(parents=True)
    (room / "a.py").write_text(late)
    (room / "b.py").write_text("import os\nfrom .deep import c")
    (room / "deep" / "c.py").write_text("from ..a import y")
    assert set(cycle(neighbours(room, tmp_path))) >= {"a", "deep"}


def test_only_the_core_room_loads_the_c_module() -> None:
    users = {
        unit(path)
        for path in modules()
        for name, _ in imported(path)
        if name.startswith(("unirecord._core", "unirecord._jpeg"))
    }
    assert users == {"core"}


# What a framework imports by its name, and nothing of ours does before it is asked to.
IMPORTED_BY = {
    "unirecord/frameworks/hf_builder.py": {"datasets"},
    "unirecord/frameworks/hf.py": {"datasets"},
    "unirecord/frameworks/polars.py": {"polars", "pyarrow"},
    "unirecord/frameworks/arrow.py": {"pyarrow"},
}


def test_frameworks_are_imported_when_they_are_needed() -> None:
    allowed = INSTALLED | set(sys.stdlib_module_names) | {"unirecord"}
    early = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        for name, inside in imported(path)
        if not inside
        and name.split(".")[0] not in allowed | IMPORTED_BY.get(str(path.relative_to(ROOT)), set())
    ]
    assert not early, early


def test_importing_the_package_loads_no_framework() -> None:
    code = (
        "import sys, unirecord\n"
        "for name in unirecord.__all__: getattr(unirecord, name)\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heavy = {"torch", "tensorflow", "torchdata", "pandas", "pyarrow", "duckdb", "PIL", "xxhash", "pytest"}
    assert not heavy & set(done.stdout.split())


def file_changes(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module in CHANGES_FILES:
            yield from (
                f"from {node.module} import {a.name}"
                for a in node.names
                if a.name in CHANGES_FILES[node.module]
            )
        if not isinstance(node, ast.Call):
            continue
        call = node.func
        if isinstance(call, ast.Attribute):
            owner = call.value.id if isinstance(call.value, ast.Name) else ""
            if call.attr in CHANGES_FILES.get(owner, ()) or (
                owner not in CHANGES_FILES and call.attr in CHANGES_ANY
            ):
                yield ast.unparse(call)
        name = call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")
        if name in {"open", "fdopen"} and opens_for_writing(node):
            yield ast.unparse(node)


def opens_for_writing(node: ast.Call) -> bool:
    """Whether a call named ``open`` asks for a mode or for flags with which a file can be changed."""
    if "os.devnull" in ast.unparse(node):
        return False
    asked = [*node.args, *(keyword.value for keyword in node.keywords)]
    flags = {n.attr for argument in asked for n in ast.walk(argument) if isinstance(n, ast.Attribute)}
    modes = {a.value for a in asked if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return bool(flags & {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}) or any(
        re.fullmatch(r"[rwaxbt+]{1,4}", mode) and set(mode) & set("wax+") for mode in modes
    )


def test_only_the_storage_room_changes_files() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in modules()
        if unit(path) != "storage" and path.relative_to(PACKAGE).as_posix() not in HOLDS_SHARED_MEMORY
        for call in file_changes(path)
    ]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "call", ["open(p, 'wb')", "os.open(p, os.O_RDWR)", "os.rename(a, b)", "p.unlink()", "os.fsync(f)"]
)
def test_the_check_on_file_changes_sees(call: str, tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(call)
    assert list(file_changes(source))


def file_reads(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module in READS_FILES:
            yield from (f"{node.module}.{a.name}" for a in node.names if a.name in READS_FILES[node.module])
        if not isinstance(node, ast.Call) or "os.devnull" in ast.unparse(node):
            continue
        call = node.func
        if isinstance(call, ast.Name) and call.id == "open":
            yield "open"
        elif isinstance(call, ast.Attribute):
            owner = ast.unparse(call.value)
            if call.attr in READS_FILES.get(owner, ()) or (
                owner not in READS_FILES and call.attr in READS_ANY
            ):
                yield ast.unparse(call)


def test_only_the_storage_room_looks_up_lists_and_opens_files() -> None:
    wrong = []
    for path in modules():
        name = path.relative_to(PACKAGE).as_posix()
        if unit(path) not in {"storage", *READS_OTHER_FILES} and name not in READS_OTHER_FILES:
            found = (f"{name}: {call}" for call in file_reads(path))
            wrong += [call for call in found if call not in READS_OTHER_FILES]
    assert not wrong, f"unirecord.storage.schemes.location_of knows where these lie: {wrong}"


@pytest.mark.parametrize(
    "call",
    [
        *("open(p)", "os.open(p, 0)", "os.path.isdir(p)", "os.listdir(p)", "from glob import glob"),
        *("p.read_bytes()", "os.pread(fd, 1, 0)", "np.fromfile(p)", "glob.glob(p)"),
    ],
)
def test_the_check_on_file_reads_sees(call: str, tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(call)
    assert list(file_reads(source))


def test_nothing_depends_on_who_calls() -> None:
    """No module looks at the frames of its callers, by which behaviour would hang on their names and variables."""
    frames = {"_getframe", "currentframe", "_current_frames", "f_back", "f_locals", "f_globals", "f_code"}
    for path in modules():
        used = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)} & frames
        assert not used, f"{path}: {used}"


# What a forked child may find held or half changed by a thread that it does not have, and what stands for it (core).
NOT_FOR_CHILDREN = {
    "Lock": "Locked",
    "RLock": "Locked",
    "Condition": "Locked",
    "Semaphore": "Locked",
    "BoundedSemaphore": "Locked",
    "Barrier": "Locked",
    "Queue": "Locked, and a deque",
    "WeakSet": "WeakObjects",
    "register_at_fork": "all_forks() or os.getpid(), when it is used next: a signal breaks off a hook in Python",
}

# One pass, one query or one server is of the process that began it: a child asks it for nothing.
OF_ONE_PROCESS = (
    *("pipeline/scheduler.py", "pipeline/producers.py", "order/selection.py", "query/scan.py"),
    *("inspect/pages.py", "inspect/server.py"),
)
KEEPS_FORKS = ("core/process.py", "core/process.py")


def not_for_children(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "functools":
            yield from (
                "cached_property: core has one without a lock"
                for a in node.names
                if a.name == "cached_property"
            )
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in NOT_FOR_CHILDREN:
                yield f"{name}: {NOT_FOR_CHILDREN[name]}"


def test_what_a_forked_child_may_touch_has_no_lock_of_its_parents_threads() -> None:
    wrong = [
        f"{name}: {call}"
        for path in modules()
        if (name := path.relative_to(PACKAGE).as_posix()) not in (*OF_ONE_PROCESS, *KEEPS_FORKS)
        for call in not_for_children(path)
    ]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "call",
    [
        "threading.Lock()",
        "from functools import cached_property",
        "WeakSet()",
        "os.register_at_fork(before=f)",
    ],
)
def test_the_check_on_forks_sees(call: str, tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(call)
    assert list(not_for_children(source))


def test_every_module_says_its_one_job_first() -> None:
    silent = [
        str(path.relative_to(ROOT)) for path in modules() if not (ast.get_docstring(tree(path)) or "").strip()
    ]
    assert not silent, silent


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a clone")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_what_only_one_machine_has() -> None:
    only_here = re.compile(
        rb"\.\./" + rb"shared|/(root|home|work)" + rb"/\w|index-" + rb"url|find-" + rb"links"
    )
    wrong = [str(path.relative_to(ROOT)) for path in tracked() if only_here.search(path.read_bytes())]
    assert not wrong, wrong


def test_files_are_named_after_what_they_do() -> None:
    vague = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if re.search(r"util|helper|manager|misc|common", path.stem)
    ]
    assert not vague, vague


@pytest.mark.parametrize("core", [False, True])
def test_every_file_of_tests_is_run_in_one_share(core: bool) -> None:
    run = [path for share in in_shares.shares(core) for path in share]
    assert sorted(run) == sorted(in_shares.files(core))
    assert all(path.exists() for path in run)
    assert all(in_shares.shares(core))
